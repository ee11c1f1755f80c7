"""The settings of a node of the quorum, with Kafka's names; settings of other parts are ignored.

node.id=1
controller.quorum.voters=1@host-1:9093,2@host-2:9093,3@host-3:9093       static voters; or, of a dynamic quorum:
controller.quorum.bootstrap.servers=host-1:9093,host-2:9093              who may know its leader
controller.quorum.auto.join.enable=false                                 ask for a vote
listeners, advertised.listeners                                          the address that others reach this node at
log.dirs=/data/controller                     metadata.log.dir overrides it
controller.quorum.fetch.timeout.ms, .election.timeout.ms, .election.backoff.max.ms, .request.timeout.ms,
.retry.backoff.ms
listener.security.protocol.map, sasl.mechanism.controller.protocol, listener.name.<name>.*, sasl.*, ssl.*   of the
controller listener: its own side and how this node connects to others (broker/settings/link_security)
authorizer.class.name, super.users, allow.everyone.if.no.acl.found
metadata.log.max.record.bytes.between.snapshots, metadata.log.max.snapshot.interval.ms, metadata.max.idle.interval.ms
num.partitions, default.replication.factor, min.insync.replicas, unclean.leader.election.enable,
broker.session.timeout.ms, auto.leader.rebalance.enable, leader.imbalance.check.interval.seconds,
unclean.leader.election.interval.ms
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from broker_core.broker.settings.access_settings import access_settings
from broker_core.broker.settings.link_security import LinkSecurity, controller_listener_name, links_to_controllers
from broker_core.broker.settings.listener_settings import Listener, controller_listener, own_controller_listener
from broker_core.controller.cluster_controller import ControllerTimings
from broker_core.controller.cluster_facts import ClusterDefaults
from broker_core.metadata.authorizer import AccessSettings
from broker_core.model.client_settings import BrokerAddress, parse_client_settings
from broker_core.model.exceptions import InvalidConfigError
from broker_core.model.setting_parsers import boolean, int_parser, invalid_value, items_of
from broker_core.quota.sampled_rate import QuotaWindow
from broker_core.raft.quorum_values import QuorumTimings

VOTERS: Final = "controller.quorum.voters"
BOOTSTRAP: Final = "controller.quorum.bootstrap.servers"
_AUTO_JOIN: Final = "controller.quorum.auto.join.enable"
_VOTER: Final = re.compile(r"(?P<id>\d{1,10})@(?P<host>\[[^\]]+\]|[^:\[\]]+):(?P<port>\d{1,5})")
_MAX_PORT: Final = 65_535
SNAPSHOT_SETTINGS: Final = {
    "metadata.log.max.record.bytes.between.snapshots": "snapshot_bytes",
    "metadata.log.max.snapshot.interval.ms": "snapshot_interval_ms",
}
_DEFAULTS: Final = {
    "num.partitions": "partition_count",
    "default.replication.factor": "replication_factor",
    "min.insync.replicas": "min_insync_replicas",
    "broker.session.timeout.ms": "session_timeout_ms",
}
_NO_OP_INTERVAL: Final = "metadata.max.idle.interval.ms"
_PREFERRED_INTERVAL: Final = "leader.imbalance.check.interval.seconds"
_UNCLEAN_INTERVAL: Final = "unclean.leader.election.interval.ms"
_QUOTA_SAMPLES, _QUOTA_SECONDS = "controller.quota.window.num", "controller.quota.window.size.seconds"
_TIMINGS: Final = {
    "controller.quorum.fetch.timeout.ms": "fetch_timeout_ms",
    "controller.quorum.election.timeout.ms": "election_timeout_ms",
    "controller.quorum.election.backoff.max.ms": "election_backoff_max_ms",
    "controller.quorum.request.timeout.ms": "request_timeout_ms",
    "controller.quorum.retry.backoff.ms": "retry_backoff_ms",
}
USED_BY_QUORUM: Final = frozenset(
    {
        *(
            VOTERS,
            BOOTSTRAP,
            _AUTO_JOIN,
            "controller.listener.names",
            "unclean.leader.election.enable",
            "auto.leader.rebalance.enable",
        ),
        *(_NO_OP_INTERVAL, _PREFERRED_INTERVAL, _UNCLEAN_INTERVAL, _QUOTA_SAMPLES, _QUOTA_SECONDS),
        *(*SNAPSHOT_SETTINGS, *_DEFAULTS, *_TIMINGS),
    }
)
"""The settings that `parse_quorum_settings` reads, without those of every broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumSettings:
    """`voters` are static ones by id, of which this node is one; a dynamic quorum has none, its log knows its voters.
    `bootstrap`: controllers that may know the leader. `links`: to the other controllers."""

    node_id: int
    voters: Mapping[int, BrokerAddress]
    bootstrap: tuple[BrokerAddress, ...] = ()
    joins_by_itself: bool = False
    listener: Listener
    links: LinkSecurity
    access: AccessSettings
    log_dir: str
    timings: QuorumTimings
    snapshot_bytes: int = 20 * 1024 * 1024
    snapshot_interval_ms: int = 3_600_000
    """A node makes a snapshot after so many bytes of records, or after so long if there are any."""
    defaults: ClusterDefaults
    controller_timings: ControllerTimings

    @property
    def address(self) -> BrokerAddress:
        """Where others reach this node."""
        return self.voters.get(self.node_id) or self.listener.advertised


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedController:
    """What a quorum has to know of a new voter, of its settings. `endpoints` by listener."""

    node_id: int
    log_dir: str
    endpoints: Mapping[str, BrokerAddress]


