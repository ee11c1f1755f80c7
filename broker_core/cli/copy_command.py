"""`streamlog log copy`: topics from one log to another, of any kind."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from broker_core.cli.copy_places import open_place
from broker_core.cli.error_sentence import UsageError, sentence
from broker_core.cli.exit_status import ERROR
from broker_core.cli.screen import Column, counted, note, partition_json, show_json, show_table, step_progress
from broker_core.cluster import Cluster, TopicDescription
from broker_core.model.exceptions import UnknownTopicError

if TYPE_CHECKING:
    from broker_core.log_copy.copy_plan import PartitionCopy, TopicCopy
    from broker_core.log_copy.group_copy import CopiedGroups
    from broker_core.log_copy.log_copy import CopiedPartition, CopyPlan, CopyResult, TopicFailure

EXAMPLE: Final = "Example: streamlog log copy /data/log s3://bucket/log --topic 'orders*'"

Place = Annotated[str, typer.Argument(metavar="FROM", help="The log to read.", show_default=False)]
TargetPlace = Annotated[str, typer.Argument(metavar="TO", help="The log to write.", show_default=False)]


def copy(
    source: Place,
    target: TargetPlace,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Only this topic; may be repeated, and may be a pattern with * and ?.",
            show_default="all topics",
        ),
    ] = None,
    groups: Annotated[
        bool, typer.Option("--groups", help="Also copy the offsets that groups have committed in these topics.")
    ] = False,
    renumber: Annotated[
        bool,
        typer.Option("--renumber", help="To brokers: give the records new offsets where the source has gaps."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be copied; nothing is written.")
    ] = False,
    from_config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Properties file for FROM: see --command-config.", show_default=False),
    ] = None,
    to_config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Properties file for TO: see --command-config.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Copy topics with their settings from one log to another.

    FROM and TO are each a directory, the URL of an object store (s3://bucket/log), or HOST:PORT of brokers. Offsets,
    timestamps, headers, keys and compression stay as they are. Aborted records are left out, and a partition ends
    before its first open transaction. If the command is stopped, run it again: it goes on where it was.
    """
    if source.rstrip("/") == target.rstrip("/"):
        raise UsageError(f"FROM and TO are the same log: {source}")
    if renumber and groups:
        raise UsageError("--groups and --renumber exclude each other: the groups' offsets would not fit the new ones")
    # Imported here, so that --help and a wrong argument are answered at once.
    from broker_core.log_copy.group_copy import copy_groups
    from broker_core.log_copy.log_copy import LogCopy

    with (
        open_place(source, from_config, config_option="--from-config") as from_log,
        open_place(target, to_config, config_option="--to-config", create=True) as to_log,
    ):
        job = LogCopy(from_log, to_log, renumbers=renumber)
        plan = job.plan(_chosen(from_log, topic or []))
        if dry_run:
            _show_plan(plan, as_json=as_json)
            _end_with_failures(plan.failures)
            return
        _tell_progress(plan.topics)
        with step_progress("copying") as progress:
            result = job.run(plan, progress)
        copied_groups = copy_groups(from_log, to_log, result.partitions) if groups else None
    if as_json:
        show_json(_result_json(result, copied_groups))
    else:
        _tell_result(result, copied_groups)
    for one in result.partitions:
        _tell_blocked(one.copy)
    _end_with_failures(result.failures, copied_groups)


def _chosen(cluster: Cluster, patterns: Sequence[str]) -> list[TopicDescription]:
    """The topics by name, without internal ones. Each pattern must fit one."""
    topics = [found for _, found in sorted(cluster.describe_topics().items()) if not found.is_internal]
    for pattern in patterns:
        if not any(fnmatchcase(found.name, pattern) for found in topics):
            raise UnknownTopicError(f"no topic of the source is called {pattern!r}", topic=pattern)
    if not patterns:
        return topics
    return [found for found in topics if any(fnmatchcase(found.name, pattern) for pattern in patterns)]


def _tell_progress(plan: Sequence[TopicCopy]) -> None:
    for topic in plan:
        for copy in topic.partitions:
            if copy.goes_on and copy.offset_count:
                note(f"{copy.partition} goes on at offset {copy.from_offset:,} of {copy.until_offset:,}")


def _tell_result(result: CopyResult, groups: CopiedGroups | None) -> None:
    copied = result.partitions
    records = sum(one.record_count for one in copied)
    size_bytes = sum(one.size_bytes for one in copied)
    topics = len({one.copy.partition.topic for one in copied})
    text = f"copied {counted(records, 'record')} ({size_bytes:,} bytes) of {counted(topics, 'topic')}"
    if groups is not None:
        text += f", and the offsets of {counted(len(groups.groups), 'group')}"
    renumbered = sum(one.copy.renumbers for one in copied)
    if renumbered:
        text += f"; {counted(renumbered, 'partition')} with new offsets"
    note(text)


def _tell_blocked(copy: PartitionCopy) -> None:
    if copy.blocked_offset_count:
        note(
            f"{copy.partition}: stopped at offset {copy.until_offset:,}, the first of an open transaction;"
            f" {counted(copy.blocked_offset_count, 'offset')} from there on can be copied when it has ended"
        )


def _end_with_failures(failures: Sequence[TopicFailure], groups: CopiedGroups | None = None) -> None:
    """One sentence for each topic and group; nothing else is stopped by them."""
    lines = [
        f"topic '{failure.topic}' was not copied{' completely' if failure.is_begun else ''}: {sentence(failure.error)}"
        for failure in failures
    ]
    if groups is not None:
        lines += [
            f"the offsets of group '{name}' were not copied: {sentence(error)}" for name, error in groups.failures
        ]
    for line in lines:
        note(f"streamlog: {line}")
    if lines:
        raise typer.Exit(ERROR)


def _show_plan(plan: CopyPlan, *, as_json: bool) -> None:
    copies = [copy for topic in plan.topics for copy in topic.partitions]
    if as_json:
        show_json([_plan_json(copy) for copy in copies])
        return
    show_table(
        [
            Column(heading="partition"),
            Column(heading="from\noffset", is_number=True),
            Column(heading="until\noffset", is_number=True),
            Column(heading="offsets", is_number=True),
            Column(heading="target\nends at", is_number=True),
        ],
        [
            (copy.partition, copy.from_offset, copy.until_offset, copy.offset_count, copy.target_offset)
            for copy in copies
        ],
    )
    for copy in copies:
        _tell_blocked(copy)


def _plan_json(copy: PartitionCopy) -> dict[str, Any]:
    return {
        **partition_json(copy.partition),
        "from_offset": copy.from_offset,
        "until_offset": copy.until_offset,
        "target_offset": copy.target_offset,
        "blocked_offsets": copy.blocked_offset_count,
    }


def _result_json(result: CopyResult, groups: CopiedGroups | None) -> dict[str, Any]:
    return {
        "partitions": [_copied_json(one) for one in result.partitions],
        "groups": [] if groups is None else list(groups.groups),
        "failures": [{"topic": one.topic, "error": sentence(one.error)} for one in result.failures]
        + [{"group": name, "error": sentence(error)} for name, error in (groups.failures if groups else ())],
    }


def _copied_json(one: CopiedPartition) -> dict[str, Any]:
    return {
        **_plan_json(one.copy),
        "records": one.record_count,
        "bytes": one.size_bytes,
        "target_end_offset": one.target_end_offset,
        "renumbered": one.copy.renumbers,
    }
