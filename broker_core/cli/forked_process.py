"""A node as a copy of this process (fork). So the modules are loaded once for all nodes: that is most of what a start
costs, and the copies share their memory.

Only on Linux, and only while this process has one thread. The child runs the command line with other arguments, as if
it had been started with them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from importlib import import_module
from typing import IO, Final, NoReturn

from broker_core.cli.stop_signals import STOP_SIGNALS
from broker_core.server.local.node_process import ChildProcess, start_program

_OPEN_DESCRIPTORS: Final = "/proc/self/fd"
_WAIT_SECONDS: Final = 0.01


def fork_program(arguments: Sequence[str], log: IO[bytes]) -> ChildProcess:
    """A StartProcess; starts the program anew where a fork is not safe."""
    if sys.platform != "linux" or threading.active_count() > 1:
        return start_program(arguments, log)
    _load()
    return ForkedProcess(arguments, log)


class ForkedProcess:
    """As much of `subprocess.Popen` as a NodeProcess needs."""

    def __init__(self, arguments: Sequence[str], log: IO[bytes]) -> None:
        read_end, write_end = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        # Blocked, because a signal of the child must not run the handlers that it has from its parent.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        try:
            self.pid = os.fork()
            if self.pid == 0:
                _run(arguments, write_end, log.fileno(), blocked)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        os.close(write_end)
        self.stdout: IO[bytes] | None = open(read_end, "rb", buffering=0)  # noqa: SIM115
        self._status: int | None = None

    def poll(self) -> int | None:
        """None while it runs; minus the signal that ended it."""
        if self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._status = os.waitstatus_to_exitcode(status)
        return self._status

    def wait(self, timeout: float | None = None) -> int:
        """Raises subprocess.TimeoutExpired."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while (status := self.poll()) is None:
            if deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("streamlog broker", timeout or 0)
            time.sleep(_WAIT_SECONDS)
        return status

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, sig)


def _load() -> None:
    """The modules of a node, and the collector's lists without them, so that the copies share their memory."""
    from broker_core.model.loading import without_collections, without_hypothesis

    with without_collections(), without_hypothesis():
        import broker_core.cli.broker_command
        import broker_core.server.broker_process
        import broker_core.server.cluster.cluster_process
        import broker_core.server.development  # noqa: F401


def _run(arguments: Sequence[str], stdout: int, stderr: int, unblocked: set[int | signal.Signals]) -> NoReturn:
    """In the child: never returns to the caller's frames."""
    status = 1
    try:
        os.setsid()
        for number in STOP_SIGNALS:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        for name in os.listdir(_OPEN_DESCRIPTORS):
            if int(name) > 2:
                with contextlib.suppress(OSError):  # that of the listing itself
                    os.close(int(name))
        signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
        sys.argv[1:] = arguments
        # By its name, as `python -m` does: it imports this module.
        import_module("broker_core.cli.main").main()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)
