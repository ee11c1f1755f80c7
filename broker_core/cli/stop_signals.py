"""Handles Ctrl-C and similar signals while a command has work to finish first.

    with StopSignals() as stop:
        while stop.received is None:
            source.wait(…, stop.descriptor)
        …                                   finish; a later signal raises KeyboardInterrupt
    raise typer.Exit(stop.exit_code)

A signal that the parent process ignores stays ignored (nohup, a job in the background). Outside of the main thread
Python handles no signals: `received` stays None there.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Sequence
from types import FrameType
from typing import Any, Final

from broker_core.cli.exit_status import OK, exit_status_of_signal

STOP_SIGNALS: Final = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


_SAME_SECONDS: Final = 1.0
"""A signal within this time is a duplicate of the first: `timeout` sends it to the process and to its group."""


class StopSignals:
    """Notes the first signal and makes `descriptor` readable; a second one raises KeyboardInterrupt."""

    def __init__(self, numbers: Sequence[int] = STOP_SIGNALS, *, is_interrupting: bool = False) -> None:
        """`numbers`: the signals to handle; the others keep their behavior.

        `is_interrupting`: the first one raises KeyboardInterrupt, too. Python drops an exception that is raised in a
        destructor or a weak reference's callback, so a loop that has to end looks at `received` as well.
        """
        self._numbers = numbers
        self._is_interrupting = is_interrupting
        self.received: int | None = None
        self.descriptor, self._write_end = os.pipe()
        self._received_at_s = 0.0
        self._previous: dict[int, Any] = {}

    @property
    def exit_code(self) -> int:
        """The exit code that a shell shows for a process ended by this signal."""
        return OK if self.received is None else exit_status_of_signal(self.received)

    @property
    def name(self) -> str:
        """The name of the received signal."""
        assert self.received is not None
        return signal.Signals(self.received).name

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            for number in self._numbers:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._previous[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        os.close(self.descriptor)
        os.close(self._write_end)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        if self.received is not None:
            if time.monotonic() - self._received_at_s >= _SAME_SECONDS:
                raise KeyboardInterrupt
            return
        self.received, self._received_at_s = number, time.monotonic()
        os.write(self._write_end, b"!")
        if self._is_interrupting:
            raise KeyboardInterrupt
