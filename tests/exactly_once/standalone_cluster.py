"""Clusters of one machine: a home for local-cluster, and a Spark master with two workers that Spark takes for two
hosts, 127.0.0.1 and 127.0.0.2.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pyspark
from exactly_once.spark_process import environment_with_kills

HOME = Path(pyspark.__file__).parent
HOSTS = ("127.0.0.1", "127.0.0.2")
START_SECONDS = 280


def home_of_its_own(folder: Path) -> Path:
    """A SPARK_HOME for local-cluster, which puts the folders of its executors under its `work`."""
    folder.mkdir()
    for entry in HOME.iterdir():
        if entry.name != "work":
            (folder / entry.name).symlink_to(entry)
    return folder


def why_no_mounts_of_their_own() -> str | None:
    """The reason to skip if a process cannot have mounts of its own."""
    if shutil.which("unshare") is None:
        return "there is no unshare on the PATH"
    tried = subprocess.run(
        ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, text=True, check=False
    )
    return None if tried.returncode == 0 else f"no mounts of a process's own: {tried.stderr.strip()}"


class StandaloneCluster:
    """`folder`: of the kills, in the executors too. `environment`: for a driver, besides `master`. `not_shared`: a
    folder of the driver; each worker, with its executors, sees an empty one of its own at that path."""

    def __init__(self, folder: Path, *, not_shared: Path | None = None) -> None:
        self.environment = {"SPARK_LOCAL_IP": HOSTS[0], "SPARK_HOME": str(HOME)}
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._not_shared = not_shared
        self._processes: list[subprocess.Popen[bytes]] = []
        self._workers: dict[int, subprocess.Popen[bytes]] = {}
        self.master = ""

    def __enter__(self) -> StandaloneCluster:
        try:
            log = self._start("master", "master.Master", HOSTS[0], "--port", "0")
            self.master = self._wait_for(log, r"Starting Spark master at (\S+)")
            for number in range(len(HOSTS)):
                self._work_of(number).mkdir()
            for number in range(len(HOSTS)):
                self._start_worker(number)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def kill_worker(self, number: int) -> None:
        """Kills the worker with its executors, and starts another one in its place."""
        worker = self._workers.pop(number)
        self._processes.remove(worker)
        executors = _descendants(worker.pid)
        for pid in (worker.pid, *executors):
            os.kill(pid, signal.SIGKILL)
        worker.wait(30)
        self._start_worker(number)

    def _start_worker(self, number: int) -> None:
        arguments = ("--cores", "1", "--memory", "1g", "--work-dir", str(self._work_of(number)), self.master)
        log = self._start(
            f"worker-{number}", "worker.Worker", HOSTS[number], *arguments, prefix=self._own_mounts(number)
        )
        self._workers[number] = self._processes[-1]
        self._wait_for(log, "(registered with)")

    def _work_of(self, number: int) -> Path:
        return self._folder / f"work-{number}"

    def _own_mounts(self, number: int) -> Sequence[str]:
        """The prefix of the command of a worker that must not see the driver's folder."""
        if self._not_shared is None:
            return ()
        hidden = [self._not_shared, *(self._work_of(other) for other in range(len(HOSTS)) if other != number)]
        mounts = " && ".join(f"mount -t tmpfs none {shlex.quote(str(folder))}" for folder in hidden)
        return ("unshare", "--mount", "sh", "-c", f'{mounts} && exec "$@"', "sh")

    def _start(self, name: str, kind: str, host: str, *arguments: str, prefix: Sequence[str] = ()) -> Path:
        path = self._folder / f"{name}.log"
        command = [
            *prefix,
            str(HOME / "bin/spark-class"),
            f"org.apache.spark.deploy.{kind}",
            "--host",
            host,
            "--webui-port",
            "0",
        ]
        environment = environment_with_kills(self._folder) | self.environment
        environment |= {"SPARK_LOCAL_IP": host, "SPARK_DAEMON_MEMORY": "256m"}
        with path.open("wb") as log:
            process = subprocess.Popen(
                [*command, *arguments], stdout=log, stderr=log, env=environment, start_new_session=True
            )
        self._processes.append(process)
        return path

    @staticmethod
    def _wait_for(log: Path, pattern: str) -> str:
        until = time.monotonic() + START_SECONDS
        while not (found := re.search(pattern, log.read_text(errors="replace"))):
            assert time.monotonic() < until, log.read_text(errors="replace")
            time.sleep(0.05)
        return found[1]

    def _stop(self) -> None:
        for process in self._processes:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)


def _descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue  # it has ended meanwhile
            children.setdefault(parent, []).append(int(entry.name))
    found = list(children.get(pid, []))
    for one in found:
        found += children.get(one, [])
    return found
