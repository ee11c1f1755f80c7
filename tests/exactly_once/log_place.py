"""Where the matrix has its log: in a directory, which its path names, or at brokers."""

from __future__ import annotations

from dataclasses import dataclass

from broker_core.client.cluster_client import open_remote
from broker_core.cluster import Cluster
from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.model.client_settings import parse_client_settings


@dataclass(frozen=True, slots=True)
class Brokers:
    bootstrap_servers: str


LogPlace = str | Brokers
PATIENCE_MS = "180000"
"""A broker that was killed is away for that long on a busy machine."""


def open_log(place: LogPlace, *, create: bool = False) -> Cluster:
    if isinstance(place, Brokers):
        return open_remote(parse_client_settings(_settings_of(place)))
    return open_embedded(place, create=create)


def options_of(place: LogPlace) -> dict[str, str]:
    """For a sink that has its log there."""
    if isinstance(place, Brokers):
        return {f"kafka.{name}": value for name, value in _settings_of(place).items()}
    return {"path": place}


def _settings_of(brokers: Brokers) -> dict[str, str]:
    timeouts = dict.fromkeys(("default.api.timeout.ms", "delivery.timeout.ms"), PATIENCE_MS)
    return {"bootstrap.servers": brokers.bootstrap_servers, **timeouts}
