"""A partition's state of its producers: which are fenced, which batch is a retry, which transactions are open.

Per producer id: epoch, the last five batches (sequence range, offsets), the coordinator's epoch, and the first offset
of the open transaction. It is a cache of the log: a replay of batch headers rebuilds it, and a snapshot (see
`producer_snapshot`) shortens the replay. A snapshot has only each producer's last batch, as in Kafka; a process
that had the log open before knows the others (`remember_earlier`).

`plan_append` changes nothing; only `replay` does, for appended and for recovered batches.

Kafka's rules: for a producer without state any first sequence is accepted. An older epoch is fenced. A new epoch begins
at sequence 0. Within an epoch the sequence follows the last one and wraps to 0 after 2**31-1. A batch with the sequence
range of one of the last five is a retry, and its answer has the same offsets.

An append may have several batches of one producer, even more than five. It is a retry as a whole if its last batches
are remembered; if only leading batches are (a writer died in the middle), only the others are appended.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from types import MappingProxyType
from typing import Final, NamedTuple

from broker_core.log.producer_entry import ProducedBatch, ProducerEntry, following
from broker_core.model.exceptions import (
    CoordinatorFencedError,
    InvalidTransactionStateError,
    OutOfOrderSequenceError,
    ProducerFencedError,
)
from broker_core.model.limits import PRODUCER_BATCH_WINDOW_COUNT, PRODUCER_EXPIRATION_CHECK_MS
from broker_core.record.batch_header import BatchHeader
from broker_core.record.control_records import EndTransactionMarker


class AppendOrigin(enum.Enum):
    """The origin of an append: decides what is checked."""

    CLIENT = "client"
    """Everything is checked."""
    COORDINATOR = "coordinator"
    """Offset commits (no sequence) and end-transaction markers: epochs are checked, sequences are not."""
    REPLICATION = "replication"
    """Another log has checked it: offsets are kept, only corruption is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedTransaction:
    """A transaction with records in this log that a marker ended. Aborted ones go to the transaction index."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool
    last_stable_offset: int
    """As of the marker: the first offset of the oldest other open transaction, else the marker's offset + 1."""


class KnownBatches(NamedTuple):
    """The `batch_count` leading batches of an append are already in the log, from `base_offset` to `last_offset`."""

    batch_count: int = 0
    base_offset: int = -1
    last_offset: int = -1
    timestamp_ms: int = -1
    """Of the last one."""


NONE_KNOWN: Final = KnownBatches()


