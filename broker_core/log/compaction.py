"""Decides what survives compaction, in two readings of the batches, as Kafka's LogCleaner does.

    compaction = Compaction(plan, ...)
    compaction.index(buffer)    the dirty batches, from the segment that holds plan.first_dirty_offset on, until True
    compaction.end_index()      now `end_offset` is final: the cleaner checkpoint after this pass
    per group of segments (those that begin below end_offset, see compaction_plan.group_segments), in log order:
        compaction.clean(buffer)                   all their batches; what it returns is the group's new segment
        compaction.take_aborted_transactions()     returns its transaction index

A record below `end_offset` survives if it is the newest of its key; a tombstone only until its batch's delete horizon
passes (KIP-534: attribute bit 6, base timestamp = horizon, set when it is first cleaned); an empty value is no
tombstone; a record without a key is removed. Records of aborted transactions are removed. A marker stays until a pass
finds no batch of its transaction and its own horizon has passed. A batch without survivors is removed, unless it is its
producer's last (kept empty, for the last sequence) or the last before the plan's end (kept empty, to mark the end of
the cleaned part). Batches keep base and last offset. A batch whose records all survive is copied unchanged.

Nothing here changes the log: an aborted pass has no effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from typing_extensions import Buffer

from broker_core.log.batch_filter import filter_batch
from broker_core.log.batch_validation import read_marker
from broker_core.log.cleaned_transactions import CleanedTransactions
from broker_core.log.compaction_plan import CompactionPlan
from broker_core.log.offset_map import OffsetMap
from broker_core.log.producer_entry import ProducerEntry
from broker_core.log.transaction_index import AbortedTransactionEntry
from broker_core.model.limits import MAX_OFFSET
from broker_core.model.topic_config import TopicConfig
from broker_core.record.batch_builder import build_empty_batch
from broker_core.record.batch_header import BatchHeader
from broker_core.record.batch_reader import check_crc, iter_headers


@dataclass(slots=True, kw_only=True)
class CompactionCounts:
    """Statistics of the cleaning so far. `keyless_records`: dropped, because a compacted topic has none."""

    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_written: int = 0
    keyless_records: int = 0


class Compaction:
    """One pass over one partition.

    `aborted`: all aborted transactions that overlap the log up to the plan's end, from the transaction indexes.
    `producers`: ProducerState.entries. `digest_key`: 16 or more random bytes. `memory_bytes` limits the key table; one
    decoded batch at a time comes on top.
    """

    def __init__(
        self,
        plan: CompactionPlan,
        *,
        config: TopicConfig,
        now_ms: int,
        memory_bytes: int,
        digest_key: bytes,
        aborted: Iterable[AbortedTransactionEntry],
        producers: Mapping[int, ProducerEntry],
    ) -> None:
        aborted = tuple(aborted)
        self.plan = plan
        self.counts = CompactionCounts()
        self.is_full = False
        """The key table is full: the pass ends below the plan's end; run another one after it."""
        self._config = config
        self._now_ms = now_ms
        self._map = OffsetMap(memory_bytes=memory_bytes, digest_key=digest_key)
        self._map.latest_offset = plan.first_dirty_offset - 1
        self._indexed = CleanedTransactions(aborted)
        self._cleaned = CleanedTransactions(aborted)
        # A copy: the log may grow during a pass, and all decisions about a producer's last batch need the same state.
        self._last_batches = {
            producer_id: (entry.last_data_offset, entry.producer_epoch) for producer_id, entry in producers.items()
        }

    @property
    def end_offset(self) -> int:
        """The end offset (exclusive) of this pass; final once indexing ended."""
        return self._map.latest_offset + 1

    def index(self, buffer: Buffer) -> bool:
        """Adds whole batches in offset order; those below the dirty section are allowed.

        True: no more are needed, because the plan's end is reached or the table is full. Raises CorruptBatchError.
        """
        view = memoryview(buffer)
        for position, header in iter_headers(view):
            if self.is_full or header.base_offset >= self.plan.until_offset:
                return True
            batch = view[position : position + header.size_bytes]
            check_crc(view, position, header)
            if header.is_control:
                self._indexed.on_control(header, read_marker(batch, 0, header))
            elif not self._indexed.on_data(header) and header.last_offset >= self.plan.first_dirty_offset:
                self._index_records(header, batch)
            if not self.is_full:
                self._map.latest_offset = max(self._map.latest_offset, header.last_offset)
        return self.is_full

    def end_index(self) -> None:
        """Call this when the dirty section was fed to its end, or `index` returned True."""
        if not self.is_full:
            self._map.latest_offset = self.plan.until_offset - 1

    def clean(self, buffer: Buffer) -> bytearray:
        """Takes whole batches in offset order and returns the surviving ones. Raises CorruptBatchError."""
        view = memoryview(buffer)
        survivors = bytearray()
        for position, header in iter_headers(view):
            check_crc(view, position, header)
            survivors += self._clean_batch(header, view[position : position + header.size_bytes])
            self.counts.bytes_read += header.size_bytes
            self.counts.records_read += header.record_count
        self.counts.bytes_written += len(survivors)
        return survivors

    def take_aborted_transactions(self) -> tuple[AbortedTransactionEntry, ...]:
        """The transaction index of the segment that was just written; the next group starts empty."""
        return self._cleaned.take_retained()

    def _index_records(self, header: BatchHeader, batch: memoryview) -> None:
        first_dirty_offset = self.plan.first_dirty_offset
        for key, offset, _ in _records(header, batch):
            if key is None or offset < first_dirty_offset:
                continue
            if not self._map.put(key, offset):
                # The map has every record before this one; the next pass continues from here.
                self.is_full = True
                return
            self._map.latest_offset = offset

    def _clean_batch(self, header: BatchHeader, batch: memoryview) -> Buffer:
        if header.is_control:
            is_settled = self._cleaned.on_control(header, read_marker(batch, 0, header))
            horizon_ms = header.delete_horizon_ms
            must_go = is_settled and horizon_ms is not None and horizon_ms <= self._now_ms
            survives: Sequence[bool] = [not must_go] * header.record_count
            needs_horizon = is_settled
        else:
            must_go = self._cleaned.on_data(header)
            survives, needs_horizon = ([], False) if must_go else self._verdicts(header, batch)
        if any(survives):
            self.counts.records_written += sum(survives)
            horizon_ms = None
            if needs_horizon and not header.has_delete_horizon:
                horizon_ms = self._now_ms + self._config.delete_retention_ms
            if horizon_ms is None and all(survives):
                return batch
            return filter_batch(header, batch, survives, config=self._config, delete_horizon_ms=horizon_ms)
        if self._is_last_of_producer(header) or header.next_offset == self.plan.until_offset:
            return build_empty_batch(header)
        return b""

    def _verdicts(self, header: BatchHeader, batch: memoryview) -> tuple[list[bool], bool]:
        """Which records survive, and whether a tombstone is among them."""
        horizon_ms = header.delete_horizon_ms
        keeps_tombstones = horizon_ms is None or self._now_ms < horizon_ms
        latest_offset = self._map.latest_offset
        survives: list[bool] = []
        has_tombstone = False
        for key, offset, is_tombstone in _records(header, batch):
            if offset > latest_offset:
                is_kept = True
            elif key is None:
                self.counts.keyless_records += 1
                is_kept = False
            else:
                is_kept = (keeps_tombstones or not is_tombstone) and offset >= self._map.get(key)
            has_tombstone = has_tombstone or (is_kept and is_tombstone)
            survives.append(is_kept)
        return survives, has_tombstone

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        """Whether a producer's state depends on this batch: its last sequence or, with no data left, its epoch."""
        last = self._last_batches.get(header.producer_id)
        if last is None or header.producer_id < 0:
            return False
        last_data_offset, producer_epoch = last
        if last_data_offset >= 0:
            return header.last_offset == last_data_offset
        return header.is_control and header.producer_epoch == producer_epoch


def _records(header: BatchHeader, batch: memoryview) -> Iterator[tuple[bytes | None, int, bool]]:
    """(key, offset, is a tombstone) of every record of a data batch; the decoder checks the content."""
    if header.record_count == 0:
        return iter(())
    # Imported here, where compaction runs: a broker that decodes nothing does not need pyarrow.
    from broker_core.record.columns import decode

    decoded = decode(
        batch, from_offset=0, until_offset=MAX_OFFSET, columns=frozenset({"key", "value", "offset"})
    ).record_batch
    return zip(
        decoded.column("key").to_pylist(),
        decoded.column("offset").to_pylist(),
        decoded.column("value").is_null().to_pylist(),
        strict=True,
    )
