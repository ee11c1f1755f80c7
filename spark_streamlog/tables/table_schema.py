"""The metadata tables: their names, and the columns of each, for Spark and for Arrow.

    topics          one row per topic
    segments        one row per segment of each partition
    batches         one row per record batch
    groups          one row per group and partition with a committed offset
    transactions    one row per transactional id
    lag             one row per group and partition, with its lag

Timestamps are NULL where the log has none, offsets are those of Kafka.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

import pyarrow as pa


class MetadataTable(enum.Enum):
    """The values of the option `table`."""

    TOPICS = "topics"
    SEGMENTS = "segments"
    BATCHES = "batches"
    GROUPS = "groups"
    TRANSACTIONS = "transactions"
    LAG = "lag"


_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
_ARROW_TYPES: Final[Mapping[str, pa.DataType]] = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
    "timestamp": _TIMESTAMP,
    "map<string,string>": pa.map_(pa.string(), pa.string()),
    "array<struct<topic:string,partition:int>>": pa.list_(
        pa.field("element", pa.struct([pa.field("topic", pa.string()), pa.field("partition", pa.int32())]))
    ),
}

_COLUMNS: Final[Mapping[MetadataTable, Mapping[str, str]]] = {
    MetadataTable.TOPICS: {
        "topic": "string",
        "topic_id": "string",
        "partition_count": "int",
        "is_internal": "boolean",
        "configs": "map<string,string>",
    },
    MetadataTable.SEGMENTS: {
        "topic": "string",
        "partition": "int",
        "base_offset": "bigint",
        "next_offset": "bigint",
        "size_bytes": "bigint",
        "max_timestamp": "timestamp",
        "is_active": "boolean",
        "path": "string",
    },
    MetadataTable.BATCHES: {
        "topic": "string",
        "partition": "int",
        "base_offset": "bigint",
        "last_offset": "bigint",
        "record_count": "int",
        "size_bytes": "int",
        "compression": "string",
        "timestamp_type": "string",
        "base_timestamp": "timestamp",
        "max_timestamp": "timestamp",
        "leader_epoch": "int",
        "producer_id": "bigint",
        "producer_epoch": "int",
        "base_sequence": "int",
        "is_transactional": "boolean",
        "is_control": "boolean",
    },
    MetadataTable.GROUPS: {
        "group": "string",
        "topic": "string",
        "partition": "int",
        "offset": "bigint",
        "metadata": "string",
        "commit_time": "timestamp",
    },
    MetadataTable.TRANSACTIONS: {
        "transactional_id": "string",
        "state": "string",
        "producer_id": "bigint",
        "producer_epoch": "int",
        "timeout_ms": "int",
        "start_time": "timestamp",
        "partitions": "array<struct<topic:string,partition:int>>",
    },
    MetadataTable.LAG: {
        "group": "string",
        "topic": "string",
        "partition": "int",
        "offset": "bigint",
        "log_start_offset": "bigint",
        "log_end_offset": "bigint",
        "behind_offsets": "bigint",
        "behind_bytes": "bigint",
        "behind_ms": "bigint",
        "lost_offsets": "bigint",
    },
}


def table_ddl(table: MetadataTable) -> str:
    """The columns as Spark's DDL."""
    return ", ".join(f"`{name}` {kind}" for name, kind in _COLUMNS[table].items())


def table_arrow_schema(table: MetadataTable) -> pa.Schema:
    """The Arrow schema for that DDL."""
    return pa.schema([pa.field(name, _ARROW_TYPES[kind]) for name, kind in _COLUMNS[table].items()])
