"""How clients of a test reach a broker: four listeners of 127.0.0.1, one user, certificates."""

from __future__ import annotations

import itertools
import socket
from pathlib import Path

from broker_core.client.cluster_client import ClusterClient, open_remote
from broker_core.model.client_settings import parse_client_settings

PEMS = Path(__file__).parent / "golden" / "tls"
USER, PASSWORD = "ann", "s3cret/+*!"
LISTENERS = ("PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL")
_LOGIN = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": USER, "sasl.password": PASSWORD}
_TRUST = {"ssl.truststore.location": str(PEMS / "authority.pem")}


def free_ports(count: int) -> list[int]:
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports


class ReachableBroker:
    """What the brokers of tests have in common, whoever made them. `ports`: by the names of LISTENERS."""

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

    def name(self, prefix: str = "t") -> str:
        """One that nobody has used."""
        return f"{prefix}-{next(self._names)}"
