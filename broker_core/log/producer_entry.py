"""What a partition remembers of one producer: its epoch, its last batches, its open transaction."""

from __future__ import annotations

from typing import NamedTuple

from broker_core.model.identifiers import NO_SEQUENCE
from broker_core.model.limits import MAX_SEQUENCE, PRODUCER_BATCH_WINDOW_COUNT


class ProducedBatch(NamedTuple):
    """One remembered batch. A tuple, as its producer is, because each idempotent batch creates both."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) % (MAX_SEQUENCE + 1) if self.last_sequence >= 0 else NO_SEQUENCE

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerEntry(NamedTuple):
    """One producer. `batches`: oldest first, at most five, all of `producer_epoch`."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int = -1
    last_timestamp_ms: int = -1
    transaction_first_offset: int | None = None
    batches: tuple[ProducedBatch, ...] = ()

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_data_offset(self) -> int:
        """-1: none of its batches is remembered, only its epoch."""
        return self.batches[-1].last_offset if self.batches else -1

    def with_earlier(self, known: ProducerEntry) -> ProducerEntry:
        """With the batches of an earlier state of the same producer that come right before its own."""
        if not self.batches or known.producer_epoch != self.producer_epoch:
            return self
        older = _older(known.batches, self.batches[0])
        return self._replace(batches=(*older, *self.batches)[-PRODUCER_BATCH_WINDOW_COUNT:]) if older else self


def following(sequence: int) -> int:
    """The sequence after this one."""
    return 0 if sequence == MAX_SEQUENCE else sequence + 1


def _older(batches: tuple[ProducedBatch, ...], first: ProducedBatch) -> tuple[ProducedBatch, ...]:
    """Those of `batches` that come before `first`, without a gap."""
    for slot, batch in enumerate(batches):
        if (batch.last_sequence, batch.last_offset) == (first.last_sequence, first.last_offset):
            return batches[:slot]
    is_next = (
        batches
        and first.first_sequence == following(batches[-1].last_sequence)
        and batches[-1].last_offset < first.first_offset
    )
    return batches if is_next else ()
