"""The place of the matrix's log: the path of a directory, brokers, or object storage.

On object storage the copy goes to two topics, by key: one commit makes rows of both readable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from broker_core.client.cluster_client import open_remote
from broker_core.cluster import Cluster
from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.model.client_settings import parse_client_settings
from broker_core.object_cluster.open_objects import open_objects


@dataclass(frozen=True, slots=True)
class Brokers:
    bootstrap_servers: str


@dataclass(frozen=True, slots=True)
class Objects:
    """`options` are those of the store (object.*)."""

    url: str
    options: tuple[tuple[str, str], ...] = ()


LogPlace = str | Brokers | Objects
SOURCE, TARGET = "in", "out"
SECOND_TARGET = "also-out"
PATIENCE_MS = "180000"
"""The longest restart of a killed broker on a busy machine."""


def open_log(place: LogPlace, *, create: bool = False) -> Cluster:
    if isinstance(place, Brokers):
        return open_remote(parse_client_settings(_settings_of(place)))
    if isinstance(place, Objects):
        return open_objects(place.url, dict(place.options), create=create)
    return open_embedded(place, create=create)


def options_of(place: LogPlace) -> dict[str, str]:
    """The options of a sink with its log there."""
    if isinstance(place, Brokers):
        return {f"kafka.{name}": value for name, value in _settings_of(place).items()}
    if isinstance(place, Objects):
        return {"path": place.url, **dict(place.options)}
    return {"path": place}


def targets_of(place: LogPlace) -> tuple[str, ...]:
    """The topics of the copy."""
    return (TARGET, SECOND_TARGET) if isinstance(place, Objects) else (TARGET,)


def target_of(place: LogPlace, key: str) -> str:
    """The topic for the copy of a row with this key. `query_host` has the same rule in SQL."""
    targets = targets_of(place)
    return targets[int(key.removeprefix("key-")) % len(targets)]


def arguments_of(place: LogPlace) -> dict[str, Any]:
    """The place of the log, as arguments for a function of `query_host`."""
    if isinstance(place, Objects):
        return {"directory": place.url, "options": dict(place.options), "targets": targets_of(place)}
    return {"directory": place}


def _settings_of(brokers: Brokers) -> dict[str, str]:
    timeouts = dict.fromkeys(("default.api.timeout.ms", "delivery.timeout.ms"), PATIENCE_MS)
    return {"bootstrap.servers": brokers.bootstrap_servers, **timeouts}
