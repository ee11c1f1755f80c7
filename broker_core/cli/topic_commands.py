"""`streamlog topic create | list | describe | alter | delete`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from broker_core.cli.cluster_place import Brokers, CommandConfig, LogLocation, open_cluster
from broker_core.cli.error_sentence import UsageError, sentence
from broker_core.cli.log_directory import parse_settings
from broker_core.cli.partition_columns import LEADER_COLUMNS, leader_cells, leader_json
from broker_core.cli.screen import Column, counted, note, partition_json, show_json, show_table
from broker_core.cli.topic_replication import (
    ReplicaAssignment,
    ReplicationFactor,
    create_with,
    parse_replication,
    placements_of,
)
from broker_core.cluster import Cluster, PartitionBounds, TopicDescription
from broker_core.group_lag import NO_LEADER
from broker_core.model.exceptions import TopicExistsError, UnknownPartitionError
from broker_core.model.identifiers import TopicPartition
from broker_core.topic_producer import describe_existing

if TYPE_CHECKING:
    from broker_core.client.partition_placements import PartitionPlacement

app = typer.Typer(help="Create, list, describe, alter and delete topics.", no_args_is_help=True, rich_markup_mode=None)

MORE_PARTITIONS_WARNING: Final = (
    "warning: the topic has records, and more partitions change where keys go: new records of a key may be in another "
    "partition than its old ones"
)
"""Kafka's own tool warns of the same."""

TopicName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the topic.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--config", metavar="NAME=VALUE", help="Topic setting, by its Kafka name; may be repeated."),
]


