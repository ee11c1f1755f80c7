"""The columns of the source, the same as those of Spark's Kafka connector, for Spark and for Arrow."""

from __future__ import annotations

import pyarrow as pa

_DDL = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
_HEADERS_DDL = "headers array<struct<key:string,value:binary>>"

_ARROW_FIELDS = [
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", pa.timestamp("us", tz="UTC")),
    pa.field("timestampType", pa.int32()),
]
_ARROW_HEADERS = pa.field(
    "headers", pa.list_(pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])))
)


def schema_ddl(*, include_headers: bool) -> str:
    """As Spark's DDL. `timestampType` is 0 for create time and 1 for log-append time; no headers is NULL."""
    return f"{_DDL}, {_HEADERS_DDL}" if include_headers else _DDL


def arrow_schema(*, include_headers: bool) -> pa.Schema:
    """What Spark takes for that schema: it refuses batches that differ in a single nested field's name."""
    return pa.schema([*_ARROW_FIELDS, _ARROW_HEADERS] if include_headers else _ARROW_FIELDS)
