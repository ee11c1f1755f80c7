"""Real Kafka brokers without a controller of their own, at controllers that somebody else runs."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

from support.brokers.kafka_tools import JARS, kafka_tool
from support.brokers.reachable_broker import free_ports

START_SECONDS = 120
JAVA = ("java", "-Xmx320M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
LOGGING = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"


class RealBrokers:
    """Brokers 101, 102, …, with two directories each; formatted when made. A context manager that kills what still
    runs."""

    def __init__(self, folder: Path, *, cluster_id, voters, broker_count=2, settings=()):
        self.folder = folder
        self.broker_ids = range(101, 101 + broker_count)
        self.ports = dict(zip(self.broker_ids, free_ports(broker_count), strict=True))
        self._processes: dict[int, subprocess.Popen] = {}
        for broker_id in self.broker_ids:
            path = folder / str(broker_id)
            path.mkdir(parents=True)
            address = f"PLAINTEXT://127.0.0.1:{self.ports[broker_id]}"
            lines = [
                "process.roles=broker", f"node.id={broker_id}", f"listeners={address}",
                f"log.dirs={path}/data,{path}/more",
                f"controller.quorum.voters={voters}", "controller.listener.names=CONTROLLER",
                "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
                "inter.broker.listener.name=PLAINTEXT", "offsets.topic.replication.factor=2",
                "offsets.topic.num.partitions=2", "transaction.state.log.replication.factor=2",
                "transaction.state.log.min.isr=1", "transaction.state.log.num.partitions=2",
                "group.initial.rebalance.delay.ms=0", "broker.heartbeat.interval.ms=500", *settings,
            ]  # fmt: skip
            configuration = path / "server.properties"
            configuration.write_text("\n".join(lines) + "\n")
            kafka_tool("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(configuration))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for broker_id in self.broker_ids:
            self.kill(broker_id)

    @property
    def bootstrap_servers(self):
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def start(self, *broker_ids):
        """All brokers, or these; waits until they serve clients."""
        for broker_id in broker_ids or self.broker_ids:
            path = self.folder / str(broker_id)
            with (path / "node.log").open("ab") as log:
                self._processes[broker_id] = subprocess.Popen(
                    [*JAVA, LOGGING, "-cp", f"{JARS}/*", "kafka.Kafka", str(path / "server.properties")],
                    stdout=log, stderr=log, start_new_session=True,
                )  # fmt: skip
        deadline = time.monotonic() + START_SECONDS
        for broker_id in broker_ids or self.broker_ids:
            while not self._is_listening(broker_id):
                assert self._processes[broker_id].poll() is None, self.log_of(broker_id)[-5000:]
                assert time.monotonic() < deadline, self.log_of(broker_id)[-5000:]
                time.sleep(0.1)

    def is_running(self, broker_id):
        return broker_id in self._processes

    def kill(self, broker_id):
        process = self._processes.pop(broker_id, None)
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def stop(self, broker_id):
        """A controlled shutdown; returns how many seconds it took."""
        began = time.monotonic()
        process = self._processes.pop(broker_id)
        process.terminate()
        process.wait(60)
        return time.monotonic() - began

    def log_of(self, broker_id):
        return (self.folder / str(broker_id) / "node.log").read_text(errors="replace")

    def errors_of(self, broker_id):
        """The lines that the broker logged as errors."""
        return [line for line in self.log_of(broker_id).splitlines() if re.search(r"\] (ERROR|FATAL) ", line)]

    def _is_listening(self, broker_id):
        try:
            socket.create_connection(("127.0.0.1", self.ports[broker_id]), timeout=0.5).close()
        except OSError:
            return False
        return True
