"""`streamlog` as a process that starts in milliseconds: see `warm_server`, one for each process of the test run.

    process = WarmProcess(["broker", "--config", path], stdout=subprocess.PIPE, stderr=log)

What a test needs of `subprocess.Popen` is here. The start of a program is tested with real ones.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from support.runs.warm_server import NUMBER

_PROGRAM = Path(__file__).with_name("warm_server.py")
_WAIT_SECONDS = 600


class WarmProcess:
    """In a session of its own. `stdin`, `stdout` and `stderr`: a file, subprocess.PIPE or subprocess.DEVNULL; None is
    that of this process."""

    def __init__(
        self,
        arguments: Sequence[object],
        *,
        stdin: Any = None,
        stdout: Any = None,
        stderr: Any = None,
        text: bool = False,
    ) -> None:
        self.returncode: int | None = None
        with contextlib.ExitStack() as theirs:
            own: dict[str, IO[Any] | None] = {}
            given: list[int] = []
            for number, (name, file) in enumerate({"stdin": stdin, "stdout": stdout, "stderr": stderr}.items()):
                own[name] = None
                if file is None:
                    given.append(number)
                elif file == subprocess.PIPE:
                    ends = os.pipe()
                    there, here = ends if number == 0 else ends[::-1]
                    theirs.callback(os.close, there)
                    given.append(there)
                    mode = ("w" if number == 0 else "r") + ("" if text else "b")
                    own[name] = open(here, mode, buffering=1 if text else -1 if number else 0)  # noqa: SIM115
                elif file == subprocess.DEVNULL:
                    given.append(os.open(os.devnull, os.O_RDWR))
                    theirs.callback(os.close, given[-1])
                else:
                    given.append(file if isinstance(file, int) else file.fileno())
            self.stdin, self.stdout, self.stderr = own["stdin"], own["stdout"], own["stderr"]
            self._server = socket.socket(socket.AF_UNIX)
            self._server.connect(_server_address())
            request = {"arguments": list(map(str, arguments)), "cwd": os.getcwd(), "environment": dict(os.environ)}
            line = json.dumps(request).encode() + b"\n"
            sent = socket.send_fds(self._server, [line], given)
            self._server.sendall(line[sent:])
            self.pid = self._number()

    def poll(self) -> int | None:
        return self._polled(0)

    def wait(self, timeout: float | None = None) -> int:
        """Raises subprocess.TimeoutExpired."""
        seconds = _WAIT_SECONDS if timeout is None else timeout
        status = self._polled(seconds)
        if status is None:
            raise subprocess.TimeoutExpired("streamlog", seconds)
        return status

    def communicate(self, timeout: float | None = None) -> tuple[Any, Any]:
        """What is still to be read of the two outputs: little, so that neither fills its pipe."""
        read = tuple(None if file is None else file.read() for file in (self.stdout, self.stderr))
        self.wait(timeout)
        return read

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, sig)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _polled(self, seconds: float) -> int | None:
        if self.returncode is None:
            poll = select.poll()
            poll.register(self._server, select.POLLIN)
            if poll.poll(seconds * 1000):
                self.returncode = self._number()
                self._server.close()
        return self.returncode

    def _number(self) -> int:
        data = self._server.recv(NUMBER.size, socket.MSG_WAITALL)
        assert len(data) == NUMBER.size, "the server of warm processes has died"
        return int(NUMBER.unpack(data)[0])


def start_warm(arguments: Sequence[object], **files: Any) -> WarmProcess | subprocess.Popen[Any]:
    """A real process where there is no /proc."""
    if sys.platform != "linux":
        command = [sys.executable, "-m", "broker_core.cli.main", *map(str, arguments)]
        return subprocess.Popen(command, start_new_session=True, **files)
    return WarmProcess(arguments, **files)


def start_warm_node(arguments: Sequence[str], log: IO[bytes]) -> WarmProcess | subprocess.Popen[Any]:
    """A `StartProcess` of a `LocalCluster`."""
    return start_warm(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)


@functools.cache
def _server_address() -> str:
    """It is started when it is first asked for, and ends with this process, which holds the other end of a pipe."""
    address = f"\0streamlog-tests-{os.getpid()}-{time.monotonic_ns()}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        command = [sys.executable, str(_PROGRAM), str(listener.fileno())]
        # In a session of its own: a signal to the test run must not end it before it has ended the others.
        server = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[listener.fileno()], start_new_session=True)

    def end() -> None:
        assert server.stdin is not None
        server.stdin.close()
        server.wait()

    atexit.register(end)
    return address
