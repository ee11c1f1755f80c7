"""What a coordinator appends to its log, and the answers that wait for it.

    add(batch, …)   joins the last append that has not begun, or begins another
    take_next()     the append that goes to the log now: one at a time
    hold(answer)    waits for everything that was added before

So a batch is never in the log without the ones before it, and an answer never goes out before what it has seen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from broker_core.broker.callback_errors import OnError
from broker_core.model.identifiers import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerIdAndEpoch

_MAX_APPEND_BYTES: Final = 512 * 1024
"""Batches that are appended together; a larger one goes alone. Segments of these topics hold a mebibyte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldAnswer:
    """An answer that waits for the disk. `deliver` gives the reply, or the refusal that the plan came to."""

    deliver: Callable[[], None]
    refuse: OnError


@dataclass(slots=True, kw_only=True)
class CoordinatorAppend:
    """Batches that go to the log together, and the answers that wait for them."""

    base_offset: int
    batches: bytearray = field(default_factory=bytearray)
    held: list[HeldAnswer] = field(default_factory=list)


class CoordinatorAppends:
    """`next_offset`: of the next record that is added. The coordinator is the only writer, so it is known."""

    def __init__(self, next_offset: int) -> None:
        self.next_offset = next_offset
        self._under_way: CoordinatorAppend | None = None
        self._waiting: deque[CoordinatorAppend] = deque()
        self._epochs: dict[int, int] = {}
        """Of producers whose batches and markers are not durable yet."""

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
        """Delivers it once everything that was added is durable, or now."""
        if self._waiting:
            self._waiting[-1].held.append(held)
        elif self._under_way is not None:
            self._under_way.held.append(held)
        else:
            held.deliver()

    def take_next(self) -> CoordinatorAppend | None:
        """What is to be appended now; None: nothing was added since."""
        assert self._under_way is None, "one append is under way at a time"
        self._under_way = self._waiting.popleft() if self._waiting else None
        return self._under_way

    @property
    def under_way(self) -> CoordinatorAppend:
        assert self._under_way is not None, "nothing is being appended"
        return self._under_way

    def end_append(self) -> None:
        """What was under way is durable, and answered."""
        self._under_way = None
        if not self._waiting:
            self._epochs.clear()

    def all_held(self) -> list[HeldAnswer]:
        """In the order in which they came."""
        under_way = () if self._under_way is None else (self._under_way,)
        return [held for append in (*under_way, *self._waiting) for held in append.held]

    def epoch_of(self, producer_id: int) -> int:
        """The newest one that was added and is not durable yet; -1: there is none."""
        return self._epochs.get(producer_id, NO_PRODUCER_EPOCH)
