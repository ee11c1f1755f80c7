"""Processes that open a directory and take commands over a pipe, or run a loop until they are killed.

They are forked from a server process that has imported everything, so one costs milliseconds. That server is fresh:
it has no threads and knows nothing of the test that runs.
"""

from __future__ import annotations

import dataclasses
import multiprocessing
import multiprocessing.forkserver
import os
import signal
import sys
import traceback
from collections.abc import Callable
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from broker_core.cluster import FetchedBatches
from broker_core.embedded.embedded_cluster import EmbeddedCluster

TESTS = Path(__file__).parent.parent
ANSWER_SECONDS = 120


@cache
def forking() -> multiprocessing.context.ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    # What a process of the sink imports takes longer than what it does.
    context.set_forkserver_preload(
        [
            "fuzz.worker_process",
            "fuzz.batches",
            "exactly_once.sink_process",
            "warm_workers.imported_early",
            "warm_workers.frozen_heap",
        ]
    )
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(TESTS.parent), str(TESTS), *([before] if before else [])])
    try:
        multiprocessing.forkserver.ensure_running()
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
    return context


class WorkerClock:
    def __init__(self, now_ms: int) -> None:
        self.time_ms = now_ms

    def now_ms(self) -> int:
        return self.time_ms


class LoopingProcess:
    """Runs `body(connection, *arguments)`; what it sends can be read with `take` even after it was killed."""

    def __init__(self, body: Callable[..., None], *arguments: Any) -> None:
        self._ours, theirs = forking().Pipe()
        self._process = forking().Process(target=_run, args=(body, theirs, arguments), daemon=True)
        self._process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def send(self, message: Any) -> None:
        self._ours.send(message)

    def take(self, seconds: float = ANSWER_SECONDS) -> Any:
        """The next message; EOFError once it is dead and all was read."""
        if not self._ours.poll(seconds):
            raise TimeoutError(f"process {self._process.pid} said nothing for {seconds} s")
        try:
            message = self._ours.recv()
        except ConnectionResetError:
            raise EOFError from None
        if isinstance(message, _Crash):
            raise AssertionError(f"process {self._process.pid} failed:\n{message.text}")
        return message

    def has_more(self) -> bool:
        return self._ours.poll(0)

    def take_all(self) -> list[Any]:
        """What there is still to read of a dead process."""
        found = []
        while True:
            try:
                found.append(self.take())
            except EOFError:
                return found

    def kill(self) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.join(30)
        assert self._process.exitcode == -signal.SIGKILL, (
            f"it ended by itself before the kill: {self._process.exitcode}"
        )

    def join(self) -> None:
        self._process.join(ANSWER_SECONDS)
        assert self._process.exitcode == 0, self._process.exitcode

    def close(self) -> None:
        if self._process.is_alive():
            self._process.kill()
        self._process.join(30)
        self._ours.close()


def is_running(pid: int) -> bool:
    """False once it has ended, also before anybody has asked for its exit status."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@dataclasses.dataclass(frozen=True)
class _Crash:
    text: str


def _run(body: Callable[..., None], connection: Connection, arguments: tuple[Any, ...]) -> None:
    try:
        body(connection, *arguments)
    except BaseException:
        connection.send(_Crash(traceback.format_exc()))
        sys.exit(1)


class ClusterProcess:
    """An EmbeddedCluster in another process: `call("append", partition, batches)` answers or raises as it does."""

    def __init__(self, directory: str, now_ms: int) -> None:
        self._process = LoopingProcess(_serve, directory, now_ms)

    def call(self, method: str, *arguments: Any, now_ms: int | None = None, **named: Any) -> Any:
        self._process.send((method, arguments, named, now_ms))
        answer = self._process.take()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def reopen(self) -> None:
        self.call("reopen")

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        self._process.close()


def _serve(connection: Connection, directory: str, now_ms: int) -> None:
    clock = WorkerClock(now_ms)
    cluster = EmbeddedCluster(directory, clock=clock)
    while True:
        try:
            method, arguments, named, new_time_ms = connection.recv()
        except EOFError:
            return
        clock.time_ms = clock.time_ms if new_time_ms is None else new_time_ms
        try:
            if method == "reopen":
                cluster.close()
                cluster = EmbeddedCluster(directory, clock=clock)
                answer = None
            else:
                answer = getattr(cluster, method)(*arguments, **named)
        except Exception as refusal:
            answer = refusal
        if isinstance(answer, FetchedBatches):
            answer = dataclasses.replace(answer, buffer=bytes(answer.buffer))
        connection.send(answer)
