"""A machine of the quorum on the running loop: one event after the other, its timer, and writes in a thread.

feed(event)            now, or behind the events that are being handled
on_disk(work, event)   the work in the thread, in order; the event when it is done

An error of a step, of an effect or of the disk ends the node: `on_end` is called with it, once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Generic, Protocol, TypeVar

from broker_core.model.exceptions import CorruptDataError, QuorumError, UnsupportedFormatError
from broker_core.ports import Clock

Event = TypeVar("Event")
Effect = TypeVar("Effect")
_In = TypeVar("_In", contravariant=True)
_Out = TypeVar("_Out", covariant=True)


class QuorumMachine(Protocol[_In, _Out]):
    """A voter or an observer."""

    @property
    def next_timer_ms(self) -> int | None: ...

    def step(self, event: _In, now_ms: int) -> Iterable[_Out]: ...


class MachineLoop(Generic[Event, Effect]):
    """`tick` is the event of the timer."""

    def __init__(
        self,
        machine: QuorumMachine[Event, Effect],
        carry_out: Callable[[Effect], None],
        *,
        tick: Event,
        clock: Clock,
        on_end: Callable[[Exception], None],
    ) -> None:
        self._machine, self._carry_out, self._tick = machine, carry_out, tick
        self._clock, self._on_end = clock, on_end
        self._loop = asyncio.get_running_loop()
        self._disk = ThreadPoolExecutor(1, thread_name_prefix="quorum-disk")
        self._first: deque[Event] = deque()
        self._events: deque[Event] = deque()
        self._is_stepping = self._is_closed = False
        self._timer: asyncio.TimerHandle | None = None

    def feed(self, event: Event, *, is_first: bool = False) -> None:
        """`is_first`: before all events that are not."""
        (self._first if is_first else self._events).append(event)
        if self._is_stepping or self._is_closed:
            return
        self._is_stepping = True
        try:
            while (self._first or self._events) and not self._is_closed:
                following = (self._first or self._events).popleft()
                for effect in self._machine.step(following, self._clock.now_ms()):
                    self._carry_out(effect)
        except (OSError, CorruptDataError, QuorumError, UnsupportedFormatError) as error:
            self._end(error)
            return
        finally:
            self._is_stepping = False
        self._set_timer()

    def on_disk(self, work: Callable[[], None], event: Event) -> None:
        self._disk.submit(work).add_done_callback(partial(self._disk_done, event))

    def close(self) -> None:
        """Nothing is stepped any more."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()

    async def end_disk(self) -> None:
        """Waits for the writes under way."""
        await asyncio.to_thread(self._disk.shutdown)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        timer_ms = self._machine.next_timer_ms
        if timer_ms is not None and not self._is_closed:
            delay_seconds = max(0, timer_ms - self._clock.now_ms()) / 1000
            self._timer = self._loop.call_later(delay_seconds, self.feed, self._tick)

    def _disk_done(self, event: Event, done: Future[None]) -> None:
        """In the thread."""
        error = done.exception()
        if error is None:
            self._loop.call_soon_threadsafe(self.feed, event)
        elif isinstance(error, Exception):
            self._loop.call_soon_threadsafe(self._end, error)

    def _end(self, error: Exception) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._on_end(error)
