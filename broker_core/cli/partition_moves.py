"""`streamlog partitions reassign`: partitions get other replicas."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from broker_core.cli.admin_place import Partition, Servers, Topic, open_admin_at
from broker_core.cli.cluster_place import CommandConfig
from broker_core.cli.error_sentence import UsageError
from broker_core.cli.exit_status import ERROR
from broker_core.cli.partition_columns import ids_text
from broker_core.cli.reassignment_file import check_replicas, read_reassignments
from broker_core.cli.screen import Column, counted, note, partition_json, show_json, show_table
from broker_core.model.exceptions import BrokerError, UnknownPartitionError
from broker_core.model.identifiers import TopicPartition

if TYPE_CHECKING:
    from broker_core.client.cluster_admin import ClusterAdmin, Outcomes, Reassignment

EXAMPLE: Final = (
    "Example: streamlog partitions reassign --bootstrap-server localhost:9092 --topic orders --replicas 1,2,3 --dry-run"
)
_PROGRESS: Final = "'streamlog partitions reassign --list' shows those that go on"

Replicas = dict[TopicPartition, tuple[int, ...]]


def reassign(
    bootstrap_server: Servers = None,
    command_config: CommandConfig = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file",
            metavar="FILE",
            help="Partitions and their replicas, as for kafka-reassign-partitions.",
            show_default=False,
        ),
    ] = None,
    topic: Topic = None,
    partition: Partition = None,
    replicas: Annotated[
        str | None,
        typer.Option(
            "--replicas",
            metavar="IDS",
            help="The brokers, 1,2,3; without --partition each partition of the topic begins with the next.",
            show_default=False,
        ),
    ] = None,
    list_them: Annotated[bool, typer.Option("--list", help="List the reassignments that go on.")] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="Call reassignments off.")] = False,
    all_partitions: Annotated[bool, typer.Option("--all", help="With --cancel: every one that goes on.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the replicas before and after.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Give partitions other replicas. The first one is the preferred leader.

    New replicas copy the partition first and the old ones leave when they are in sync, so the command returns before
    the end. JSON of a --list has all replicas with those that are added and removed.
    """
    _check_options(file, topic, partition, replicas, list_them, cancel, all_partitions, dry_run)
    asked = None if file is None else read_reassignments(file)
    wanted = None if replicas is None else _ids(replicas)
    with open_admin_at(bootstrap_server, command_config) as admin:
        if list_them:
            _show_list([each for each in admin.reassignments() if _is_chosen(each, topic, partition)], as_json)
            return
        if cancel:
            _cancel(admin, asked, topic, partition, dry_run=dry_run, as_json=as_json)
            return
        if asked is None:
            assert topic is not None and wanted is not None, "was checked"
            asked = _of_topic(admin, topic, partition, wanted)
        _begin(admin, asked, dry_run=dry_run, as_json=as_json)


def partitions_of(admin: ClusterAdmin, topic: str, number: int | None) -> list[TopicPartition]:
    """The partitions of a topic, or one of them. Raises UnknownTopicError, UnknownPartitionError."""
    found = [each.partition for each in admin.placements([topic])]
    if number is None:
        return found
    chosen = TopicPartition(topic, number)
    if chosen not in found:
        raise UnknownPartitionError(
            f"Topic '{topic}' has no partition {number}: it has {counted(len(found), 'partition')}.",
            topic=topic,
            partition=number,
        )
    return [chosen]


def _check_options(
    file: Path | None,
    topic: str | None,
    partition: int | None,
    replicas: str | None,
    list_them: bool,
    cancel: bool,
    all_partitions: bool,
    dry_run: bool,
) -> None:
    if list_them and (cancel or dry_run or file is not None or replicas is not None or all_partitions):
        raise UsageError("--list takes no other option than --topic, --partition and --json")
    if partition is not None and topic is None:
        raise UsageError("--partition needs --topic")
    if list_them:
        return
    if cancel:
        if replicas is not None or (file is not None) + (topic is not None) + all_partitions != 1:
            raise UsageError("--cancel takes --file FILE, --topic NAME or --all, and no --replicas")
        return
    if all_partitions:
        raise UsageError("--all needs --cancel")
    if (file is None) == (topic is None) or (topic is None) != (replicas is None):
        raise UsageError("give --file FILE, or --topic NAME with --replicas 1,2,3; or --list, or --cancel")


