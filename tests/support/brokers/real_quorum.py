"""A real Apache Kafka of several nodes, each broker and controller; any can be killed, stopped and started again.

Its jars come as `kafka_tools` says. Node n of 1, 2, … has the folder `<folder>/<n>`; `PLAINTEXT` listeners are for
clients and brokers, `SASL_PLAINTEXT` ones (PLAIN, user and password of `reachable_broker`) for what needs a login.
"""

from __future__ import annotations

import base64
import contextlib
import os
import signal
import socket
import subprocess
import time
import uuid
from pathlib import Path

from support.brokers.kafka_tools import JARS, kafka_tool
from support.brokers.reachable_broker import PASSWORD, USER, free_ports

START_SECONDS = 120
JAVA = ("java", "-Xmx320M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
LOGGING = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"


def kafkas_format(configuration, cluster_id, *options):
    kafka_tool("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(configuration), *options)


class RealQuorum:
    """Formatted when made; `start()` starts all nodes at once. A context manager that kills what still runs."""

    def __init__(
        self,
        folder: Path,
        *,
        node_count=3,
        is_dynamic=False,
        settings=(),
        format_with=kafkas_format,
        sasl_listener="SASL_PLAINTEXT",
    ):
        """`sasl_listener`: the name of that with logins, whose protocol is in `settings` if it is another one.
        `format_with`: called with a node's settings file, the cluster and options of kafka-storage."""
        self.folder, self._format = folder, format_with
        self.node_ids = range(1, node_count + 1)
        ports = iter(free_ports(3 * node_count))
        self.ports = {
            n: {name: next(ports) for name in ("PLAINTEXT", sasl_listener, "CONTROLLER")} for n in self.node_ids
        }
        self.cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self._is_dynamic, self._settings = is_dynamic, settings
        self._processes: dict[int, subprocess.Popen] = {}
        for node_id in self.node_ids:
            self.add_node(node_id)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for node_id in self.node_ids:
            self.kill(node_id)

    @property
    def bootstrap_servers(self):
        return ",".join(f"127.0.0.1:{self.ports[n]['PLAINTEXT']}" for n in self.node_ids)

    @property
    def bootstrap_controllers(self):
        return ",".join(f"127.0.0.1:{self.ports[n]['CONTROLLER']}" for n in self.node_ids)

    def metadata_folder(self, node_id):
        return self.folder / str(node_id) / "data" / "__cluster_metadata-0"

    def add_node(self, node_id):
        folder = self.folder / str(node_id)
        folder.mkdir(parents=True)
        configuration = folder / "server.properties"
        configuration.write_text("\n".join([*self._lines(node_id), *self._settings]) + "\n")
        option = []
        if self._is_dynamic:
            option = ["--standalone"] if node_id == 1 else ["--no-initial-controllers"]
        self._format(configuration, self.cluster_id, *option)

    def start(self, *node_ids):
        """All nodes, or these; waits until they listen."""
        for node_id in node_ids or self.node_ids:
            with (self.folder / str(node_id) / "node.log").open("ab") as log:
                configuration = str(self.folder / str(node_id) / "server.properties")
                self._processes[node_id] = subprocess.Popen(
                    [*JAVA, LOGGING, "-cp", f"{JARS}/*", "kafka.Kafka", configuration],
                    stdout=log, stderr=log, start_new_session=True,
                )  # fmt: skip
        deadline = time.monotonic() + START_SECONDS
        for node_id in node_ids or self.node_ids:
            while not self._is_listening(node_id):
                for each, process in self._processes.items():
                    assert process.poll() is None, self._log_end(each)
                assert time.monotonic() < deadline, self._log_end(node_id)
                time.sleep(0.1)

    def is_running(self, node_id):
        return node_id in self._processes

    def freeze(self, node_id):
        os.killpg(self._processes[node_id].pid, signal.SIGSTOP)

    def thaw(self, node_id):
        os.killpg(self._processes[node_id].pid, signal.SIGCONT)

    @property
    def running_ids(self):
        return sorted(self._processes)

    def kill(self, node_id):
        process = self._processes.pop(node_id, None)
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def stop(self, *node_ids):
        """All at once: the last node of a quorum would wait minutes for the others."""
        for node_id in node_ids or self.node_ids:
            self._processes[node_id].terminate()
        for node_id in node_ids or self.node_ids:
            try:
                self._processes[node_id].wait(30)
            except subprocess.TimeoutExpired:
                self.kill(node_id)
            self._processes.pop(node_id, None)

    def _lines(self, node_id):
        ports = self.ports[node_id]
        listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
        advertised = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items() if name != "CONTROLLER")
        voters = ",".join(f"{n}@127.0.0.1:{self.ports[n]['CONTROLLER']}" for n in self.node_ids)
        quorum = (
            f"controller.quorum.bootstrap.servers={self.bootstrap_controllers}"
            if self._is_dynamic
            else f"controller.quorum.voters={voters}"
        )
        copies = min(3, len(self.node_ids))
        plain = "org.apache.kafka.common.security.plain.PlainLoginModule"
        return [
            "process.roles=broker,controller", f"node.id={node_id}", quorum, f"listeners={listeners}",
            f"advertised.listeners={advertised}", "controller.listener.names=CONTROLLER",
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
            "inter.broker.listener.name=PLAINTEXT", f"log.dirs={self.folder}/{node_id}/data", "num.partitions=1",
            f"offsets.topic.replication.factor={copies}", "offsets.topic.num.partitions=2",
            f"transaction.state.log.replication.factor={copies}", "transaction.state.log.min.isr=1",
            "transaction.state.log.num.partitions=2", "group.initial.rebalance.delay.ms=0",
            "listener.name.sasl_plaintext.sasl.enabled.mechanisms=PLAIN",
            f'listener.name.sasl_plaintext.plain.sasl.jaas.config={plain} required user_{USER}="{PASSWORD}";',
        ]  # fmt: skip

    def _is_listening(self, node_id):
        try:
            socket.create_connection(("127.0.0.1", self.ports[node_id]["PLAINTEXT"]), timeout=0.5).close()
        except OSError:
            return False
        return True

    def _log_end(self, node_id):
        return "\n".join((self.folder / str(node_id) / "node.log").read_text(errors="replace").splitlines()[-30:])
