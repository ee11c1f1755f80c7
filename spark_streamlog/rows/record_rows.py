"""Decoded columns of one partition -> Arrow batches of the Kafka schema. No Python object per record.

Topic and partition are the same in every row: both columns are built once for the longest batch so far and sliced.
"""

from __future__ import annotations

import pyarrow as pa

from broker_core.model.identifiers import TopicPartition
from spark_streamlog.rows.kafka_schema import arrow_schema

RECORD_COLUMNS = frozenset({"key", "value", "offset", "timestamp", "timestampType"})
"""What is decoded of each record; with headers also `headers`."""


def columns_to_decode(*, include_headers: bool) -> frozenset[str]:
    return RECORD_COLUMNS | {"headers"} if include_headers else RECORD_COLUMNS


class RecordRows:
    """For one partition. `to_rows` takes the batch that `record.columns.decode` gave, with any order of columns."""

    def __init__(self, topic_partition: TopicPartition, *, include_headers: bool) -> None:
        self._topic_partition = topic_partition
        self._schema = arrow_schema(include_headers=include_headers)
        self._constants = {"topic": pa.array([], pa.string()), "partition": pa.array([], pa.int32())}

    def to_rows(self, decoded: pa.RecordBatch) -> pa.RecordBatch:
        count = decoded.num_rows
        if count > len(self._constants["topic"]):
            self._constants = {
                "topic": pa.repeat(pa.scalar(self._topic_partition.topic, pa.string()), count),
                "partition": pa.repeat(pa.scalar(self._topic_partition.partition, pa.int32()), count),
            }
        columns = [
            self._constants[name].slice(0, count) if name in self._constants else decoded.column(name)
            for name in self._schema.names
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)
