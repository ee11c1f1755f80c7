"""`streamlog produce TOPIC`: writes each line of the input as a value."""

from __future__ import annotations

import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from broker_core.cli.byte_input import open_input
from broker_core.cli.cluster_place import Brokers, CommandConfig, LogLocation, open_cluster
from broker_core.cli.error_sentence import UsageError
from broker_core.cli.line_writer import LineRecords, LineWriter
from broker_core.cli.log_directory import parse_pairs
from broker_core.cli.screen import byte_progress, note, show_json
from broker_core.cli.stop_signals import StopSignals
from broker_core.cluster import Cluster, TopicDescription
from broker_core.log_directory.system_ports import SystemClock
from broker_core.model.identifiers import CompressionType
from broker_core.model.limits import MAX_PARTITION_COUNT
from broker_core.topic_producer import ProducerSettings, TopicProducer, describe_existing, describe_or_create

EXAMPLE: Final = "Example: streamlog produce orders --path /data/log --file lines.txt"

DEFAULT_LINGER_SECONDS: Final = 1.0
MAX_LINGER_SECONDS: Final = 3600.0


class Codec(StrEnum):
    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


def produce(
    topic: Annotated[
        str, typer.Argument(metavar="TOPIC", help="Name of the topic; see also --create.", show_default=False)
    ],
    path: LogLocation = None,
    bootstrap_server: Brokers = None,
    command_config: CommandConfig = None,
    file: Annotated[Path | None, typer.Option(metavar="FILE", help="Read this file instead of standard input.")] = None,
    key_separator: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help=r"Text between key and value in each line; \t is a tab.",
            show_default=False,
        ),
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Header of every record; may be repeated.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option(min=0, max=MAX_PARTITION_COUNT - 1, metavar="N", help="Write to this partition only.")
    ] = None,
    compression: Annotated[
        Codec,
        typer.Option(metavar="CODEC", help="none, gzip, snappy, lz4 or zstd. A topic's compression.type overrides it."),
    ] = Codec.NONE,
    linger: Annotated[
        float,
        typer.Option(
            min=0,
            max=MAX_LINGER_SECONDS,
            metavar="SECONDS",
            help="Write a value at most this long after it was read.",
        ),
    ] = DEFAULT_LINGER_SECONDS,
    create: Annotated[bool, typer.Option("--create/--no-create", help="Create a missing topic if allowed.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print in JSON how many records were written.")] = False,
) -> None:
    """Write each line of the input as a value.

    Exit code 0 means that every value is durable. Ctrl-C and SIGTERM write what was read and then stop. When a line is
    refused, the values before it may have been written.
    """
    if key_separator == "":
        raise UsageError("--key-separator is empty: give the text between key and value")
    records = LineRecords(
        key_separator=key_separator.replace("\\t", "\t").encode("utf-8", "surrogateescape") if key_separator else None,
        headers=parse_pairs(header or [], option="--header"),
        partition=partition,
    )
    with (
        open_cluster(path, bootstrap_server, command_config, create=create) as cluster,
        open_input(file) as source,
    ):
        if not create:
            describe_existing(cluster, topic)  # also for an empty input
        producer = _producer(cluster, Codec(compression), create=create)
        writer = LineWriter(topic, source, producer, records, linger_s=linger)
        if file is None and sys.stdin.isatty():
            note("Type values, one a line; Ctrl-D ends.")
        with StopSignals() as stop:
            try:
                with byte_progress(f"writing to {topic}", source.total_bytes) as progress:
                    writer.write_all(stop, progress)
            except KeyboardInterrupt:
                note(f"stopped immediately: {writer.read_count - writer.written_count:,} values may not be written")
                raise
    _report(topic, writer, stop, as_json=as_json)
    raise typer.Exit(stop.exit_code)


def _report(topic: str, writer: LineWriter, stop: StopSignals, *, as_json: bool) -> None:
    if stop.received is not None and writer.unfinished_bytes:
        note(f"stopped by {stop.name}: the last line has no line end yet, it was not written")
    if as_json:
        show_json({"topic": topic, "records": writer.written_count})
    elif sys.stderr.isatty():
        note(f"{writer.written_count:,} values written to {topic}")


def _producer(cluster: Cluster, codec: Codec, *, create: bool) -> TopicProducer:
    def find_topic(name: str) -> TopicDescription:
        return describe_or_create(cluster, name) if create else describe_existing(cluster, name)

    return TopicProducer(
        cluster,
        find_topic=find_topic,
        now_ms=SystemClock().now_ms,
        settings=ProducerSettings(compression=CompressionType[codec.name]),
        first_partition=time.time_ns(),
    )
