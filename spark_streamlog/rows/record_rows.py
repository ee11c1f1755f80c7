"""Decoded columns of one partition -> Arrow batches of the Kafka schema. No Python object per record, unless the format
of a key or value needs one.

Topic and partition are the same in every row: both columns are built once for the longest batch so far and sliced.
"""

from __future__ import annotations

import pyarrow as pa

from broker_core.model.identifiers import TopicPartition
from spark_streamlog.rows.kafka_schema import arrow_schema
from spark_streamlog.rows.typed_values import TypedValues
from spark_streamlog.serde.format_settings import NO_FORMATS, RecordFormats

RECORD_COLUMNS = frozenset({"key", "value", "offset", "timestamp", "timestampType"})
"""The columns decoded from each record; with headers also `headers`."""


def columns_to_decode(*, include_headers: bool) -> frozenset[str]:
    return RECORD_COLUMNS | {"headers"} if include_headers else RECORD_COLUMNS


class RecordRows:
    """For one partition. `to_rows` takes a batch from `record.columns.decode`, with the columns in any order."""

    def __init__(
        self, topic_partition: TopicPartition, *, include_headers: bool, formats: RecordFormats = NO_FORMATS
    ) -> None:
        self._topic_partition = topic_partition
        self._schema = arrow_schema(include_headers=include_headers, formats=formats)
        self._typed = TypedValues(topic_partition, formats) if formats.items() else None
        self._constants: dict[str, pa.Array] = {}
        self._longest = -1

    def to_rows(self, decoded: pa.RecordBatch) -> pa.RecordBatch:
        count = decoded.num_rows
        if count > self._longest:
            self._longest = count
            self._constants = {
                "topic": pa.repeat(pa.scalar(self._topic_partition.topic, pa.string()), count),
                "partition": pa.repeat(pa.scalar(self._topic_partition.partition, pa.int32()), count),
            }
        typed = self._typed.read(decoded) if self._typed is not None else None
        made = {n: c if count == self._longest else c.slice(0, count) for n, c in self._constants.items()}
        if typed is not None:
            made |= typed.columns
        columns = [made[name] if name in made else decoded.column(name) for name in self._schema.names]
        batch = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        return batch if typed is None or typed.kept is None else batch.filter(typed.kept)
