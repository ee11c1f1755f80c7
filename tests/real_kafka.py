"""A real Apache Kafka of one node for tests: four listeners, users, certificates; it can be killed and started again.

Its jars come as `kafka_tools` says. One is shared by a run; topics, groups and transactional ids are told apart by
names.
"""

from __future__ import annotations

import base64
import itertools
import os
import re
import signal
import socket
import subprocess
import time
import uuid
from pathlib import Path

import pytest
from kafka_tools import JARS, why_unavailable

from broker_core.client.cluster_client import open_remote
from broker_core.model.client_settings import parse_client_settings

PEMS = Path(__file__).parent / "golden" / "tls"
USER, PASSWORD = "ann", "s3cret/+*!"
START_SECONDS = 120
LISTENERS = ("PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL")
_LOGIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.username": USER, "sasl.password": PASSWORD}
_TRUST = {"ssl.truststore.location": str(PEMS / "authority.pem")}


def free_ports(count):
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports


class RealKafka:
    """Formatted and started when made."""

    def __init__(self, folder: Path, settings=()):
        self.folder = folder
        self.ports = dict(zip((*LISTENERS, "CONTROLLER"), free_ports(5), strict=True))
        self._process = None
        self._names = itertools.count()
        folder.mkdir(parents=True)
        self._configuration = folder / "server.properties"
        self._configuration.write_text("\n".join([*self._lines(), *settings]) + "\n")
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        scram = [f"SCRAM-SHA-{size}=[name={USER},password={PASSWORD}]" for size in (256, 512)]
        adding = [argument for one in scram for argument in ("--add-scram", one)]
        self._java("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(self._configuration), *adding)
        self.start()

    def bootstrap(self, listener="PLAINTEXT"):
        return f"127.0.0.1:{self.ports[listener]}"

    def settings(self, listener="PLAINTEXT", **given):
        """What a client needs for a listener; `__` in a name stands for a dot."""
        named = {name.replace("__", "."): str(value) for name, value in given.items()}
        base = {"bootstrap.servers": self.bootstrap(listener), "security.protocol": listener}
        if listener.startswith("SASL"):
            base |= _LOGIN | {"security.protocol": listener, "sasl.mechanism": "SCRAM-SHA-512"}
        if listener.endswith("SSL"):
            base |= _TRUST
        return base | named

    def client(self, listener="PLAINTEXT", **given):
        return open_remote(parse_client_settings(self.settings(listener, **given)))

    def name(self, prefix="t"):
        """One that nobody has used."""
        return f"{prefix}-{next(self._names)}"

    def start(self):
        with (self.folder / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._command("-Xmx512M", "-XX:+UseSerialGC"), "kafka.Kafka", str(self._configuration)],
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

    def tool(self, name, *arguments):
        """What a class of Kafka's own tools says."""
        return self._java(name, *arguments)

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

    def _command(self, *options):
        return ["java", *options, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{JARS}/*"]

    def _java(self, *arguments):
        result = subprocess.run(
            [*self._command("-Xmx256M", "-XX:TieredStopAtLevel=1"), *arguments],
            capture_output=True, text=True, timeout=180, check=False,
        )  # fmt: skip
        assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-2000:]
        return result.stdout

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


@pytest.fixture(scope="session")
def kafka(tmp_path_factory):
    """One for the whole run."""
    reason = why_unavailable()
    if reason:
        pytest.skip(reason)
    running = RealKafka(tmp_path_factory.mktemp("kafka") / "node")
    yield running
    running.stop()