class ProducerState:
    """The producers of one partition. `name` is the topic-partition, for messages. After an error, replay the log into
    a new one."""

    def __init__(self, name: str, entries: Iterable[ProducerEntry] = (), *, end_offset: int = 0) -> None:
        """`entries`: from a snapshot taken when the log ended at `end_offset`."""
        self.end_offset = end_offset
        """All batches below this offset are replayed."""
        self._name = name
        self._entries = {entry.producer_id: entry for entry in entries}
        opened = ((e.transaction_first_offset, e.producer_id) for e in self._entries.values())
        # First offsets ascend, since a later transaction opens at a higher offset. So the oldest is always the first
        # item.
        self._open = dict(sorted(_without_none(opened)))
        self._markers: dict[int, EndTransactionMarker] = {}
        self._unreplicated: dict[int, int] = {}
        self._writing: set[int] = set()
        """Producers with batches since the last check for silent ones."""
        self._checked_at_ms: int | None = None

    @property
    def entries(self) -> Mapping[int, ProducerEntry]:
        """By producer id. A view: it changes with the next replay."""
        return MappingProxyType(self._entries)

    def last_marker(self, producer_id: int) -> EndTransactionMarker | None:
        """The producer's last marker. None: there is none, or it is older than the snapshot that replay began with."""
        return self._markers.get(producer_id)

    def open_transactions(self) -> Mapping[int, int]:
        """Producer id -> first offset, oldest first."""
        return {producer_id: first for first, producer_id in self._open.items()}

    def first_unstable_offset(self) -> int | None:
        """First offset of the oldest transaction that is open, or that ended at or above the high watermark."""
        return min(chain(islice(self._open, 1), self._unreplicated), default=None)

    def find_known_batches(self, headers: Sequence[BatchHeader]) -> KnownBatches:
        """How much of a client's append, all of one producer, is a retry. `headers` do not need offsets yet."""
        entry = self._entries.get(headers[0].producer_id)
        first = headers[0]
        if entry is None or entry.producer_epoch != first.producer_epoch or first.base_sequence < 0:
            return NONE_KNOWN
        if len(headers) == 1 and entry.last_sequence >= 0 and first.base_sequence == following(entry.last_sequence):
            # Five batches never span all possible sequences.
            return NONE_KNOWN
        ranges = [(header.base_sequence, header.last_sequence) for header in headers]
        for slot in reversed(range(len(entry.batches))):
            known = entry.batches[slot]
            matching = [i for i, key in enumerate(ranges) if key == (known.first_sequence, known.last_sequence)]
            # A retry of older batches is one as a whole; leading ones are a retry only up to the newest remembered
            # batch.
            if matching and (matching[-1] == len(headers) - 1 or slot == len(entry.batches) - 1):
                return _aligned(entry, slot, headers[: matching[-1] + 1])
        return NONE_KNOWN

    def plan_append(
        self,
        headers: Sequence[BatchHeader],
        *,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        markers: Sequence[EndTransactionMarker | None] | None = None,
    ) -> tuple[CompletedTransaction | None, ...]:
        """Checks new batches (with offsets, without known ones) in order. Returns for each the transaction it
        completes.

        Raises OutOfOrderSequenceError, ProducerFencedError, CoordinatorFencedError, InvalidTransactionStateError.
        """
        if len(headers) == 1 and headers[0].producer_id < 0:
            return (None,)
        overlay = _Overlay(entries={}, opened={}, closed=set())
        completed: list[CompletedTransaction | None] = []
        for slot, header in enumerate(headers):
            if header.producer_id < 0:
                completed.append(None)
                continue
            marker = markers[slot] if markers else None
            entry = overlay.entries.get(header.producer_id) or self._entries.get(header.producer_id)
            self._check(entry, header, marker, origin)
            completed.append(self._advance(overlay, entry, header, marker))
        return tuple(completed)

    def replay(self, header: BatchHeader, *, marker: EndTransactionMarker | None = None) -> CompletedTransaction | None:
        """Adds a batch that is in the log. `marker`: for control batches that still have their record
        (`batch_validation.read_marker` reads it). Checks nothing, because the batch is already in the log.
        """
        self.end_offset = header.next_offset
        if header.producer_id < 0:
            return None
        overlay = _Overlay(entries={}, opened={}, closed=set())
        completed = self._advance(overlay, self._entries.get(header.producer_id), header, marker)
        self._entries.update(overlay.entries)
        self._open.update(overlay.opened)
        self._writing.add(header.producer_id)
        if marker is not None:
            self._markers[header.producer_id] = marker
        if completed is not None:
            self._open.pop(completed.first_offset, None)
            self._unreplicated[completed.first_offset] = completed.last_offset
        return completed

    def remember_earlier(self, earlier: ProducerState) -> None:
        """Takes over the batches that a snapshot leaves out. `earlier`: a state of the same log, maybe at another end.

        Only batches that come right before the oldest known one are taken: between them the producer wrote none.
        """
        for producer_id, entry in self._entries.items():
            known = earlier._entries.get(producer_id)
            if known is not None:
                self._entries[producer_id] = entry.with_earlier(known)

    def on_high_watermark(self, high_watermark: int) -> None:
        """Ended transactions below it no longer block the last stable offset."""
        if self._unreplicated:
            self._unreplicated = {
                first: last for first, last in sorted(self._unreplicated.items()) if last >= high_watermark
            }

    def expire(self, now_ms: int, *, producer_id_expiration_ms: int) -> int:
        """Removes producers that are silent for that long and have no open transaction. Returns their number.

        A producer sets the time of its batches itself. In a log of old events every producer would be silent by the
        wall clock. So silence is measured up to the newest time of the producers that wrote since the last check, and
        those stay: without its sequences a producer's retry would be appended a second time. For the same reason there
        is only one check in ten minutes, even if segments roll more often.
        """
        if self._checked_at_ms is not None and 0 <= now_ms - self._checked_at_ms < PRODUCER_EXPIRATION_CHECK_MS:
            return 0
        self._checked_at_ms = now_ms
        times_ms = [self._entries[one].last_timestamp_ms for one in self._writing if one in self._entries]
        until_ms = min(now_ms, max(times_ms, default=now_ms))
        expired = [
            producer_id
            for producer_id, entry in self._entries.items()
            if entry.transaction_first_offset is None
            and producer_id not in self._writing
            and until_ms - entry.last_timestamp_ms >= producer_id_expiration_ms
        ]
        for producer_id in expired:
            del self._entries[producer_id]
            self._markers.pop(producer_id, None)
        self._writing.clear()
        return len(expired)

    def _advance(
        self, overlay: _Overlay, entry: ProducerEntry | None, header: BatchHeader, marker: EndTransactionMarker | None
    ) -> CompletedTransaction | None:
        """Applies the batch to `overlay` only."""
        if header.is_control:
            if marker is None:
                return None
            first_offset = entry.transaction_first_offset if entry else None
            overlay.entries[header.producer_id] = _after_marker(entry, header, marker)
            if first_offset is None:
                return None
            overlay.closed.add(first_offset)
            overlay.opened.pop(first_offset, None)
            stable = min(
                next((first for first in self._open if first not in overlay.closed), header.next_offset),
                next(iter(overlay.opened), header.next_offset),
            )
            return CompletedTransaction(
                producer_id=header.producer_id,
                first_offset=first_offset,
                last_offset=header.base_offset,
                is_aborted=not marker.is_commit,
                last_stable_offset=stable,
            )
        updated = _after_data(entry, header)
        overlay.entries[header.producer_id] = updated
        if header.is_transactional and updated.transaction_first_offset == header.base_offset:
            overlay.opened[header.base_offset] = header.producer_id
        return None

    def _check(
        self,
        entry: ProducerEntry | None,
        header: BatchHeader,
        marker: EndTransactionMarker | None,
        origin: AppendOrigin,
    ) -> None:
        if entry is None or origin is AppendOrigin.REPLICATION:
            return
        who = f"{self._name}: producer {header.producer_id}"
        if header.producer_epoch < entry.producer_epoch:
            raise ProducerFencedError(
                f"{who} writes with epoch {header.producer_epoch}, but the current epoch is {entry.producer_epoch}:"
                " a newer instance took over"
            )
        if marker is not None and marker.coordinator_epoch < entry.coordinator_epoch:
            raise CoordinatorFencedError(
                f"{who}: the marker has coordinator epoch {marker.coordinator_epoch},"
                f" but the current one is {entry.coordinator_epoch}"
            )
        if header.is_control:
            return
        if entry.transaction_first_offset is not None and not header.is_transactional:
            raise InvalidTransactionStateError(
                f"{who} sends a non-transactional batch while its transaction from offset"
                f" {entry.transaction_first_offset} is open"
            )
        if origin is AppendOrigin.CLIENT:
            _check_sequence(who, entry, header)


