"""`streamlog produce TOPIC`: every line of the input becomes a value."""

from __future__ import annotations

import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import pyarrow as pa
import typer

from broker_core.cli.byte_input import ByteInput, open_input
from broker_core.cli.cluster_place import Brokers, CommandConfig, DirectoryPath, open_cluster
from broker_core.cli.error_sentence import UsageError
from broker_core.cli.line_splitter import LineSplitter, split_keys
from broker_core.cli.log_directory import parse_pairs
from broker_core.cli.screen import byte_progress, note, show_json
from broker_core.cluster import Cluster, TopicDescription
from broker_core.log_directory.system_ports import SystemClock
from broker_core.model.identifiers import CompressionType
from broker_core.model.limits import MAX_PARTITION_COUNT
from broker_core.topic_producer import ProducerSettings, TopicProducer, describe_existing, describe_or_create

EXAMPLE: Final = "Example: streamlog produce orders --path /data/log --file lines.txt"

IDLE_SECONDS: Final = 0.1
"""When the input is silent for so long, what has come is written: a slow pipe is not held back."""

HEADERS_TYPE: Final = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))


class Codec(StrEnum):
    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class LineRecords:
    """Makes the columns for a block of lines; what the options say is the same for each."""

    def __init__(self, *, key_separator: bytes | None, headers: list[tuple[str, str]], partition: int | None) -> None:
        self._key_separator = key_separator
        self._headers = [{"key": name, "value": value.encode("utf-8", "surrogateescape")} for name, value in headers]
        self._partition = partition

    def columns(self, lines: Any, *, first_line: int, source: str) -> Any:
        columns: dict[str, Any] = {}
        if self._key_separator is None:
            columns["value"] = lines
        else:
            columns["key"], columns["value"] = split_keys(
                lines, self._key_separator, first_line=first_line, source=source
            )
        if self._headers:
            columns["headers"] = pa.repeat(pa.scalar(self._headers, HEADERS_TYPE), len(lines))
        if self._partition is not None:
            columns["partition"] = pa.repeat(pa.scalar(self._partition, pa.int32()), len(lines))
        return pa.RecordBatch.from_pydict(columns)


def produce(
    topic: Annotated[
        str, typer.Argument(metavar="TOPIC", help="The topic; made if it is missing.", show_default=False)
    ],
    path: DirectoryPath = None,
    bootstrap_server: Brokers = None,
    command_config: CommandConfig = None,
    file: Annotated[Path | None, typer.Option(help="Read this file instead of standard input.")] = None,
    key_separator: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help=r"What stands before it in a line is the key; \t is a tab.", show_default=False
        ),
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A header for every record; may be repeated.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option(min=0, max=MAX_PARTITION_COUNT - 1, help="Write to this partition only.")
    ] = None,
    compression: Annotated[
        Codec, typer.Option(help="Codec, unless the topic's compression.type names one.")
    ] = Codec.NONE,
    create: Annotated[bool, typer.Option("--create/--no-create", help="Make a missing topic, or refuse.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Say in JSON on stdout what was written.")] = False,
) -> None:
    """Write each line as a value.

    Exit code 0 means that every value is durable. When a line is refused, the values before it may have been written.
    """
    if key_separator == "":
        raise UsageError("--key-separator is empty: give the text that stands between key and value")
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
            describe_existing(cluster, topic)  # also for an input without a line
        producer = _producer(cluster, Codec(compression), create=create)
        if file is None and sys.stdin.isatty():
            note("Type values, one a line; Ctrl-D ends.")
        with byte_progress(f"writing to {topic}", source.total_bytes) as progress:
            for lines, first_line, count_bytes in _line_blocks(source, producer):
                producer.add(topic, records.columns(lines, first_line=first_line, source=source.name))
                progress.advance(count_bytes)
            producer.flush()
        written = producer.appended_record_count
    if as_json:
        show_json({"topic": topic, "records": written})
    elif sys.stderr.isatty():
        note(f"{written:,} values written to {topic}")


def _line_blocks(source: ByteInput, producer: TopicProducer) -> Any:
    """(lines, number of the first one, bytes read). Writes what the producer holds when the input falls silent."""
    splitter = LineSplitter(source.name)
    while True:
        if producer.holds_rows and source.is_idle(IDLE_SECONDS):
            producer.flush()
        data = source.read()
        first_line = splitter.line_count + 1
        lines = splitter.receive_data(data) if data else splitter.finish()
        if len(lines):
            yield lines, first_line, len(data)
        if not data:
            return


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
