"""The brokers that are compared: `streamlog broker` and Kafka, each as a process of its own with its own directory.

Both have the settings of a single node for development and their defaults otherwise. Kafka's heap may grow to 1 GB,
with G1; its own start script takes all of that at once.
"""

from __future__ import annotations

import base64
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from bench.card import Contender
from bench.first_answer import wait_for_first_answer
from support.brokers.kafka_tools import JARS, kafka_tool
from support.brokers.reachable_broker import free_ports

START_SECONDS = 180
STOP_SECONDS = 60


class BenchBroker:
    """Not running when made. `start` says how long it took to the first Metadata answer."""

    def __init__(self, folder: Path, settings: dict[str, str]) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.log_directory = folder / "data"
        self.port, self._controller_port = free_ports(2)
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self.on_process: Callable[[int], None] = lambda pid: None
        """Called with the process's id as soon as there is one, before it answers."""
        self.prepare()

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the broker is not running"
        return self._process.pid

    def start(self) -> float:
        """Seconds until it has answered."""
        begin = time.perf_counter()
        with (self.folder / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(self.command(), stdout=log, stderr=log, start_new_session=True)
        process = self._process
        self.on_process(process.pid)
        try:
            wait_for_first_answer(self.port, is_alive=lambda: process.poll() is None, timeout_s=START_SECONDS)
        except RuntimeError as error:
            raise RuntimeError(f"{error}\n{self.log_end()}") from None
        return time.perf_counter() - begin

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()
            self._process = None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def log_end(self, lines: int = 20) -> str:
        return "\n".join((self.folder / "broker.log").read_text(errors="replace").splitlines()[-lines:])

    def prepare(self) -> None:
        raise NotImplementedError

    def command(self) -> list[str]:
        raise NotImplementedError


class StreamlogBroker(BenchBroker):
    def prepare(self) -> None:
        lines = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "log.dirs": str(self.log_directory),
            "group.initial.rebalance.delay.ms": "0",
        } | self._settings
        (self.folder / "broker.properties").write_text("".join(f"{name}={value}\n" for name, value in lines.items()))

    def command(self) -> list[str]:
        program = [sys.executable, "-m", "broker_core.cli.main", "broker"]
        return [*program, "--config", str(self.folder / "broker.properties")]


class KafkaBroker(BenchBroker):
    def prepare(self) -> None:
        controller = f"127.0.0.1:{self._controller_port}"
        lines = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(self.log_directory),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
        } | self._settings
        properties = self.folder / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        # Written with =, because one id in 64 begins with a dash, which would be taken for an option.
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        kafka_tool("kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}", "-c", str(properties))

    def command(self) -> list[str]:
        options = ["-Xmx1G", "-XX:+UseG1GC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        return ["java", *options, "-cp", f"{JARS}/*", "kafka.Kafka", str(self.folder / "server.properties")]


def new_broker(contender: Contender, folder: Path) -> BenchBroker:
    """Made, not started."""
    if contender is Contender.KAFKA:
        return KafkaBroker(folder, {})
    return StreamlogBroker(folder, {"flush.policy": "os"} if contender is Contender.BROKER_OS else {})
