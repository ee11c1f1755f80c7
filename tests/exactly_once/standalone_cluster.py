"""A Spark master and two workers on this machine that Spark takes for two hosts: 127.0.0.1 and 127.0.0.2."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pyspark
from exactly_once.spark_process import environment_with_kills

HOME = Path(pyspark.__file__).parent
HOSTS = ("127.0.0.1", "127.0.0.2")
START_SECONDS = 90


class StandaloneCluster:
    """`folder` is that of the kills, in the executors too. `environment` is what a driver needs, besides `master`."""

    def __init__(self, folder: Path) -> None:
        self.environment = {"SPARK_LOCAL_IP": HOSTS[0], "SPARK_HOME": str(HOME)}
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self.master = ""

    def __enter__(self) -> StandaloneCluster:
        try:
            log = self._start("master", "master.Master", HOSTS[0], "--port", "0")
            self.master = self._wait_for(log, r"Starting Spark master at (\S+)")
            for number, host in enumerate(HOSTS):
                work = str(self._folder / f"work-{number}")
                arguments = ("--cores", "1", "--memory", "1g", "--work-dir", work, self.master)
                self._wait_for(self._start(f"worker-{number}", "worker.Worker", host, *arguments), "(registered with)")
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _start(self, name: str, kind: str, host: str, *arguments: str) -> Path:
        path = self._folder / f"{name}.log"
        command = [
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
