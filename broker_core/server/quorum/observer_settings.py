"""The settings of a node that follows the quorum without a vote, with Kafka's names; those of other parts are ignored.

process.roles=broker
node.id=4
controller.quorum.bootstrap.servers=host-1:9093,host-2:9093        or controller.quorum.voters
controller.listener.names=CONTROLLER                               a name that is not among the own listeners
listener.security.protocol.map, sasl.mechanism.controller.protocol, …   see broker/settings/link_security
log.dirs=/data/broker
controller.quorum.request.timeout.ms, .retry.backoff.ms
metadata.log.max.record.bytes.between.snapshots, metadata.log.max.snapshot.interval.ms
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from broker_core.broker.settings.link_security import LinkSecurity, parse_links_to_controllers
from broker_core.model.client_settings import BrokerAddress
from broker_core.model.exceptions import InvalidConfigError
from broker_core.model.setting_parsers import int_parser, invalid_value, items_of
from broker_core.raft.quorum_values import QuorumTimings
from broker_core.server.quorum.quorum_settings import (
    BOOTSTRAP,
    SNAPSHOT_SETTINGS,
    VOTERS,
    parse_bootstrap,
    parse_voters,
)

_LISTENER_NAMES: Final = "controller.listener.names"
_TIMINGS: Final = {
    "controller.quorum.request.timeout.ms": "request_timeout_ms",
    "controller.quorum.retry.backoff.ms": "retry_backoff_ms",
}
USED_BY_OBSERVER: Final = frozenset(
    {BOOTSTRAP, VOTERS, _LISTENER_NAMES, *_TIMINGS, *SNAPSHOT_SETTINGS, "min.insync.replicas"}
)
"""The settings that `parse_observer_settings` reads, without those of every broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverSettings:
    """`controllers` are asked who leads them. `voters` by id, as far as the settings tell ids.
    `links`: to controllers."""

    node_id: int
    controllers: tuple[BrokerAddress, ...]
    voters: Mapping[int, BrokerAddress] = field(default_factory=dict)
    links: LinkSecurity = field(default_factory=LinkSecurity)
    log_dir: str
    timings: QuorumTimings
    snapshot_bytes: int = 20 * 1024 * 1024
    snapshot_interval_ms: int = 3_600_000
    """A snapshot is made after so many bytes of records, or after so long if there are any."""


def parse_observer_settings(given: Mapping[str, str]) -> ObserverSettings:
    """Raises InvalidConfigError."""
    node_id = _number(given, "node.id", at_least=0)
    voters = parse_voters(given[VOTERS]) if given.get(VOTERS, "").strip() else {}
    if node_id in voters:
        raise invalid_value(VOTERS, given[VOTERS], f"node {node_id} is not a controller, by its process.roles")
    bootstrap = given.get(BOOTSTRAP, "").strip()
    if not bootstrap and not voters:
        raise _missing(f"{BOOTSTRAP} or {VOTERS}", BOOTSTRAP)
    _check_listener_names(given)
    log_dirs = items_of(given.get("log.dirs") or _required(given, "log.dir"))
    timings = {own: _number(given, name, at_least=1) for name, own in _TIMINGS.items() if name in given}
    return ObserverSettings(
        node_id=node_id,
        controllers=parse_bootstrap(bootstrap) if bootstrap else tuple(voters.values()),
        voters=voters,
        links=parse_links_to_controllers(given),
        log_dir=next(iter(log_dirs)),
        timings=QuorumTimings(**timings),
        **{own: _number(given, name, at_least=1) for name, own in SNAPSHOT_SETTINGS.items() if name in given},
    )


def _check_listener_names(given: Mapping[str, str]) -> None:
    names = {name.upper() for name in items_of(_required(given, _LISTENER_NAMES))}
    own = {item.partition("://")[0].upper() for item in items_of(given.get("listeners", ""))}
    if names & own:
        reason = "a node that is not a controller has none of them in listeners"
        raise invalid_value(_LISTENER_NAMES, given[_LISTENER_NAMES], reason)


def _required(given: Mapping[str, str], name: str) -> str:
    if not given.get(name, "").strip():
        raise _missing(name, name)
    return given[name]


def _missing(what: str, setting: str) -> InvalidConfigError:
    return InvalidConfigError(f"{what} is missing: a broker of a cluster needs it", setting=setting)


def _number(given: Mapping[str, str], name: str, *, at_least: int) -> int:
    number = int_parser(at_least)(name, _required(given, name))
    assert isinstance(number, int)
    return number
