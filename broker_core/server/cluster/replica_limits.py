"""The settings of a broker for its replicas, its session and its links to other brokers, with Kafka's names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from broker_core.broker.settings.listener_settings import Listener, inter_broker_listener
from broker_core.model.client_settings import SecurityProtocol
from broker_core.model.exceptions import InvalidConfigError
from broker_core.model.setting_parsers import int_parser, invalid_value

_NUMBERS: Final = {
    "broker.heartbeat.interval.ms": "heartbeat_interval_ms",
    "broker.session.timeout.ms": "session_timeout_ms",
    "replica.lag.time.max.ms": "max_lag_ms",
    "replica.fetch.wait.max.ms": "fetch_wait_ms",
    "replica.fetch.max.bytes": "partition_max_bytes",
    "replica.fetch.response.max.bytes": "response_max_bytes",
    "replica.fetch.backoff.ms": "fetch_backoff_ms",
    "offsets.topic.replication.factor": "offsets_factor",
    "transaction.state.log.replication.factor": "transactions_factor",
}
_LISTENER_NAME: Final = "inter.broker.listener.name"
USED_BY_REPLICAS: Final = frozenset({_LISTENER_NAME, "security.inter.broker.protocol", *_NUMBERS})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLimits:
    """Kafka's defaults. `listener`: the name of that on which brokers reach each other."""

    heartbeat_interval_ms: int = 2000
    session_timeout_ms: int = 9000
    max_lag_ms: int = 30_000
    fetch_wait_ms: int = 500
    partition_max_bytes: int = 1024 * 1024
    response_max_bytes: int = 10 * 1024 * 1024
    fetch_backoff_ms: int = 1000
    offsets_factor: int = 3
    transactions_factor: int = 3
    listener: str = "PLAINTEXT"


def parse_replica_limits(given: Mapping[str, str]) -> ReplicaLimits:
    """Raises InvalidConfigError."""
    parse = int_parser(1)
    found = {field: parse(name, given[name]) for name, field in _NUMBERS.items() if name in given}
    return ReplicaLimits(**found, listener=inter_broker_listener(given))  # type: ignore[arg-type]


def check_inter_broker_listener(limits: ReplicaLimits, listeners: Iterable[Listener]) -> None:
    """Raises InvalidConfigError."""
    protocols = {each.name: each.protocol for each in listeners}
    if limits.listener not in protocols:
        raise invalid_value(_LISTENER_NAME, limits.listener, f"listeners has only {', '.join(protocols)}")
    protocol = protocols[limits.listener]
    if protocol is not SecurityProtocol.PLAINTEXT:
        raise InvalidConfigError(
            f"the listener {limits.listener} is {protocol}, and brokers have neither TLS nor logins between them: name"
            f" a listener that is PLAINTEXT with {_LISTENER_NAME}",
            setting=_LISTENER_NAME,
        )
