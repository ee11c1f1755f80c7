"""The columns of the source for Arrow: those of Spark's Kafka connector, and typed ones where a format is set."""

from __future__ import annotations

import functools

import pyarrow as pa

from spark_streamlog.serde.format_settings import NO_FORMATS, RecordFormats
from spark_streamlog.serde.value_formats import decoder_for

CORRUPT_COLUMN = "_corrupt"
"""The reason for a key or value that is null because it is corrupt. Exists if a format's mode is permissive."""

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


@functools.lru_cache(maxsize=32)
def arrow_schema(*, include_headers: bool, formats: RecordFormats = NO_FORMATS) -> pa.Schema:
    """The Arrow form of that schema: Spark refuses batches in which even one nested field's name differs.

    `timestampType` is 0 for create time and 1 for log-append time; no headers is NULL.
    """
    fields = [*_ARROW_FIELDS, _ARROW_HEADERS] if include_headers else list(_ARROW_FIELDS)
    for side, settings in formats.items():
        place = 0 if side == "key" else 1
        fields[place] = pa.field(side, decoder_for(settings).arrow_type)
    if formats.has_corrupt_column:
        fields.append(pa.field(CORRUPT_COLUMN, pa.string()))
    return pa.schema(fields)
