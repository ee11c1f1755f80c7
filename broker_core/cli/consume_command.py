"""`streamlog consume TOPIC`: prints the values of a topic, one per line, up to the current end or with --follow."""

from __future__ import annotations

import select
import signal
import sys
from enum import StrEnum
from typing import Annotated, Final

import typer

from broker_core.cli.cluster_place import Brokers, CommandConfig, LogLocation, open_cluster
from broker_core.cli.consumed_topic import ConsumedTopic
from broker_core.cli.error_sentence import UsageError
from broker_core.cli.group_commits import GroupCommits
from broker_core.cli.last_records import start_of_last
from broker_core.cli.object_place import ObjectUrl
from broker_core.cli.partition_consumer import PartitionConsumer
from broker_core.cli.record_text import Format, columns_of, renderer
from broker_core.cli.record_writer import RecordWriter
from broker_core.cli.screen import SILENT, byte_progress
from broker_core.cli.start_offsets import FORMS, Start, parse_start, resolve_start
from broker_core.cli.stop_signals import StopSignals
from broker_core.cluster import Cluster
from broker_core.model.identifiers import IsolationLevel, OffsetSpec, TopicPartition

EXAMPLE: Final = "Example: streamlog consume orders --path /data/log"

POLL_SECONDS: Final = 0.1
"""How often --follow looks for new records: often enough for a person, at a low cost."""
OBJECT_POLL_SECONDS: Final = 1.0
"""The same on object storage, where each look is a paid request."""


class Isolation(StrEnum):
    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic.", show_default=False)],
    path: LogLocation = None,
    bootstrap_server: Brokers = None,
    command_config: CommandConfig = None,
    start: Annotated[
        str | None, typer.Option("--from", metavar="WHERE", help=f"{FORMS}.", show_default="earliest")
    ] = None,
    last: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Read the last N records of each partition.")
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            metavar="GROUP",
            help="Start at the committed offsets of this group, and commit what was written. --from applies where it "
            "has none.",
            show_default=False,
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for new records at the end, until Ctrl-C.")
    ] = False,
    partition: Annotated[int | None, typer.Option(min=0, metavar="N", help="Read only this partition.")] = None,
    form: Annotated[
        Format,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="text: the bytes of the value; json: an object a line, exact; full: all fields, for people.",
        ),
    ] = Format.TEXT,
    isolation: Annotated[
        Isolation,
        typer.Option(
            metavar="LEVEL", help="read_committed, or read_uncommitted to read open and aborted transactions too."
        ),
    ] = Isolation.READ_COMMITTED,
) -> None:
    """Print each value on a line, partition by partition, up to the present end.

    A null value is the word null. On a terminal control characters are escaped. A pipe or file gets the exact bytes,
    which may hold line ends: with --format json each record is one line.
    """
    _refuse_with_last(last, start=start, group=group)
    beginning = parse_start(start or "earliest")
    level = IsolationLevel[Isolation(isolation).name]
    poll_seconds = OBJECT_POLL_SECONDS if isinstance(path, ObjectUrl) else POLL_SECONDS
    form = Format(form)
    with open_cluster(path, bootstrap_server, command_config) as cluster:
        consumed = ConsumedTopic(cluster, topic, only=partition)
        commits = GroupCommits(cluster, group, {topic: consumed.topic_id}) if group is not None else None
        starts = _starts(cluster, commits, consumed.partitions(), beginning, last, level)
        readers = _readers(cluster, consumed, starts, level, form)
        writer = RecordWriter(cluster, readers, renderer(form, to_terminal=sys.stdout.isatty()), level, commits)
        with _stop_signals(commits) as stop, consumed.watched():
            # A bar would interleave with text on the terminal; it is shown if the output is a pipe or file.
            with byte_progress(f"reading {topic}", is_shown=not sys.stdout.isatty()) as progress:
                writer.write_present(stop, progress)
            while follow and stop.received is None:
                select.select([stop.descriptor], [], [], poll_seconds)
                if added := consumed.maybe_added():
                    # All of their records came after the command began.
                    starts = _starts(cluster, commits, added, OffsetSpec.EARLIEST, None, level)
                    writer.add(_readers(cluster, consumed, starts, level, form))
                writer.write_present(stop, SILENT)
    raise typer.Exit(stop.exit_code)


def _refuse_with_last(last: int | None, *, start: str | None, group: str | None) -> None:
    for option, value in (("--from", start), ("--group", group)):
        if value is not None and last is not None:
            raise UsageError(f"{option} and --last exclude each other: give one of them")


def _stop_signals(commits: GroupCommits | None) -> StopSignals:
    """Without a group there is nothing to commit: Ctrl-C ends the command at once."""
    return StopSignals() if commits is not None else StopSignals((signal.SIGINT,), is_interrupting=True)


def _starts(
    cluster: Cluster,
    commits: GroupCommits | None,
    partitions: list[TopicPartition],
    beginning: Start,
    last: int | None,
    level: IsolationLevel,
) -> dict[TopicPartition, int]:
    """The first offset to read of each partition: the group's, or `last` records before the end, if given."""
    if commits is not None:
        return commits.begin(partitions, beginning, level)
    if last is None:
        return resolve_start(cluster, partitions, beginning, level)
    return {partition: start_of_last(cluster, partition, last, level) for partition in partitions}


def _readers(
    cluster: Cluster,
    consumed: ConsumedTopic,
    starts: dict[TopicPartition, int],
    level: IsolationLevel,
    form: Format,
) -> list[PartitionConsumer]:
    columns, topic_id = columns_of(form), consumed.topic_id
    return [
        PartitionConsumer(cluster, partition, offset, isolation=level, columns=columns, topic_id=topic_id)
        for partition, offset in starts.items()
    ]
