"""How clients of a test reach a broker: four listeners of 127.0.0.1, one user, certificates."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import socket
import subprocess
from pathlib import Path

from broker_core.client.cluster_client import ClusterClient, open_remote
from broker_core.model.client_settings import parse_client_settings

PEMS = Path(__file__).parents[2] / "golden" / "tls"
USER, PASSWORD = "ann", "s3cret/+*!"
LISTENERS = ("PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL")
_LOGIN = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": USER, "sasl.password": PASSWORD}
_TRUST = {"ssl.truststore.location": str(PEMS / "authority.pem")}


def free_ports(count: int) -> list[int]:
    """Below those that an operating system gives to outgoing connections: while a broker is away, a client that tries
    its port again and again would sooner or later be given that very port, and be connected to itself."""
    listeners: dict[int, socket.socket] = {}
    while len(listeners) < count:
        port = random.randint(15_000, 32_000)
        with contextlib.suppress(OSError):
            listeners[port] = socket.create_server(("127.0.0.1", port), reuse_port=False)
    for listener in listeners.values():
        listener.close()
    return list(listeners)


class ReachableBroker:
    """What all brokers of tests have in common. `ports`: by the names of LISTENERS."""

    _process: subprocess.Popen[bytes] | None
    _configuration: Path

    def __init__(self, ports: dict[str, int]) -> None:
        self.ports = ports
        self._names = itertools.count()

    def bootstrap(self, listener: str = "PLAINTEXT") -> str:
        return f"127.0.0.1:{self.ports[listener]}"

    def settings(self, listener: str = "PLAINTEXT", **given: object) -> dict[str, str]:
        """What a client of ours needs for a listener; `__` in a name stands for a dot."""
        base = {"bootstrap.servers": self.bootstrap(listener), "security.protocol": listener}
        if listener.startswith("SASL"):
            base |= _LOGIN
        if listener.endswith("SSL"):
            base |= _TRUST
        return base | {name.replace("__", "."): str(value) for name, value in given.items()}

    def client(self, listener: str = "PLAINTEXT", **given: object) -> ClusterClient:
        return open_remote(parse_client_settings(self.settings(listener, **given)))

    def pause(self) -> None:
        """SIGSTOP: connections stay open, and nothing is answered."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)

    def edit_configuration(self, old: str, new: str) -> None:
        """Replaces text in its properties file, for its next start."""
        text = self._configuration.read_text()
        assert old in text, f"{old} is not in {self._configuration}"
        self._configuration.write_text(text.replace(old, new))

    def name(self, prefix: str = "t") -> str:
        """A name that no other test uses."""
        return f"{prefix}-{next(self._names)}"
