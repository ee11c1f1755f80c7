"""The pending appends of a coordinator, and the answers that wait for them.

    add(batch, …)   joins the last append that has not started, or creates another
    take_next()     the append to write now: one at a time
    hold(answer)    waits for everything that was added before

So a batch is never in the log without its predecessors, and an answer is sent only after all it depends on is durable.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from broker_core.broker.coordination.held_answer import HeldAnswer
from broker_core.model.identifiers import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerIdAndEpoch

_MAX_APPEND_BYTES: Final = 512 * 1024
"""The largest append of several batches; a larger batch is appended alone. Segments of these topics hold 1 MiB."""


@dataclass(slots=True, kw_only=True)
class CoordinatorAppend:
    """Batches that are appended together, and the answers that wait for them."""

    base_offset: int
    batches: bytearray = field(default_factory=bytearray)
    held: list[HeldAnswer] = field(default_factory=list)


class CoordinatorAppends:
    """`next_offset`: the offset of the next added record. It is known because the coordinator is the only writer."""

    def __init__(self, next_offset: int) -> None:
        self.next_offset = next_offset
        self._under_way: CoordinatorAppend | None = None
        self._waiting: deque[CoordinatorAppend] = deque()
        self._epochs: dict[int, int] = {}
        """Epochs by producer id, of batches and markers that are not durable yet."""

    def add(self, batch: bytearray, record_count: int, held: HeldAnswer, producer: ProducerIdAndEpoch) -> None:
        if producer.producer_id != NO_PRODUCER_ID:
            self._epochs[producer.producer_id] = producer.producer_epoch
        last = self._waiting[-1] if self._waiting else None
        if last is None or len(last.batches) + len(batch) > _MAX_APPEND_BYTES:
            last = CoordinatorAppend(base_offset=self.next_offset)
            self._waiting.append(last)
        last.batches += batch
        last.held.append(held)
        self.next_offset += record_count

    def hold(self, held: HeldAnswer) -> None:
        """Delivers it once everything added so far is durable; immediately if it is."""
        if self._waiting:
            self._waiting[-1].held.append(held)
        elif self._under_way is not None:
            self._under_way.held.append(held)
        else:
            held.deliver()

    def take_next(self) -> CoordinatorAppend | None:
        """The next append to write; None: nothing is waiting."""
        assert self._under_way is None, "an append is already in progress"
        self._under_way = self._waiting.popleft() if self._waiting else None
        return self._under_way

    @property
    def under_way(self) -> CoordinatorAppend:
        assert self._under_way is not None, "no append is in progress"
        return self._under_way

    def end_append(self) -> None:
        """The append under way is durable, and its answers were delivered."""
        self._under_way = None
        if not self._waiting:
            self._epochs.clear()

    def all_held(self) -> list[HeldAnswer]:
        """All undelivered answers, in order."""
        under_way = () if self._under_way is None else (self._under_way,)
        return [held for append in (*under_way, *self._waiting) for held in append.held]

    def epoch_of(self, producer_id: int) -> int:
        """The newest epoch that was added and may not be durable yet; -1: none."""
        return self._epochs.get(producer_id, NO_PRODUCER_EPOCH)
