"""How far one micro-batch goes by bytes: `maxBytesPerTrigger`, exact in whole record batches.

    step           each partition takes                              from the remaining maximum
    1 overdue      one batch each, those that got nothing last time   half of it, and the first of them always one
    2 shares       whole batches within its share                     in proportion to its bytes
    3 left out     one batch each                                     all of it
    4 remainder    whole batches, the furthest below its share first  all of it

No batch may exceed the maximum, with one exception: if nothing else was taken, one batch of any size is taken, or the
query would never progress. At the end no further batch would fit.

Shares alone would starve a small partition next to a large one: a batch larger than its share would never be taken. So
partitions that got nothing wait in a queue and come first the next time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from broker_core.model.identifiers import TopicPartition


class MeasuredLog(Protocol):
    """The byte sizes of `broker_core.cluster.Cluster`; see there."""

    def find_offset_within_bytes(
        self, partition: TopicPartition, from_offset: int, until_offset: int, max_bytes: int
    ) -> int: ...

    def bytes_between(self, partition: TopicPartition, from_offset: int, until_offset: int) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteShares:
    """`overdue` are the partitions with new records that got nothing, the longest waiting first."""

    ends: dict[TopicPartition, int]
    overdue: tuple[TopicPartition, ...] = ()


def limit_bytes(
    max_bytes: int,
    begin: Mapping[TopicPartition, int],
    latest: Mapping[TopicPartition, int],
    log: MeasuredLog,
    overdue: Sequence[TopicPartition] = (),
) -> ByteShares:
    """The end of a batch from `begin` that takes at most `max_bytes` of the records up to `latest`.

    Partitions without a begin keep their latest, and so do those with only a gap before it, which has no bytes.
    `overdue` is the result of the previous call.
    """
    sizes = {tp: log.bytes_between(tp, begin[tp], end) for tp, end in latest.items() if end > begin.get(tp, end)}
    sizes = {tp: size for tp, size in sizes.items() if size > 0}
    if sum(sizes.values()) <= max_bytes:
        return ByteShares(ends=dict(latest))
    waiting = [tp for tp in overdue if tp in sizes]
    deal = _ByteBudget(max_bytes, {tp: begin[tp] for tp in sizes}, latest, log)
    for tp in waiting:
        deal.take_one_batch(tp, within=deal.left_bytes - max_bytes // 2, is_forced=tp == waiting[0])
    order = [*waiting, *sorted(sizes.keys() - set(waiting))]
    shares = _shares(max_bytes, sizes)
    for tp in order:
        deal.take_batches(tp, within=min(deal.left_bytes, shares[tp] - deal.taken_bytes[tp]))
    for tp in order:
        if not deal.has_moved(tp):
            deal.take_one_batch(tp, within=deal.left_bytes)
    for tp in sorted(order, key=lambda tp: deal.taken_bytes[tp] - shares[tp]):
        deal.take_batches(tp, within=deal.left_bytes)
    if not any(deal.has_moved(tp) for tp in order):
        deal.take_one_batch(order[0], within=0, is_forced=True)
    return ByteShares(ends=dict(latest) | deal.ends, overdue=tuple(tp for tp in order if not deal.has_moved(tp)))


def _shares(max_bytes: int, sizes: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    total = sum(sizes.values())
    return {tp: max_bytes * size // total for tp, size in sizes.items()}


class _ByteBudget:
    """`ends` moves up from the begin; `left_bytes` is the rest of the maximum, below zero after a forced batch."""

    def __init__(
        self,
        max_bytes: int,
        begin: Mapping[TopicPartition, int],
        latest: Mapping[TopicPartition, int],
        log: MeasuredLog,
    ) -> None:
        self.left_bytes = max_bytes
        self.ends = dict(begin)
        self.taken_bytes = dict.fromkeys(begin, 0)
        self._begin = begin
        self._latest = latest
        self._log = log

    def has_moved(self, tp: TopicPartition) -> bool:
        return self.ends[tp] > self._begin[tp]

    def take_batches(self, tp: TopicPartition, *, within: int) -> None:
        if within > 0:
            self._take(tp, asked_bytes=within, within=within)

    def take_one_batch(self, tp: TopicPartition, *, within: int, is_forced: bool = False) -> None:
        """Forced: regardless of its size."""
        if within > 0 or is_forced:
            self._take(tp, asked_bytes=1, within=within, is_forced=is_forced)

    def _take(self, tp: TopicPartition, *, asked_bytes: int, within: int, is_forced: bool = False) -> None:
        from_offset, latest = self.ends[tp], self._latest[tp]
        if from_offset == latest:
            return
        end = self._log.find_offset_within_bytes(tp, from_offset, latest, asked_bytes)
        # The log returns at least one batch, so the result can exceed the requested bytes.
        weight = self._log.bytes_between(tp, from_offset, end)
        if weight <= within or is_forced:
            self.ends[tp] = end
            self.taken_bytes[tp] += weight
            self.left_bytes -= weight