@app.command(epilog="Example: streamlog topic create orders --path /data/log --partitions 4")
def create(
    name: TopicName,
    path: LogLocation = None,
    bootstrap_server: Brokers = None,
    command_config: CommandConfig = None,
    partitions: Annotated[
        int | None, typer.Option(min=1, metavar="COUNT", help="Number of partitions.", show_default="1")
    ] = None,
    replication_factor: ReplicationFactor = None,
    replica_assignment: ReplicaAssignment = None,
    config: Settings = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Succeed when the topic exists already.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Create a topic, and the log directory if there is none."""
    configs = parse_settings(config or [], option="--config")
    wanted = parse_replication(
        replication_factor, replica_assignment, partitions=partitions, is_at_brokers=bootstrap_server is not None
    )
    with open_cluster(path, bootstrap_server, command_config, create=True) as cluster:
        try:
            topic, done = create_with(cluster, name, wanted, partitions=partitions, configs=configs), "created"
        except TopicExistsError:
            if not if_not_exists:
                raise
            topic, done = describe_existing(cluster, name), "found"
    if as_json:
        show_json(_as_json(topic))
    else:
        note(f"{done} topic {name} with {counted(topic.partition_count, 'partition')}")


@app.command("list")
def list_topics(
    path: LogLocation = None,
    bootstrap_server: Brokers = None,
    command_config: CommandConfig = None,
    internal: Annotated[bool, typer.Option("--internal", help="Include internal topics.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the topics with their settings and sizes.

    Sizes are in offsets: aborted records, transaction markers and records that compaction removed count too.
    """
    with open_cluster(path, bootstrap_server, command_config) as cluster:
        topics = sorted(cluster.describe_topics().values(), key=lambda topic: topic.name)
        shown = [(topic, _bounds(cluster, topic)) for topic in topics if internal or not topic.is_internal]
    if as_json:
        show_json([{**_as_json(topic), "offsets": _offset_count(bounds)} for topic, bounds in shown])
        return
    show_table(
        [
            Column(heading="topic"),
            Column(heading="partitions", is_number=True),
            Column(heading="offsets", is_number=True),
            Column(heading="settings", is_long=True),
        ],
        [(topic.name, topic.partition_count, _offset_count(bounds), _settings_text(topic)) for topic, bounds in shown],
    )


@app.command()
def describe(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Name of a topic.", show_default="all topics")
    ] = None,
    path: LogLocation = None,
    bootstrap_server: Brokers = None,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show the settings and the offsets of one topic or of all; at brokers also leaders and replicas.

    All topics include internal ones. JSON is an object for one topic, and an array of such objects for all.
    """
    with open_cluster(path, bootstrap_server, command_config) as cluster:
        if name is None:
            topics = sorted(cluster.describe_topics().values(), key=lambda topic: topic.name)
        else:
            topics = [describe_existing(cluster, name)]
        found = [(topic, _bounds(cluster, topic)) for topic in topics]
        placed = placements_of(cluster, name, is_at_brokers=bootstrap_server is not None)
    if as_json:
        described = [_described_json(topic, bounds, placed) for topic, bounds in found]
        show_json(described if name is None else described[0])
        return
    for number, (topic, bounds) in enumerate(found):
        if number:
            print()
        _show_description(topic, bounds, placed)
    if not found:
        note("there are no topics")


@app.command(epilog="Example: streamlog topic alter orders --path /data/log --config retention.ms=-1")
def alter(
    name: TopicName,
    path: LogLocation = None,
    bootstrap_server: Brokers = None,
    command_config: CommandConfig = None,
    partitions: Annotated[
        int | None, typer.Option(min=1, metavar="COUNT", help="New number of partitions; it can only grow.")
    ] = None,
    config: Settings = None,
    delete_config: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Reset a setting to its default; may be repeated.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Change the settings of a topic, or add partitions."""
    changes: dict[str, str | None] = {**parse_settings(config or [], option="--config")}
    for setting in delete_config or []:
        if setting in changes:
            raise UsageError(f"{setting} is given to both --config and --delete-config")
        changes[setting] = None
    if partitions is None and not changes:
        raise UsageError("nothing to change: give --partitions, --config or --delete-config")
    with open_cluster(path, bootstrap_server, command_config) as cluster:
        topic = describe_existing(cluster, name)
        if changes:
            topic = cluster.alter_topic_configs(name, changes)
        if partitions is not None:
            has_records = _offset_count(_bounds(cluster, topic)) > 0
            is_more = partitions > topic.partition_count
            topic = cluster.create_partitions(name, partitions)
            if has_records and is_more:
                note(MORE_PARTITIONS_WARNING)
    if as_json:
        show_json(_as_json(topic))
    else:
        note(
            f"topic {name} has {counted(topic.partition_count, 'partition')}; settings: {_settings_text(topic) or '-'}"
        )


@app.command(epilog="Example: streamlog topic delete orders --path /data/log")
def delete(
    name: TopicName,
    path: LogLocation = None,
    bootstrap_server: Brokers = None,
    command_config: CommandConfig = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete a topic with all its records. On a terminal it asks for confirmation."""
    with open_cluster(path, bootstrap_server, command_config) as cluster:
        describe_existing(cluster, name)
        if not yes and sys.stdin.isatty():
            typer.confirm(f"Delete topic {name} with all its records?", abort=True, err=True)
        cluster.delete_topic(name)
    note(f"deleted topic {name}")


def _bounds(cluster: Cluster, topic: TopicDescription) -> dict[int, PartitionBounds]:
    """For the partitions that can be asked: a broker's directory has only those of the broker, and a partition may
    have no leader."""
    bounds = {}
    for number in range(topic.partition_count):
        partition = TopicPartition(topic.name, number)
        if number in topic.leaderless:
            note(f"offsets of {partition} are unknown: {NO_LEADER}")
            continue
        try:
            bounds[number] = cluster.bounds(partition)
        except UnknownPartitionError as error:
            note(sentence(error))
    return bounds


def _offset_count(bounds: dict[int, PartitionBounds]) -> int:
    return sum(found.log_end_offset - found.log_start_offset for found in bounds.values())


def _settings_text(topic: TopicDescription) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(topic.configs.items()))


def _show_description(
    topic: TopicDescription, bounds: dict[int, PartitionBounds], placed: list[PartitionPlacement] | None
) -> None:
    show_table(
        [Column(heading="setting"), Column(heading="value", is_long=True)],
        [("name", topic.name), ("id", topic.topic_id), *sorted(topic.configs.items())],
    )
    print()
    headings = ("log start\noffset", "last stable\noffset", "log end\noffset", "offsets")
    show_table(
        [
            Column(heading="partition", is_number=True),
            *(LEADER_COLUMNS if placed is not None else ()),
            *(Column(heading=heading, is_number=True) for heading in headings),
        ],
        [
            (number, *([] if at is None else leader_cells(at)), *_offset_cells(bounds.get(number)))
            for number, at in _shown_partitions(topic, bounds, placed)
        ],
    )


def _shown_partitions(
    topic: TopicDescription, bounds: dict[int, PartitionBounds], placed: list[PartitionPlacement] | None
) -> list[tuple[int, PartitionPlacement | None]]:
    """At brokers all partitions, also those that cannot be read now."""
    if placed is None:
        return [(number, None) for number in bounds]
    return [(each.partition.partition, each) for each in placed if each.partition.topic == topic.name]


def _offset_cells(found: PartitionBounds | None) -> tuple[Any, ...]:
    if found is None:
        return ("-",) * 4
    count = found.log_end_offset - found.log_start_offset
    return (found.log_start_offset, found.last_stable_offset, found.log_end_offset, count)


def _described_json(
    topic: TopicDescription, bounds: dict[int, PartitionBounds], placed: list[PartitionPlacement] | None
) -> dict[str, Any]:
    partitions = [
        {
            **partition_json(TopicPartition(topic.name, number)),
            **({} if at is None else leader_json(at)),
            **_offsets_json(bounds.get(number)),
        }
        for number, at in _shown_partitions(topic, bounds, placed)
    ]
    return {**_as_json(topic), "partitions": partitions}


def _offsets_json(found: PartitionBounds | None) -> dict[str, Any]:
    names = ("log_start_offset", "last_stable_offset", "high_watermark", "log_end_offset")
    return {name: None if found is None else getattr(found, name) for name in names}


def _as_json(topic: TopicDescription) -> dict[str, Any]:
    return {
        "name": topic.name,
        "id": str(topic.topic_id),
        "partition_count": topic.partition_count,
        "configs": dict(sorted(topic.configs.items())),
        "is_internal": topic.is_internal,
    }