def parse_quorum_settings(given: Mapping[str, str], *, is_broker: bool = False) -> QuorumSettings:
    """`is_broker`: the node is a broker, too. Raises InvalidConfigError."""
    _refuse_what_is_not_there(given, is_broker=is_broker)
    node_id = _number(given, "node.id", at_least=0)
    voters, bootstrap = _known_controllers(given)
    if voters and node_id not in voters:
        raise InvalidConfigError(f"node.id is {node_id}, which is not among {VOTERS}", setting="node.id")
    listener, links, access = _security(given, voters, node_id)
    timings = {field: _number(given, setting, at_least=1) for setting, field in _TIMINGS.items() if setting in given}
    return QuorumSettings(
        node_id=node_id,
        voters=voters,
        bootstrap=bootstrap,
        joins_by_itself=_flag(given, _AUTO_JOIN, default=False),
        listener=listener,
        links=links,
        access=access,
        log_dir=_log_dir(given),
        timings=QuorumTimings(**timings),
        defaults=_cluster_defaults(given),
        controller_timings=_controller_timings(given),
        **{
            field: _number(given, setting, at_least=1)
            for setting, field in SNAPSHOT_SETTINGS.items()
            if setting in given
        },
    )


def parse_added_controller(given: Mapping[str, str]) -> AddedController:
    """Raises InvalidConfigError."""
    complaints: list[str] = []
    names = [name.upper() for name in items_of(given.get("controller.listener.names", ""))]
    found = [own_controller_listener(given, name, complaints) for name in names or [controller_listener_name(given)]]
    if complaints:
        raise InvalidConfigError("; ".join(complaints), complaints=tuple(complaints))
    return AddedController(
        node_id=_number(given, "node.id", at_least=0),
        log_dir=_log_dir(given),
        endpoints={each.name: each.advertised for each in found if each is not None},
    )


def _log_dir(given: Mapping[str, str]) -> str:
    return next(iter(items_of(given.get("metadata.log.dir") or given.get("log.dirs") or _required(given, "log.dir"))))


