"""`streamlog log segments | dump | verify | maintain | copy`: inspects, maintains and copies the storage of a log."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from broker_core.cli import copy_command
from broker_core.cli.batch_dump import read_batch_bytes, write_batch, write_records
from broker_core.cli.cluster_place import CommandConfig
from broker_core.cli.error_sentence import UsageError
from broker_core.cli.exit_status import DAMAGE_FOUND, ERROR
from broker_core.cli.log_directory import LogPath, open_log
from broker_core.cli.maintenance_text import maintenance_json, show_maintenance
from broker_core.cli.object_log_inspection import (
    dump_ranges,
    foreign_line,
    maintain_objects,
    object_maintenance_json,
    ranges_of,
    show_object_maintenance,
    verify_ranges,
)
from broker_core.cli.object_place import ObjectUrl, open_object_log
from broker_core.cli.screen import (
    Column,
    byte_progress,
    counted,
    counted_partitions,
    format_timestamp,
    note,
    partition_json,
    show_json,
    show_table,
    step_progress,
)
from broker_core.cluster import Cluster, TopicDescription
from broker_core.model.exceptions import UnknownPartitionError
from broker_core.model.identifiers import TopicPartition
from broker_core.model.topic_config import TopicConfig
from broker_core.model.topic_name import is_internal_topic, partition_folder
from broker_core.storage.os_file_system import OsFileSystem
from broker_core.storage.readable_partition import ReadablePartition
from broker_core.storage.unfinished_swaps import SwapsFinished
from broker_core.storage.verification import Finding
from broker_core.topic_producer import describe_existing

if TYPE_CHECKING:
    from broker_core.object_cluster.foreign_objects import ForeignObject

app = typer.Typer(
    help="Inspect, verify and maintain the files of a log directory, or the objects of a log on object storage; copy "
    "topics from one log to another.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

OneTopic = Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic.", show_default=False)]
AnyTopic = Annotated[str | None, typer.Argument(metavar="TOPIC", help="Name of a topic.", show_default="all topics")]
OnePartition = Annotated[int | None, typer.Option("--partition", min=0, metavar="N", help="Only this partition.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def segments(
    path: LogPath,
    topic: AnyTopic = None,
    partition: OnePartition = None,
    as_json: AsJson = False,
    command_config: CommandConfig = None,
) -> None:
    """List the segments of each partition; on object storage the ranges in objects."""
    if isinstance(path, ObjectUrl):
        with open_object_log(path, command_config) as cluster:
            described = ranges_of(cluster, _all_partitions(cluster, topic, partition))
    else:
        _refuse_config(command_config)
        described = [(where, one) for where, store in _stores(path, topic, partition) for one in store.segments()]
    found = [
        (where, one.base_offset, one.next_offset, one.size_bytes, one.max_timestamp_ms, one.is_active, one.path)
        for where, one in described
    ]
    if as_json:
        names = ("base_offset", "next_offset", "size_bytes", "max_timestamp_ms", "is_active", "file")
        show_json([{**partition_json(where), **dict(zip(names, row, strict=True))} for where, *row in found])
        return
    show_table(
        [
            Column(heading="partition"),
            Column(heading="base", is_number=True),
            Column(heading="next", is_number=True),
            Column(heading="bytes", is_number=True),
            Column(heading="newest"),
            Column(heading="active"),
        ],
        [(*row[:4], format_timestamp(row[4]), row[5]) for row in found],
    )


@app.command(epilog="Example: streamlog log dump orders --path /data/log --partition 0")
def dump(
    topic: OneTopic,
    path: LogPath,
    partition: OnePartition = None,
    start: Annotated[
        int | None,
        typer.Option(
            "--from",
            min=0,
            metavar="OFFSET",
            help="Start with the batch that holds this offset.",
            show_default="log start",
        ),
    ] = None,
    records: Annotated[bool, typer.Option("--records", help="Print the records of each batch too.")] = False,
    as_json: AsJson = False,
    command_config: CommandConfig = None,
) -> None:
    """Print the header of every stored batch, one a line.

    Control batches are included. Exit code 3 means that damage was found.
    """
    if isinstance(path, ObjectUrl):
        findings = []
        with open_object_log(path, command_config) as cluster:
            for where in _all_partitions(cluster, topic, partition):
                findings += dump_ranges(cluster, where, start=start, records=records, as_json=as_json)
        sys.stdout.flush()
        for finding in findings:
            note(_finding_line(path, finding))
        if findings:
            raise typer.Exit(DAMAGE_FOUND)
        return
    _refuse_config(command_config)
    fs = SwapsFinished(OsFileSystem())
    is_damaged = False
    for where, store in _stores(path, topic, partition):
        for batch in store.dump():
            if start is not None and batch.header.last_offset < start:
                continue
            write_batch(where, batch, as_json=as_json)
            is_damaged = is_damaged or batch.problem is not None
            if records and batch.problem is None and not batch.header.is_control:
                write_records(read_batch_bytes(fs, batch), where, batch, as_json=as_json)
    sys.stdout.flush()
    if is_damaged:
        raise typer.Exit(DAMAGE_FOUND)


@app.command()
def verify(
    path: LogPath,
    topic: AnyTopic = None,
    partition: OnePartition = None,
    as_json: AsJson = False,
    command_config: CommandConfig = None,
) -> None:
    """Read everything and check it against its checksums and indexes.

    Nothing is changed. Exit code 3 means that damage was found. A wrong or missing index is not damage: it is rebuilt
    when it is needed. Nor is an object that is not the log's. Partitions of internal topics, such as
    __consumer_offsets, are counted apart.
    """
    verified = _verified_objects if isinstance(path, ObjectUrl) else _verified_files
    findings, foreign, partitions = verified(path, command_config, topic, partition)
    internal_count = sum(is_internal_topic(where.topic) for where in partitions)
    damage_count = sum(finding.is_damage for _, finding in findings)
    if as_json:
        show_json(
            {
                "partitions": len(partitions) - internal_count,
                "internal_partitions": internal_count,
                "damage": damage_count,
                "findings": [_finding_json(*found) for found in findings],
                "foreign_objects": [found._asdict() for found in foreign],
            }
        )
    else:
        for _, finding in findings:
            print(_finding_line(path, finding))
        for found in foreign:
            print(foreign_line(found))
        other_count = len(findings) + len(foreign) - damage_count
        note(
            f"{counted_partitions(partitions)} verified, {counted(damage_count, 'damaged place')}, "
            f"{counted(other_count, 'other finding')}"
        )
    if damage_count:
        raise typer.Exit(DAMAGE_FOUND)


@app.command()
def maintain(
    path: LogPath, topic: AnyTopic = None, as_json: AsJson = False, command_config: CommandConfig = None
) -> None:
    """Apply retention and compaction now, and build missing key filters.

    Otherwise this happens in the background when a segment is full. On object storage it also merges small ranges,
    writes a checkpoint and removes unreferenced objects.
    """
    if isinstance(path, ObjectUrl):
        report = maintain_objects(path, command_config, None if topic is None else [topic])
        if as_json:
            show_json(object_maintenance_json(report))
        else:
            show_object_maintenance(report)
        if report.errors:
            raise typer.Exit(ERROR)
        return
    _refuse_config(command_config)
    with open_log(path) as cluster, step_progress("maintaining") as progress:
        names = None if topic is None else [describe_existing(cluster, topic).name]
        reports = cluster.maintain(names, progress=progress)
    if as_json:
        show_json([maintenance_json(report) for report in reports])
    else:
        show_maintenance(reports)
    if any(report.error is not None for report in reports):
        raise typer.Exit(ERROR)


app.command(epilog=copy_command.EXAMPLE)(copy_command.copy)


def _stores(path: Path, topic: str | None, only: int | None) -> Iterator[tuple[TopicPartition, ReadablePartition]]:
    """Opens each partition for reading and closes it again. The log stays open, so that no broker opens it
    meanwhile."""
    fs = SwapsFinished(OsFileSystem())
    with open_log(path) as cluster:
        for description in _topics(cluster, topic):
            for where in _partitions(description, only):
                store = ReadablePartition.open(
                    fs,
                    str(path.absolute() / partition_folder(where)),
                    where,
                    config=TopicConfig.from_stored(description.configs),
                    topic_id=description.topic_id,
                )
                try:
                    yield where, store
                finally:
                    store.close()


def _verified_files(
    path: Path, command_config: Path | None, topic: str | None, only: int | None
) -> tuple[list[tuple[TopicPartition, Finding]], list[ForeignObject], list[TopicPartition]]:
    """(findings, objects that are not the log's, the partitions)."""
    _refuse_config(command_config)
    findings: list[tuple[TopicPartition, Finding]] = []
    partitions: list[TopicPartition] = []
    for where, store in _stores(path, topic, only):
        with byte_progress(f"verifying {where}") as progress:
            findings.extend((where, found) for found in store.verify(progress.show))
        partitions.append(where)
    return findings, [], partitions


def _verified_objects(
    url: ObjectUrl, command_config: Path | None, topic: str | None, only: int | None
) -> tuple[list[tuple[TopicPartition, Finding]], list[ForeignObject], list[TopicPartition]]:
    """The same for objects, relative to the log. Foreign ones are looked for if all topics are verified."""
    with open_object_log(url, command_config) as cluster:
        cluster.require_all_commits()
        partitions = _all_partitions(cluster, topic, only)
        findings = [(where, found) for where in partitions for found in verify_ranges(cluster, where)]
        foreign = list(cluster.find_foreign_objects()) if topic is None else []
        return findings, foreign, partitions


def _refuse_config(command_config: Path | None) -> None:
    if command_config is not None:
        raise UsageError("--command-config needs --path with the URL of an object store")


def _all_partitions(cluster: Cluster, topic: str | None, only: int | None) -> list[TopicPartition]:
    return [where for description in _topics(cluster, topic) for where in _partitions(description, only)]


def _topics(cluster: Cluster, topic: str | None) -> list[TopicDescription]:
    if topic is not None:
        return [describe_existing(cluster, topic)]
    return sorted(cluster.describe_topics().values(), key=lambda description: description.name)


def _partitions(topic: TopicDescription, only: int | None) -> list[TopicPartition]:
    if only is not None and only >= topic.partition_count:
        raise UnknownPartitionError(
            f"topic {topic.name!r} has no partition {only}: its partitions are 0 to {topic.partition_count - 1}",
            topic=topic.name,
            partition=only,
        )
    numbers = range(topic.partition_count) if only is None else [only]
    return [TopicPartition(topic.name, number) for number in numbers]


def _finding_line(place: Path | ObjectUrl, found: Finding) -> str:
    """`FILE:POSITION offset N: error`, the file or object relative to the log."""
    file = found.file if isinstance(place, ObjectUrl) else Path(found.file).relative_to(place.absolute())
    remark = "" if found.is_damage else " (not damage: it is rebuilt when needed)"
    return f"{file}:{found.position} offset {found.offset}: {found.problem}{remark}"


def _finding_json(where: TopicPartition, found: Finding) -> dict[str, Any]:
    return {
        **partition_json(where),
        "is_damage": found.is_damage,
        "file": found.file,
        "position": found.position,
        "offset": found.offset,
        "error": found.problem,
    }
