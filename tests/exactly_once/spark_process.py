"""Runs `query_host` in another process, and can kill it with all its child processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from exactly_once.injected.kill_switch import WATCHED_FROM_START
from support.spark.spark_session import SHORT_LIVED, environment_for_workers

HERE = Path(__file__).parent
START_SECONDS = 280
CALL_SECONDS = 600
"""The longest query, which takes seconds on an idle machine."""
CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    # Which row was in which batch is read from the checkpoint: none of its files may go.
    "spark.sql.streaming.minBatchesToRetain": "100000",
    **SHORT_LIVED,
}


def environment_with_kills(kill_folder: Path) -> dict[str, str]:
    """The environment of Spark's processes: it installs a kill switch in all their Python processes."""
    environment = os.environ | environment_for_workers()
    environment["PYTHONPATH"] = os.pathsep.join([str(HERE / "injected"), environment["PYTHONPATH"]])
    return environment | {"STREAMLOG_KILL_FOLDER": str(kill_folder), WATCHED_FROM_START: "yes"}


class QueryFailed(Exception):
    """Spark's error, as text."""


class SparkDied(Exception):
    """The driver has died."""


class SparkProcess:
    """`call` runs a function of `query_host`. Raises QueryFailed, or SparkDied if the driver died."""

    def __init__(
        self,
        kill_folder: Path,
        *,
        master: str = "local[2,2]",
        conf: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> None:
        """`environment` precedes the variables of the kill switch; `settings` are those of `query_host`."""
        kill_folder.mkdir(parents=True, exist_ok=True)
        settings = {"master": master, "conf": {**CONF, **(conf or {})}, **settings}
        self.log_path = kill_folder / f"spark-{time.time_ns()}.log"
        with self.log_path.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(HERE / "query_host.py"), json.dumps(settings)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment_with_kills(kill_folder) | (environment or {}),
                start_new_session=True,
                text=True,
            )
        self._is_ready = False

    def wait_until_ready(self) -> SparkProcess:
        if not self._is_ready:
            self._answer(START_SECONDS)
            self._is_ready = True
        return self

    def call(self, function: str, **arguments: Any) -> Any:
        self.wait_until_ready()
        self.begin(function, **arguments)
        return self.finish()

    def begin(self, function: str, **arguments: Any) -> None:
        """The first half of `call`, so that two processes can work at once."""
        self.wait_until_ready()
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"function": function, "arguments": arguments}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise SparkDied(self.log_path) from None

    def finish(self) -> Any:
        answer = self._answer(CALL_SECONDS)
        if "failed" in answer:
            raise QueryFailed(answer["failed"])
        return answer["returned"]

    def _answer(self, seconds: float) -> dict[str, Any]:
        stopper = threading.Timer(seconds, self.kill)
        stopper.start()
        try:
            assert self._process.stdout is not None
            line = self._process.stdout.readline()
        finally:
            stopper.cancel()
        if not line:
            self._process.wait(30)
            raise SparkDied(f"exit {self._process.returncode}; the end of its log:\n{self._end_of_log()}")
        return dict(json.loads(line))

    def _end_of_log(self) -> str:
        return self.log_path.read_text(errors="replace")[-3000:]

    def processes(self) -> list[int]:
        """All child processes, including Spark's daemons and executors: they share its session."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue  # it has ended meanwhile
                if int(fields[3]) == self._process.pid and fields[0] != "Z":
                    found.append(int(entry.name))
        return found

    def kill(self) -> None:
        """SIGKILL to everything, the driver's Python and JVM first."""
        for pid in sorted(self.processes()):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self._process.wait(30)

    def close(self) -> None:
        """Asks it to end, then kills it."""
        if self._process.poll() is None and self._process.stdin is not None:
            self._process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(20)
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None and not pipe.closed:
                pipe.close()

    def __enter__(self) -> SparkProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
