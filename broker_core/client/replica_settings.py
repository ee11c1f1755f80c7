"""The settings of a broker that only follows, with Kafka's names; settings of other parts are ignored.

process.roles=broker
node.id=4
controller.quorum.bootstrap.servers=host-1:9093,host-2:9093        or controller.quorum.voters
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://host-4:9092                                   or advertised.listeners: what the cluster is told
inter.broker.listener.name=PLAINTEXT
log.dirs=/data/replica
broker.heartbeat.interval.ms, broker.rack, replica.fetch.wait.max.ms, replica.fetch.max.bytes,
replica.fetch.response.max.bytes, replica.fetch.backoff.ms
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from broker_core.model.client_settings import BrokerAddress, parse_client_settings
from broker_core.model.exceptions import InvalidConfigError
from broker_core.model.setting_parsers import int_parser, invalid_value, items_of

BOOTSTRAP: Final = "controller.quorum.bootstrap.servers"
_VOTERS: Final = "controller.quorum.voters"
_PROTOCOLS: Final = frozenset({"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"})
_NUMBERS: Final = {
    "broker.heartbeat.interval.ms": "heartbeat_interval_ms",
    "replica.fetch.wait.max.ms": "fetch_wait_ms",
    "replica.fetch.max.bytes": "partition_max_bytes",
    "replica.fetch.response.max.bytes": "response_max_bytes",
    "replica.fetch.backoff.ms": "fetch_backoff_ms",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSettings:
    """`controllers` are asked who leads them. `listener` is the one between brokers; `address` is what the cluster is
    told of it."""

    node_id: int
    controllers: tuple[BrokerAddress, ...]
    controller_listener: str
    listener: str
    address: BrokerAddress
    log_dir: str
    rack: str | None = None
    heartbeat_interval_ms: int = 2000
    fetch_wait_ms: int = 500
    partition_max_bytes: int = 1024 * 1024
    response_max_bytes: int = 10 * 1024 * 1024
    fetch_backoff_ms: int = 1000


def parse_replica_settings(given: Mapping[str, str]) -> ReplicaSettings:
    """Raises InvalidConfigError."""
    if list(items_of(given.get("process.roles", ""))) != ["broker"]:
        roles = given.get("process.roles", "")
        raise invalid_value("process.roles", roles, "a broker that only follows has process.roles=broker")
    controller_listener = next(iter(items_of(_required(given, "controller.listener.names"))))
    listener = given.get("inter.broker.listener.name", "PLAINTEXT").strip() or "PLAINTEXT"
    for name in (controller_listener, listener):
        _require_plaintext(given, name)
    log_dirs = list(items_of(given.get("log.dirs") or _required(given, "log.dir")))
    if len(log_dirs) != 1:
        raise invalid_value("log.dirs", ",".join(log_dirs), "one directory is supported")
    return ReplicaSettings(
        node_id=_number(given, "node.id", at_least=0),
        controllers=_controllers(given),
        controller_listener=controller_listener,
        listener=listener,
        address=_address_of(given, listener),
        log_dir=log_dirs[0],
        rack=given.get("broker.rack"),
        **{field: _number(given, name, at_least=1) for name, field in _NUMBERS.items() if name in given},
    )


def _controllers(given: Mapping[str, str]) -> tuple[BrokerAddress, ...]:
    if given.get(BOOTSTRAP, "").strip():
        return _addresses(BOOTSTRAP, given[BOOTSTRAP])
    voters = items_of(_required(given, _VOTERS if given.get(_VOTERS, "").strip() else BOOTSTRAP))
    return _addresses(_VOTERS, ",".join(voter.partition("@")[2] or voter for voter in voters))


def _addresses(name: str, text: str) -> tuple[BrokerAddress, ...]:
    try:
        return parse_client_settings({"bootstrap.servers": text}).bootstrap_servers
    except InvalidConfigError as error:
        raise invalid_value(name, text, "it must be host:port, separated by commas") from error


def _address_of(given: Mapping[str, str], listener: str) -> BrokerAddress:
    name = "advertised.listeners" if given.get("advertised.listeners", "").strip() else "listeners"
    for item in items_of(_required(given, name)):
        found, _, address = item.partition("://")
        if found.upper() == listener.upper():
            return _addresses(name, address)[0]
    raise invalid_value(name, given[name], f"it has no listener {listener}, which inter.broker.listener.name names")


def _require_plaintext(given: Mapping[str, str], listener: str) -> None:
    protocols = dict(
        item.upper().split(":", 1) for item in items_of(given.get("listener.security.protocol.map", "")) if ":" in item
    )
    name = listener.upper()
    protocol = protocols.get(name, name if name in _PROTOCOLS else "PLAINTEXT")
    if protocol != "PLAINTEXT":
        raise InvalidConfigError(
            f"the listener {listener} is {protocol}, and a broker that only follows has neither TLS nor logins",
            setting="listener.security.protocol.map",
        )


def _required(given: Mapping[str, str], name: str) -> str:
    if not given.get(name, "").strip():
        raise InvalidConfigError(f"{name} is missing: a broker of a cluster needs it", setting=name)
    return given[name]


def _number(given: Mapping[str, str], name: str, *, at_least: int) -> int:
    number = int_parser(at_least)(name, _required(given, name))
    assert isinstance(number, int)
    return number
