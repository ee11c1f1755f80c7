"""Decodes the fetched batches of one partition, and skips unreadable ones if the option says so.

A record is unreadable if its timestamp does not fit Spark's microseconds; a batch if its checksum, its records or its
compressed content is invalid. The error names topic, partition and offset. With onUnreadableRecord=skip the record or
batch is left out, and a warning has the count:

    decode [wanted, until) ─► fails at `bad` ─► decode [wanted, bad) ─► continue after it

A Kafka broker sends damaged batches. A directory and our own broker do not: the fetch fails (`skip_damage`).
The damaged batch may have been the end of an aborted transaction, so a read-committed reader forgets the aborted
transactions and fetches what follows again, with a list of those that matter there.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from broker_core.cluster import FetchedBatches
from broker_core.model.exceptions import CorruptDataError
from broker_core.model.identifiers import IsolationLevel, TopicPartition
from broker_core.record.aborted_filter import AbortedFilter
from broker_core.record.batch_header import read_header
from broker_core.record.columns import DecodedBatches, decode
from spark_streamlog.errors import ConditionError, condition_error
from spark_streamlog.options.read_options import ReadOptions
from spark_streamlog.rows.record_rows import columns_to_decode

logger = logging.getLogger("spark_streamlog")

MAX_BATCH_ROWS = 2**17
"""Rows of one Arrow batch: a fetch of small compressed records can inflate to millions."""

_NO_ROWS = pa.RecordBatch.from_pydict({})


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableOffsets:
    """Offsets [from_offset, until_offset) that cannot be read. `skipped_bytes`: from where decoding began to the end of
    the batch; None if only a record of the batch is bad. `record_count` is the count in the batch's header."""

    from_offset: int
    until_offset: int
    skipped_bytes: int | None
    record_count: int


class FetchedRows:
    """For one sequential read of a partition: aborted transactions are followed from fetch to fetch."""

    def __init__(self, partition: TopicPartition, options: ReadOptions) -> None:
        self._partition = partition
        self._skips = options.skips_unreadable_records
        self._columns = columns_to_decode(include_headers=options.include_headers)
        self._aborted = AbortedFilter() if options.isolation is IsolationLevel.READ_COMMITTED else None
        self._skipped_count = 0
        self._first_skipped = ""

    def decoded(self, fetched: FetchedBatches, wanted: int, until: int) -> Iterator[DecodedBatches]:
        """May end before the buffer does, after a batch that was skipped: then fetch from the offset that was reached.
        Raises STREAMLOG_UNREADABLE_RECORD, unless such records are to be skipped."""
        if self._aborted is not None:
            self._aborted.add(fetched.aborted_transactions)
        position, end = 0, until
        while position < len(fetched.buffer) and wanted < until:
            buffer = fetched.buffer[position:]
            before = None if self._aborted is None else self._aborted.copy()
            try:
                decoded = decode(
                    buffer,
                    from_offset=wanted,
                    until_offset=end,
                    columns=self._columns,
                    aborted=self._aborted,
                    max_rows=MAX_BATCH_ROWS,
                )
            except CorruptDataError as error:
                if self._aborted is not None and before is not None:
                    self._aborted.restore(before)
                bad = self._unreadable_offsets(error, buffer, wanted)
                if bad.from_offset > wanted:
                    end = min(until, bad.from_offset)
                    continue
                self._count(bad, error)
                wanted, end = min(until, bad.until_offset), until
                position += bad.skipped_bytes or 0
                yield DecodedBatches(record_batch=_NO_ROWS, next_offset=wanted, bytes_consumed=0)
                if bad.skipped_bytes is not None and self._aborted is not None:
                    self._aborted = AbortedFilter()
                    return
                continue
            yield decoded
            position += decoded.bytes_consumed
            wanted = decoded.next_offset
            end = until if wanted >= end else end

    def skip_damage(self, damage: CorruptDataError, wanted: int, next_offset: int | None) -> int:
        """Where to continue after a fetch at `wanted` that failed with `damage`; `next_offset` is where the damaged
        batch ends, None if that is not known. Raises STREAMLOG_UNREADABLE_RECORD, unless it is to be skipped."""
        offset = max(damage.fields.get("offset", wanted), wanted)
        if not self._skips:
            raise self._refusal(offset, damage, damage.message) from damage
        if next_offset is None:
            reason = f"{damage.message}; where the damaged part ends is not known, so it cannot be skipped"
            raise self._refusal(offset, damage, reason) from damage
        if self._aborted is not None:
            self._aborted = AbortedFilter()
        lost = UnreadableOffsets(
            from_offset=offset, until_offset=next_offset, skipped_bytes=None, record_count=next_offset - offset
        )
        self._count(lost, damage)
        return next_offset

    def report_skipped(self) -> None:
        """One warning for all of a range."""
        if self._skipped_count:
            logger.warning(
                "onUnreadableRecord=skip: %d record(s) of topic %s partition %d were skipped, the first at %s",
                self._skipped_count,
                self._partition.topic,
                self._partition.partition,
                self._first_skipped,
            )

    def _unreadable_offsets(self, error: CorruptDataError, buffer: memoryview, wanted: int) -> UnreadableOffsets:
        record_offset = error.fields.get("record_offset")
        if record_offset is not None:
            if not self._skips:
                raise self._refusal(record_offset, error) from error
            return UnreadableOffsets(
                from_offset=record_offset, until_offset=record_offset + 1, skipped_bytes=None, record_count=1
            )
        base_offset, position = error.fields.get("offset", -1), error.fields.get("position", -1)
        if not self._skips or base_offset < 0:
            raise self._refusal(max(base_offset, wanted), error) from error
        try:
            header = read_header(buffer, position)
        except CorruptDataError:
            # The end of the batch is unknown too.
            raise self._refusal(max(base_offset, wanted), error) from error
        return UnreadableOffsets(
            from_offset=base_offset,
            until_offset=header.next_offset,
            skipped_bytes=position + header.size_bytes,
            record_count=header.record_count,
        )

    def _count(self, bad: UnreadableOffsets, error: CorruptDataError) -> None:
        if not self._skipped_count:
            self._first_skipped = f"offset {bad.from_offset}: {error.fields.get('what', error.message)}"
        self._skipped_count += bad.record_count

    def _refusal(self, offset: int, error: CorruptDataError, reason: str | None = None) -> ConditionError:
        return condition_error(
            "STREAMLOG_UNREADABLE_RECORD",
            topic=self._partition.topic,
            partition=self._partition.partition,
            offset=offset,
            reason=(reason or error.fields.get("what", error.message)).rstrip("."),
        )
