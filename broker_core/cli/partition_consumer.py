"""Reads one partition in order as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from uuid import UUID

from broker_core.cluster import Cluster
from broker_core.model.identifiers import IsolationLevel, TopicPartition
from broker_core.model.limits import DEFAULT_FETCH_BYTES
from broker_core.record.aborted_filter import AbortedFilter
from broker_core.record.columns import decode

MAX_DECODED_ROWS: Final = 100_000
"""The rows of one batch: few, so that the rendered text stays small."""


class PartitionConsumer:
    """Continues after its last read: `read` may be called again when the log has grown."""

    def __init__(
        self,
        cluster: Cluster,
        partition: TopicPartition,
        from_offset: int,
        *,
        isolation: IsolationLevel,
        columns: frozenset[str],
        topic_id: UUID | None = None,
    ) -> None:
        """`topic_id`: reading raises UnknownTopicError if the topic has another id."""
        self.partition = partition
        self.next_offset = from_offset
        self._cluster = cluster
        self._isolation = isolation
        self._columns = columns
        self._topic_id = topic_id
        self._aborted = AbortedFilter()

    def read(self, until_offset: int) -> Iterator[tuple[Any, int]]:
        """(RecordBatch, bytes read for it) up to `until_offset`; nothing if the position has reached it."""
        while self.next_offset < until_offset:
            fetched = self._cluster.fetch(
                self.partition,
                self.next_offset,
                max_bytes=DEFAULT_FETCH_BYTES,
                isolation=self._isolation,
                topic_id=self._topic_id,
            )
            self._aborted.add(fetched.aborted_transactions)
            buffer = memoryview(fetched.buffer)
            if not len(buffer):
                self.next_offset = max(self.next_offset, fetched.next_offset)
                return
            while len(buffer) and self.next_offset < until_offset:
                decoded = decode(
                    buffer,
                    from_offset=self.next_offset,
                    until_offset=until_offset,
                    columns=self._columns,
                    aborted=self._aborted,
                    max_rows=MAX_DECODED_ROWS,
                )
                self.next_offset = decoded.next_offset
                buffer = buffer[decoded.bytes_consumed :]
                yield decoded.record_batch, decoded.bytes_consumed
                if not decoded.bytes_consumed and not decoded.record_batch.num_rows:
                    break
