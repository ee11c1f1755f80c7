"""The settings of a broker for its replicas, its session and its links to other brokers, with Kafka's names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from broker_core.broker.settings.link_security import LinkSecurity, parse_links_to_brokers
from broker_core.model.setting_parsers import int_parser

_NUMBERS: Final = {
    "broker.heartbeat.interval.ms": "heartbeat_interval_ms",
    "broker.session.timeout.ms": "session_timeout_ms",
    "replica.lag.time.max.ms": "max_lag_ms",
    "replica.fetch.wait.max.ms": "fetch_wait_ms",
    "replica.fetch.max.bytes": "partition_max_bytes",
    "replica.fetch.response.max.bytes": "response_max_bytes",
    "replica.fetch.backoff.ms": "fetch_backoff_ms",
    "offsets.topic.replication.factor": "offsets_factor",
    "offsets.topic.num.partitions": "offsets_partition_count",
    "transaction.state.log.replication.factor": "transactions_factor",
    "transaction.state.log.num.partitions": "transactions_partition_count",
    "transaction.state.log.min.isr": "transactions_min_in_sync",
}
USED_BY_REPLICAS: Final = frozenset(_NUMBERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLimits:
    """Kafka's defaults. `links`: how brokers connect to each other."""

    heartbeat_interval_ms: int = 2000
    session_timeout_ms: int = 9000
    max_lag_ms: int = 30_000
    fetch_wait_ms: int = 500
    partition_max_bytes: int = 1024 * 1024
    response_max_bytes: int = 10 * 1024 * 1024
    fetch_backoff_ms: int = 1000
    offsets_factor: int = 3
    offsets_partition_count: int = 50
    transactions_factor: int = 3
    transactions_partition_count: int = 50
    transactions_min_in_sync: int = 2
    links: LinkSecurity = field(default_factory=LinkSecurity)


def parse_replica_limits(given: Mapping[str, str]) -> ReplicaLimits:
    """Raises InvalidConfigError."""
    parse = int_parser(1)
    found = {field: parse(name, given[name]) for name, field in _NUMBERS.items() if name in given}
    return ReplicaLimits(**found, links=parse_links_to_brokers(given))  # type: ignore[arg-type]
