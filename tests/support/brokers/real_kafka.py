"""A real Apache Kafka of one node for tests: four listeners, users, certificates; it can be killed and started again.

Its jars come as `kafka_tools` says. One is shared by a run; topics, groups and transactional ids are told apart by
names.
"""

from __future__ import annotations

import base64
import os
import re
import signal
import socket
import subprocess
import time
import uuid
from pathlib import Path

from support.brokers.kafka_tools import JARS, kafka_tool
from support.brokers.reachable_broker import LISTENERS, PASSWORD, PEMS, USER, ReachableBroker, free_ports

START_SECONDS = 120
JAVA = ("java", "-Xmx512M", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")


class RealKafka(ReachableBroker):
    """Formatted and started when made."""

    def __init__(self, folder: Path, settings=()):
        super().__init__(dict(zip((*LISTENERS, "CONTROLLER"), free_ports(5), strict=True)))
        self.folder = folder
        self._process = None
        folder.mkdir(parents=True)
        self._configuration = folder / "server.properties"
        self._configuration.write_text("\n".join([*self._lines(), *settings]) + "\n")
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        scram = [f"SCRAM-SHA-{size}=[name={USER},password={PASSWORD}]" for size in (256, 512)]
        adding = [argument for one in scram for argument in ("--add-scram", one)]
        kafka_tool(
            "kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}", "-c", str(self._configuration), *adding
        )
        self.start()

    def start(self):
        with (self.folder / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*JAVA, "-cp", f"{JARS}/*", "kafka.Kafka", str(self._configuration)],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._is_listening():
            assert self._process.poll() is None, self._log_end()
            assert time.monotonic() < deadline, f"Kafka does not listen after {START_SECONDS} s: {self._log_end()}"
            time.sleep(0.1)

    def stop(self):
        self._process.terminate()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self):
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def restart(self):
        """Kills it and starts it again at once."""
        self.kill()
        self.start()

    def _lines(self):
        pem = str(PEMS / "broker.pem")
        jaas = "org.apache.kafka.common.security"
        sasl = [
            line
            for listener in ("sasl_plaintext", "sasl_ssl")
            for line in (
                f"listener.name.{listener}.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
                f"listener.name.{listener}.plain.sasl.jaas.config={jaas}.plain.PlainLoginModule required "
                f'user_{USER}="{PASSWORD}";',
                f"listener.name.{listener}.scram-sha-256.sasl.jaas.config={jaas}.scram.ScramLoginModule required;",
                f"listener.name.{listener}.scram-sha-512.sasl.jaas.config={jaas}.scram.ScramLoginModule required;",
            )
        ]
        listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items())
        advertised = ",".join(f"{name}://127.0.0.1:{self.ports[name]}" for name in LISTENERS)
        protocols = ",".join(f"{name}:{name}" for name in LISTENERS)
        return [
            "process.roles=broker,controller", "node.id=1", f"listeners={listeners}",
            f"controller.quorum.voters=1@127.0.0.1:{self.ports['CONTROLLER']}", f"advertised.listeners={advertised}",
            "controller.listener.names=CONTROLLER", f"listener.security.protocol.map=CONTROLLER:PLAINTEXT,{protocols}",
            "inter.broker.listener.name=PLAINTEXT", f"log.dirs={self.folder}/data", "num.partitions=1",
            "offsets.topic.replication.factor=1", "offsets.topic.num.partitions=4",
            "transaction.state.log.replication.factor=1", "transaction.state.log.min.isr=1",
            "transaction.state.log.num.partitions=4", "group.initial.rebalance.delay.ms=0",
            "auto.create.topics.enable=true", "transaction.abort.timed.out.transaction.cleanup.interval.ms=500",
            "ssl.keystore.type=PEM", f"ssl.keystore.location={pem}", "ssl.truststore.type=PEM",
            f"ssl.truststore.location={PEMS / 'authority.pem'}",
            "listener.name.sasl_ssl.ssl.client.auth=none", "listener.name.ssl.ssl.client.auth=requested",
            *sasl,
        ]  # fmt: skip

    def _is_listening(self):
        for name in LISTENERS:
            try:
                socket.create_connection(("127.0.0.1", self.ports[name]), timeout=0.5).close()
            except OSError:
                return False
        return True

    def _log_end(self):
        lines = (self.folder / "broker.log").read_text(errors="replace").splitlines()
        return "\n".join([line for line in lines if re.search(r"ERROR|Exception|WARN", line)][-20:] or lines[-20:])