def _cluster_defaults(given: Mapping[str, str]) -> ClusterDefaults:
    numbers = {field: _number(given, setting, at_least=1) for setting, field in _DEFAULTS.items() if setting in given}
    window = QuotaWindow()
    return ClusterDefaults(
        **numbers,
        is_unclean_allowed=_flag(given, "unclean.leader.election.enable", default=False),
        mutation_window=QuotaWindow(
            sample_count=_number_or(given, _QUOTA_SAMPLES, window.sample_count),
            sample_ms=_number_or(given, _QUOTA_SECONDS, window.sample_ms // 1000) * 1000,
        ),
    )


def _controller_timings(given: Mapping[str, str]) -> ControllerTimings:
    kafkas = ControllerTimings()
    preferred_ms = kafkas.preferred_interval_ms
    if _PREFERRED_INTERVAL in given:
        preferred_ms = _number(given, _PREFERRED_INTERVAL, at_least=1) * 1000
    return ControllerTimings(
        no_op_interval_ms=_number_or(given, _NO_OP_INTERVAL, kafkas.no_op_interval_ms),
        preferred_interval_ms=preferred_ms if _flag(given, "auto.leader.rebalance.enable", default=True) else None,
        unclean_interval_ms=_number_or(given, _UNCLEAN_INTERVAL, kafkas.unclean_interval_ms),
    )


def _refuse_what_is_not_there(given: Mapping[str, str], *, is_broker: bool) -> None:
    """Settings whose meaning would be lost if they were ignored."""
    roles = items_of(given.get("process.roles", "controller"))
    if set(roles) - {"controller"} != ({"broker"} if is_broker else set()):
        raise invalid_value("process.roles", given["process.roles"], "a node of the quorum is a controller only")


def _known_controllers(given: Mapping[str, str]) -> tuple[dict[int, BrokerAddress], tuple[BrokerAddress, ...]]:
    """The static voters, and who is asked for the leader."""
    voters = parse_voters(given[VOTERS]) if given.get(VOTERS, "").strip() else {}
    bootstrap = given.get(BOOTSTRAP, "").strip()
    if not voters and not bootstrap:
        raise InvalidConfigError(
            f"{BOOTSTRAP} is missing, or {VOTERS} for static voters: a node of the quorum needs one of them",
            setting=BOOTSTRAP,
        )
    return voters, parse_bootstrap(bootstrap) if bootstrap else ()


def _security(
    given: Mapping[str, str], voters: Mapping[int, BrokerAddress], node_id: int
) -> tuple[Listener, LinkSecurity, AccessSettings]:
    """Of the controller listener; how this node connects to those of others; who may do what here."""
    complaints: list[str] = []
    name = controller_listener_name(given)
    if node_id in voters:
        listener: Listener | None = controller_listener(given, name, voters[node_id], complaints)
    else:
        listener = own_controller_listener(given, name, complaints)
    links = links_to_controllers(given, complaints)
    if links.sasl is not None and links.sasl.mechanism.startswith("SCRAM") and len(voters) != 1:
        complaints.append(
            f"sasl.mechanism.controller.protocol={links.sasl.mechanism}: controllers cannot log in at each other by "
            "SCRAM, whose users are in the log that they have to elect a leader for; use PLAIN with TLS, or SSL with "
            "ssl.client.auth=required. Brokers may log in at controllers by SCRAM."
        )
    access = access_settings(given, complaints)
    if complaints or listener is None:
        raise InvalidConfigError("; ".join(complaints), complaints=tuple(complaints))
    return listener, links, access


def parse_bootstrap(text: str) -> tuple[BrokerAddress, ...]:
    """`host:port`, separated by commas. Raises InvalidConfigError."""
    try:
        return parse_client_settings({"bootstrap.servers": text}).bootstrap_servers
    except InvalidConfigError as error:
        raise invalid_value(BOOTSTRAP, text, "it must be host:port, separated by commas") from error


def parse_voters(text: str) -> dict[int, BrokerAddress]:
    """`id@host:port`, separated by commas. Raises InvalidConfigError."""
    voters: dict[int, BrokerAddress] = {}
    for item in items_of(text):
        found = _VOTER.fullmatch(item)
        if found is None or int(found["port"]) > _MAX_PORT:
            raise invalid_value(VOTERS, text, f"{item} is not id@host:port")
        if int(found["id"]) in voters:
            raise invalid_value(VOTERS, text, f"id {found['id']} is there twice")
        voters[int(found["id"])] = BrokerAddress(host=found["host"].strip("[]"), port=int(found["port"]))
    if not voters:
        raise invalid_value(VOTERS, text, "no voters")
    return voters


def _required(given: Mapping[str, str], name: str) -> str:
    if not given.get(name, "").strip():
        raise InvalidConfigError(f"{name} is missing: a node of the quorum needs it", setting=name)
    return given[name]


def _flag(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    return bool(boolean(name, given[name])) if name in given else default


def _number_or(given: Mapping[str, str], name: str, default: int) -> int:
    return _number(given, name, at_least=1) if name in given else default


def _number(given: Mapping[str, str], name: str, *, at_least: int) -> int:
    number = int_parser(at_least)(name, _required(given, name))
    assert isinstance(number, int)
    return number