def _ids(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise UsageError(f"--replicas {text}: give broker ids, separated by commas")
    return check_replicas(tuple(map(int, parts)), f"--replicas {text}")


def _of_topic(admin: ClusterAdmin, topic: str, number: int | None, wanted: Sequence[int]) -> Replicas:
    """Of all partitions each begins with the next broker, so that all of them lead."""
    chosen = partitions_of(admin, topic, number)
    if number is not None:
        return {chosen[0]: tuple(wanted)}
    return {each: _rotated(wanted, each.partition) for each in chosen}


def _rotated(ids: Sequence[int], by: int) -> tuple[int, ...]:
    first = by % len(ids)
    return (*ids[first:], *ids[:first])


def _begin(admin: ClusterAdmin, asked: Replicas, *, dry_run: bool, as_json: bool) -> None:
    before = _replicas_now(admin, asked)
    if dry_run:
        _require_brokers(admin, asked)
    outcomes: Outcomes = {} if dry_run else admin.reassign(asked)
    _show_moves(before, asked, outcomes, as_json=as_json)
    begun = len(asked) - sum(error is not None for error in outcomes.values())
    if dry_run:
        note(f"a dry run: {counted(len(asked), 'partition')} would be reassigned")
    else:
        note(f"{counted(begun, 'partition')} reassigned; {_PROGRESS}")
    _fail_if_any(outcomes)


def _cancel(
    admin: ClusterAdmin,
    asked: Replicas | None,
    topic: str | None,
    number: int | None,
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    going_on = admin.reassignments()
    if asked is None:
        chosen = [each.partition for each in going_on if _is_chosen(each, topic, number)]
        if topic is not None and not chosen:
            partitions_of(admin, topic, number)
    else:
        chosen = sorted(asked)
    after = {
        each.partition: tuple(replica for replica in each.replicas if replica not in each.adding) for each in going_on
    }
    before = {each.partition: each.replicas for each in going_on}
    outcomes: Outcomes = {} if dry_run or not chosen else admin.reassign(dict.fromkeys(chosen))
    shown = {partition: after[partition] for partition in chosen if partition in after}
    _show_moves(before, shown, outcomes, as_json=as_json)
    ended = len(chosen) - sum(error is not None for error in outcomes.values())
    what = counted(ended, "reassignment")
    note(f"a dry run: {what} would be called off" if dry_run else f"called {what} off")
    _fail_if_any(outcomes)


def _is_chosen(found: Reassignment, topic: str | None, number: int | None) -> bool:
    return topic in (None, found.partition.topic) and number in (None, found.partition.partition)


def _replicas_now(admin: ClusterAdmin, partitions: Collection[TopicPartition]) -> Replicas:
    """Raises UnknownTopicError, UnknownPartitionError."""
    found = {each.partition: each.replicas for each in admin.placements(sorted({each.topic for each in partitions}))}
    for partition in partitions:
        if partition not in found:
            raise UnknownPartitionError(
                f"Topic '{partition.topic}' has no partition {partition.partition}.",
                topic=partition.topic,
                partition=partition.partition,
            )
    return found


def _require_brokers(admin: ClusterAdmin, asked: Replicas) -> None:
    known = {each.broker_id for each in admin.brokers()}
    for partition, replicas in sorted(asked.items()):
        for replica in replicas:
            if replica not in known:
                raise BrokerError(f"{partition}: broker {replica} is not registered in the cluster")


def _show_list(found: Sequence[Reassignment], as_json: bool) -> None:
    if as_json:
        show_json(
            [
                {
                    **partition_json(each.partition),
                    "replicas": list(each.replicas),
                    "adding": list(each.adding),
                    "removing": list(each.removing),
                }
                for each in found
            ]
        )
        return
    if not found:
        note("no reassignment goes on")
        return
    show_table(
        [*_PLACE_COLUMNS, *(Column(heading=heading) for heading in ("replicas", "adding", "removing"))],
        [
            (*_place(each.partition), ids_text(each.replicas), ids_text(each.adding), ids_text(each.removing))
            for each in found
        ],
    )


_PLACE_COLUMNS: Final = (Column(heading="topic"), Column(heading="partition", is_number=True))


def _place(partition: TopicPartition) -> tuple[str, str]:
    return partition.topic, str(partition.partition)


def _show_moves(
    before: Mapping[TopicPartition, tuple[int, ...]], after: Replicas, outcomes: Outcomes, *, as_json: bool
) -> None:
    if as_json:
        show_json(
            [
                {
                    **partition_json(partition),
                    "before": list(before[partition]),
                    "after": list(replicas),
                    "error": None if (error := outcomes.get(partition)) is None else error.message,
                }
                for partition, replicas in sorted(after.items())
            ]
        )
    elif after:
        show_table(
            [*_PLACE_COLUMNS, Column(heading="before"), Column(heading="after")],
            [
                (*_place(partition), ids_text(before[partition]), ids_text(replicas))
                for partition, replicas in sorted(after.items())
                if outcomes.get(partition) is None
            ],
        )


def _fail_if_any(outcomes: Outcomes) -> None:
    errors = [error for _, error in sorted(outcomes.items()) if error is not None]
    for error in errors:
        note(f"streamlog: {error.message}")
    if errors:
        raise typer.Exit(ERROR)
