"""`streamlog broker` for tests: a process of its own on free ports, with the four listeners and users that `real_kafka`
has; it can be stopped, killed and started again on the same ports and the same log directory.
"""

from __future__ import annotations

import signal
import socket
import struct
import subprocess
import time
from pathlib import Path

from support.brokers.reachable_broker import LISTENERS, PASSWORD, PEMS, USER, ReachableBroker, free_ports
from support.runs.warm_process import start_warm

START_SECONDS = 30
STOP_SECONDS = 30
# Size, ApiVersions version 0, correlation id 1, no client id: what every broker answers before a login.
_ASK_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)


class ServedBroker(ReachableBroker):
    """Started when made. `settings` are further lines of its properties file."""

    def __init__(self, folder: Path, settings=()):
        super().__init__(dict(zip(LISTENERS, free_ports(len(LISTENERS)), strict=True)))
        self.folder = folder
        self._process = None
        folder.mkdir(parents=True)
        self._configuration = folder / "broker.properties"
        self._configuration.write_text("\n".join([*self._lines(), *settings]) + "\n")
        self.start()

    def start(self):
        with (self.folder / "broker.log").open("ab") as log:
            self._process = start_warm(["broker", "--config", self._configuration], stdout=log, stderr=log)
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            assert self._process.poll() is None, f"the broker ended with {self._process.returncode}: {self.log_end()}"
            assert time.monotonic() < deadline, f"no answer after {START_SECONDS} s: {self.log_end()}"
            time.sleep(0.02)

    @property
    def process_id(self):
        return self._process.pid

    def stop(self):
        """SIGTERM; a broker that does not end cleanly in time fails the caller."""
        self._process.terminate()
        try:
            status = self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"still there {STOP_SECONDS} s after SIGTERM: {self.log_end()}") from None
        assert status == 0, f"ended with {status} after SIGTERM: {self.log_end()}"

    def kill(self):
        """SIGKILL."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def restart(self):
        """Kills it and starts it again at once."""
        self.kill()
        self.start()

    def log_end(self, lines=30):
        return "\n".join((self.folder / "broker.log").read_text(errors="replace").splitlines()[-lines:])

    def _lines(self):
        plain = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        scram = "org.apache.kafka.common.security.scram.ScramLoginModule required"
        listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items())
        logins = [
            line
            for listener in ("sasl_plaintext", "sasl_ssl")
            for line in (
                f"listener.name.{listener}.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
                f'listener.name.{listener}.plain.sasl.jaas.config={plain} user_{USER}="{PASSWORD}";',
                f"listener.name.{listener}.scram-sha-256.sasl.jaas.config={scram};",
                f"listener.name.{listener}.scram-sha-512.sasl.jaas.config={scram};",
            )
        ]
        return [
            "node.id=1",
            f"listeners={listeners}",
            f"advertised.listeners={listeners}",
            f"listener.security.protocol.map={','.join(f'{name}:{name}' for name in LISTENERS)}",
            f"log.dirs={self.folder / 'data'}",
            "num.partitions=1",
            "auto.create.topics.enable=true",
            "offsets.topic.num.partitions=4",
            "transaction.state.log.num.partitions=4",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms=500",
            "group.initial.rebalance.delay.ms=0",
            "ssl.keystore.type=PEM",
            f"ssl.keystore.location={PEMS / 'broker.pem'}",
            "ssl.truststore.type=PEM",
            f"ssl.truststore.location={PEMS / 'authority.pem'}",
            "listener.name.ssl.ssl.client.auth=requested",
            *logins,
        ]

    def _answers(self):
        try:
            with socket.create_connection(("127.0.0.1", self.ports["PLAINTEXT"]), timeout=1) as connection:
                connection.sendall(_ASK_VERSIONS)
                return len(connection.recv(4)) == 4
        except OSError:
            return False
