"""A node of a cluster on this machine, as a process of its own: `streamlog broker` with its settings file.

node.spawn(); node.wait_until_ready()     or start(), which is both
node.kill()      SIGKILL                  node.pause()    SIGSTOP, until resume()
node.stop()      SIGTERM                  node.restart()  stops it if it runs, and starts it
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Final, Protocol

from broker_core.log_directory.partition_lock import LOCK_FILE_NAME
from broker_core.log_directory.system_ports import is_locked_exclusively
from broker_core.model.exceptions import BrokerUnavailableError
from broker_core.server.local.cluster_layout import NodePlace

START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 30.0
_READY: Final = b"streamlog broker is ready:"
_LOG_END_BYTES: Final = 64 * 1024
_SLEEP_SECONDS: Final = 0.01


class ChildProcess(Protocol):
    """The part of `subprocess.Popen` that is used here."""

    pid: int

    @property
    def stdout(self) -> IO[bytes] | None: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def send_signal(self, sig: int) -> None: ...


StartProcess = Callable[[Sequence[str], IO[bytes]], ChildProcess]
"""Starts `streamlog` with these arguments, in a session of its own: Ctrl-C is for the process that looks after all
nodes. stdout is a pipe, stderr that file."""


def start_program(arguments: Sequence[str], log: IO[bytes]) -> ChildProcess:
    """Anew, with an interpreter of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "broker_core.cli.main", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=log,
        start_new_session=True,
    )


class NodeProcess:
    """Not thread-safe. Nothing is started before `spawn`."""

    def __init__(self, place: NodePlace, cluster_id: str, *, start_process: StartProcess = start_program) -> None:
        self.place = place
        self._cluster_id = cluster_id
        self._start_process = start_process
        self._process: ChildProcess | None = None
        self._output: IO[bytes] | None = None
        self._said = b""
        self._log_start = 0
        self._is_paused = False

    @property
    def node_id(self) -> int:
        return self.place.node_id

    @property
    def path(self) -> Path:
        """The log directory."""
        return self.place.data_path

    @property
    def pid(self) -> int:
        """Of the process that was started last."""
        assert self._process is not None, f"node {self.node_id} was never started"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Also while it is paused."""
        return self._process is not None and self._process.poll() is None

    @property
    def runs_elsewhere(self) -> bool:
        """Whether a process that was not started here, as by hand, serves the node's directory. Linux only."""
        return not self.is_running and is_locked_exclusively(str(self.place.data_path / LOCK_FILE_NAME))

    @property
    def is_paused(self) -> bool:
        return self.is_running and self._is_paused

    @property
    def is_ready(self) -> bool:
        """Whether the controller has let clients in, since the process was started."""
        if self._output is not None:
            self._said += self._output.read() or b""
            if _READY in self._said:
                self._close_output()
        return _READY in self._said

    @property
    def command(self) -> str:
        """What starts it in a shell."""
        return f"streamlog broker --config {shlex.quote(str(self.place.properties_path))}"

    def spawn(self) -> None:
        """Starts the process, and does not wait until it is ready."""
        assert not self.is_running, f"node {self.node_id} runs already, as process {self.pid}"
        self._close_output()
        self._said, self._is_paused = b"", False
        arguments = ("broker", "--config", str(self.place.properties_path), "--cluster-id", self._cluster_id)
        with self.place.log_path.open("ab") as log:
            self._log_start = log.tell()
            self._process = self._start_process(arguments, log)
        self.place.pid_path.write_text(f"{self.pid}\n")
        assert self._process.stdout is not None
        self._output = self._process.stdout
        os.set_blocking(self._output.fileno(), False)

    def wait_until_ready(self, *, timeout_seconds: float = START_SECONDS) -> None:
        """A cluster is ready only with most of its nodes. Raises BrokerUnavailableError."""
        deadline = time.monotonic() + timeout_seconds
        while not self.is_ready:
            if not self.is_running:
                raise BrokerUnavailableError(f"node {self.node_id} {self.how_it_ended()}")
            if time.monotonic() > deadline:
                raise BrokerUnavailableError(
                    f"node {self.node_id} is not ready after {timeout_seconds:g} s; its log is {self.place.log_path}"
                )
            time.sleep(_SLEEP_SECONDS)

    def start(self) -> None:
        """Returns once clients can connect. Raises BrokerUnavailableError."""
        self.spawn()
        self.wait_until_ready()

    def restart(self) -> None:
        """On the same ports and the same log; first it is stopped in order, if it runs."""
        self.stop()
        self.start()

    def kill(self) -> None:
        """SIGKILL: it answers nothing and flushes nothing. Does nothing if it is not running."""
        self._send(signal.SIGKILL)
        self._wait()

    def stop(self) -> None:
        """SIGTERM, and waits: its leaders move to other nodes first. Raises BrokerUnavailableError."""
        self.ask_to_stop()
        self.wait_until_stopped()

    def ask_to_stop(self) -> None:
        """SIGTERM. A paused node goes on, to stop."""
        self._send(signal.SIGTERM)
        self.resume()

    def wait_until_stopped(self, *, timeout_seconds: float = STOP_SECONDS) -> None:
        """A process that is still there after that is killed. Raises BrokerUnavailableError, also if it ended with an
        error."""
        try:
            self._wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BrokerUnavailableError(
                f"node {self.node_id} was killed, because it was still there {timeout_seconds:g} s after SIGTERM"
            ) from None

    def pause(self) -> None:
        """SIGSTOP: its connections stay open, and nobody answers."""
        assert self.is_running, f"node {self.node_id} does not run"
        self._send(signal.SIGSTOP)
        self._is_paused = True

    def resume(self) -> None:
        """SIGCONT. Does nothing if it is not paused."""
        if self._is_paused:
            self._send(signal.SIGCONT)
            self._is_paused = False

    def how_it_ended(self) -> str:
        """For people, without the node: how the last process ended, and the last error in its log."""
        status = None if self._process is None else self._process.poll()
        if status is None:
            return "runs" if self._process is not None else "was never started"
        how = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with {status}"
        reason = self._last_error()
        return f"{how}: {reason}" if reason and status > 0 else how

    def _last_error(self) -> str | None:
        """What it wrote last since its start that tells of an error."""
        with self.place.log_path.open("rb") as log:
            end = log.seek(0, os.SEEK_END)
            log.seek(max(self._log_start, end - _LOG_END_BYTES))
            lines = log.read().decode(errors="replace").splitlines()
        told = [line for line in lines if line.startswith("streamlog: ") or " ERROR " in line]
        last = told[-1:] or [line for line in lines[-1:] if line]
        return last[0].removeprefix("streamlog: ") if last else None

    def _send(self, number: signal.Signals) -> None:
        if self.is_running:
            assert self._process is not None
            self._process.send_signal(number)

    def _wait(self, timeout_seconds: float | None = None) -> None:
        if self._process is not None:
            self._process.wait(timeout_seconds)
            self.place.pid_path.unlink(missing_ok=True)
        self._close_output()
        self._is_paused = False

    def _close_output(self) -> None:
        if self._output is not None:
            self._output.close()
            self._output = None