@dataclass(slots=True, kw_only=True)
class _Overlay:
    """The changes of batches that are not in the log yet: entries, transactions opened (first offset -> id) and
    closed."""

    entries: dict[int, ProducerEntry]
    opened: dict[int, int]
    closed: set[int]


def _check_sequence(who: str, entry: ProducerEntry, header: BatchHeader) -> None:
    if header.producer_epoch != entry.producer_epoch:
        if header.base_sequence != 0:
            raise OutOfOrderSequenceError(
                f"{who} starts epoch {header.producer_epoch} with sequence {header.base_sequence}, but must"
                " start with 0"
                f" (previous epoch: {entry.producer_epoch})"
            )
        return
    expected = following(entry.last_sequence)
    if header.base_sequence != expected:
        raise OutOfOrderSequenceError(
            f"{who} sends sequence {header.base_sequence} in epoch {header.producer_epoch}, but the next one is"
            f" {expected}"
        )


def _after_data(entry: ProducerEntry | None, header: BatchHeader) -> ProducerEntry:
    batch = ProducedBatch(
        last_sequence=header.last_sequence,
        last_offset=header.last_offset,
        offset_delta=header.last_offset_delta,
        timestamp_ms=header.max_timestamp,
    )
    same_epoch = entry.batches if entry and entry.producer_epoch == header.producer_epoch else ()
    opened = entry.transaction_first_offset if entry else None
    return ProducerEntry(
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        coordinator_epoch=entry.coordinator_epoch if entry else -1,
        last_timestamp_ms=header.max_timestamp,
        transaction_first_offset=header.base_offset if opened is None and header.is_transactional else opened,
        batches=(*same_epoch, batch)[-PRODUCER_BATCH_WINDOW_COUNT:],
    )


def _after_marker(entry: ProducerEntry | None, header: BatchHeader, marker: EndTransactionMarker) -> ProducerEntry:
    return ProducerEntry(
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        coordinator_epoch=marker.coordinator_epoch,
        last_timestamp_ms=header.max_timestamp,
        batches=entry.batches if entry and entry.producer_epoch == header.producer_epoch else (),
    )


def _aligned(entry: ProducerEntry, slot: int, headers: Sequence[BatchHeader]) -> KnownBatches:
    """The last of `headers` is the remembered batch at `slot`. Checks whether the remembered ones before it match."""
    last_offset = entry.batches[slot].last_offset
    base_offset = last_offset + 1
    for distance, header in enumerate(reversed(headers)):
        known = entry.batches[slot - distance] if distance <= slot else None
        if known is not None and (header.base_sequence, header.last_sequence) != (
            known.first_sequence,
            known.last_sequence,
        ):
            return NONE_KNOWN
        # Batches older than the window are right before the remembered ones, since an append is never interleaved.
        base_offset = known.first_offset if known is not None else base_offset - header.last_offset_delta - 1
    return KnownBatches(
        batch_count=len(headers),
        base_offset=base_offset,
        last_offset=last_offset,
        timestamp_ms=entry.batches[slot].timestamp_ms,
    )


def _without_none(pairs: Iterable[tuple[int | None, int]]) -> Iterable[tuple[int, int]]:
    return ((first, producer_id) for first, producer_id in pairs if first is not None)
