"""A broker's configuration, parsed from names and values as in Kafka's server.properties.

    config = parse_broker_config({"listeners": "PLAINTEXT://127.0.0.1:9092", "log.dirs": "/data/log"})
    config.num_partitions, config.listeners, config.topic_defaults["retention.ms"]

An attribute is the setting's name with `_` for `.`; its purpose, type, range and default are in `broker_settings`. All
mistakes are reported together, each with key, value and the allowed values; an unknown name with the most similar
setting. Kafka's settings without effect here are accepted and listed in `notes`.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Final

from broker_core.broker.settings.access_settings import access_settings
from broker_core.broker.settings.broker_settings import BROKER_SETTINGS, RACK_AWARE_SELECTOR
from broker_core.broker.settings.idle_settings import IDLE_SETTINGS, REFUSED_UNLESS_DEFAULT, IdleSetting
from broker_core.broker.settings.listener_settings import Listener, parse_listeners
from broker_core.broker.settings.setting_layers import NO_SETTINGS, SettingLayers, base_name
from broker_core.metadata.authorizer import AccessSettings
from broker_core.model.client_settings import BrokerAddress
from broker_core.model.exceptions import InvalidConfigError
from broker_core.model.limits import MAX_UNAUTHENTICATED_FRAME_BYTES
from broker_core.model.log_location import local_directory
from broker_core.model.setting_parsers import INT_MAX, items_of
from broker_core.model.topic_config import PRODUCER_ID_EXPIRATION_MS, TopicConfig
from broker_core.model.topic_defaults import KAFKAS_DEFAULTS, TOPIC_SYNONYMS, TopicDefaults, topic_defaults
from broker_core.model.topic_settings import IDLE_TOPIC_SETTINGS

DEFAULT_NODE_ID: Final = 1
_MIN_DEDUPE_BYTES: Final = 1024 * 1024
"""Kafka's minimum, for one cleaner thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """`BrokerConfig()` has Kafka's defaults, without listeners."""

    layers: SettingLayers = field(default=SettingLayers(), repr=False)
    """The given settings with their sources, including secrets."""
    notes: tuple[str, ...] = ()
    """One sentence for each given setting without effect."""
    listeners: tuple[Listener, ...] = ()
    machine_name: str = ""
    """Advertised by listeners on all addresses; set by the server."""
    log_dir: str = "/tmp/kafka-logs"
    node_id: int = DEFAULT_NODE_ID
    broker_rack: str | None = None
    replica_selector_class: str = ""
    metrics_listener: BrokerAddress | None = None
    num_io_threads: int = 8

    connections_max_idle_ms: int = 600_000
    connections_max_reauth_ms: int = 0
    connection_failed_authentication_delay_ms: int = 100
    max_connections: int = INT_MAX
    max_connections_per_ip: int = INT_MAX
    max_connections_per_ip_overrides: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    socket_request_max_bytes: int = 104_857_600
    socket_send_buffer_bytes: int = 102_400
    socket_receive_buffer_bytes: int = 102_400
    socket_listen_backlog_size: int = 50
    queued_max_request_bytes: int = -1
    fetch_max_bytes: int = 57_671_680
    max_incremental_fetch_session_cache_slots: int = 1000
    max_request_partition_size_limit: int = 2000
    quota_window_num: int = 11
    quota_window_size_seconds: int = 1
    controller_quota_window_num: int = 11
    controller_quota_window_size_seconds: int = 1

    num_partitions: int = 1
    default_replication_factor: int = 1
    auto_create_topics_enable: bool = True
    delete_topic_enable: bool = True
    log_retention_check_interval_ms: int = 300_000
    log_cleaner_enable: bool = True
    log_cleaner_dedupe_buffer_size: int = 134_217_728
    topic_defaults: TopicDefaults = KAFKAS_DEFAULTS
    """The defaults of topic settings, from the given broker settings."""

    group_initial_rebalance_delay_ms: int = 3000
    group_min_session_timeout_ms: int = 6000
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = INT_MAX
    group_coordinator_rebalance_protocols: tuple[str, ...] = ("classic", "consumer", "streams")
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_min_session_timeout_ms: int = 45_000
    group_consumer_max_session_timeout_ms: int = 60_000
    group_consumer_heartbeat_interval_ms: int = 5000
    group_consumer_min_heartbeat_interval_ms: int = 5000
    group_consumer_max_heartbeat_interval_ms: int = 15_000
    group_consumer_assignment_interval_ms: int = 1000
    group_consumer_min_assignment_interval_ms: int = 0
    group_consumer_max_assignment_interval_ms: int = 15_000
    group_consumer_max_size: int = INT_MAX
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    group_consumer_migration_policy: str = "bidirectional"
    offsets_retention_minutes: int = 10_080
    offsets_retention_check_interval_ms: int = 600_000
    offset_metadata_max_bytes: int = 4096

    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 604_800_000
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = 10_000
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3_600_000
    producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS

    sasl_server_max_receive_size: int = MAX_UNAUTHENTICATED_FRAME_BYTES
    access: AccessSettings = field(default_factory=AccessSettings)

    @property
    def has_near_replicas(self) -> bool:
        """Consumers are sent to replicas of their rack."""
        return self.replica_selector_class == RACK_AWARE_SELECTOR

    @property
    def endpoints(self) -> Mapping[str, BrokerAddress]:
        """The advertised address of this node for each listener."""
        return {listener.name: listener.advertised for listener in self.listeners}

    @property
    def topic_config(self) -> TopicConfig:
        """The configuration of a topic without settings of its own."""
        return self.topic_defaults.config_of({})


_FIELDS: Final = frozenset(one.name for one in fields(BrokerConfig))
_BY_HAND: Final = frozenset(
    {"listeners", "log.dir", "node.id", "metrics.listener", "max.connections.per.ip.overrides", "super.users"}
)


def parse_broker_config(
    of_file: Mapping[str, str],
    *,
    of_cluster: Mapping[str, str] = NO_SETTINGS,
    of_broker: Mapping[str, str] = NO_SETTINGS,
) -> BrokerConfig:
    """`of_cluster` and `of_broker` are dynamic settings, see `setting_layers`.

    Raises InvalidConfigError with all complaints in its message, and as a tuple in its field `complaints`.
    """
    complaints: list[str] = []
    of_file = MappingProxyType({name.strip(): value for name, value in of_file.items()})
    layers = SettingLayers(of_file=of_file, of_cluster=of_cluster, of_broker=of_broker)
    given = {name: value.strip() for name, value in layers.merged().items()}
    parsed = _parse_each(given, complaints)
    values = {
        name.replace(".", "_"): value
        for name, value in parsed.items()
        if name not in _BY_HAND and name.replace(".", "_") in _FIELDS
    }
    values["log_dir"] = _log_dir(given, complaints)
    values["node_id"] = _node_id(parsed, complaints)
    values["metrics_listener"] = _metrics_listener(given, complaints)
    values["max_connections_per_ip_overrides"] = _overrides_by_address(given, complaints)
    values["topic_defaults"] = _topic_defaults(given, parsed, complaints)
    values["access"] = access_settings(given, complaints)
    values["listeners"] = parse_listeners(given, complaints, of_file=of_file)
    _check_the_rest(given, parsed, complaints)
    if complaints:
        raise InvalidConfigError("; ".join(complaints), complaints=tuple(complaints))
    return BrokerConfig(layers=layers, notes=_notes(given), **values)


def _parse_each(given: Mapping[str, str], complaints: list[str]) -> dict[str, Any]:
    parsed: dict[str, Any] = {}
    for name, value in given.items():
        base = base_name(name)
        if base in BROKER_SETTINGS:
            try:
                parsed[name] = BROKER_SETTINGS[base].parser(name, value)
            except InvalidConfigError as error:
                complaints.append(error.message)
        elif base in IDLE_SETTINGS:
            complaints += _complaints_of_idle(name, IDLE_SETTINGS[base], value)
        else:
            complaints.append(_unknown(name, base))
    return parsed


def _complaints_of_idle(name: str, setting: IdleSetting, value: str) -> list[str]:
    refusal = REFUSED_UNLESS_DEFAULT.get(setting.name)
    if refusal is not None and value and setting.shown(value) != setting.default:
        return [f"{name}={value} is not supported: {refusal}"]
    try:
        setting.check(value)
    except InvalidConfigError as error:
        return [error.message]
    return []


def _unknown(name: str, base: str) -> str:
    close = difflib.get_close_matches(base, [*BROKER_SETTINGS, *IDLE_SETTINGS], n=1, cutoff=0.6)
    return f"{name} is not a broker setting" + (f"; did you mean {close[0]}?" if close else "")


def _log_dir(given: Mapping[str, str], complaints: list[str]) -> str:
    name = "log.dirs" if "log.dirs" in given else "log.dir"
    folders = items_of(given.get(name, BROKER_SETTINGS["log.dir"].default or ""))
    if len(folders) != 1 or not folders[0]:
        complaints.append(f"{name} must name exactly one directory, not {len(folders)}: {given.get(name, '')!r}")
        return ""
    try:
        return local_directory(folders[0])
    except InvalidConfigError as error:
        complaints.append(f"{name}: {error.message}: a broker needs a directory on a local disk")
        return ""


def _node_id(parsed: Mapping[str, Any], complaints: list[str]) -> int:
    node_id, broker_id = parsed.get("node.id"), parsed.get("broker.id", -1)
    if node_id is not None and broker_id not in (-1, node_id):
        complaints.append(f"broker.id={broker_id} and node.id={node_id} differ: set only node.id")
    if node_id is not None:
        return int(node_id)
    return int(broker_id) if broker_id >= 0 else DEFAULT_NODE_ID


def _metrics_listener(given: Mapping[str, str], complaints: list[str]) -> BrokerAddress | None:
    text = given.get("metrics.listener", "")
    if not text:
        return None
    host, _, port = text.rpartition(":")
    if not port.isdigit() or int(port) > 65_535 or not host.strip("[]"):
        complaints.append(f"metrics.listener={text} must be host:port, for example 127.0.0.1:9308")
        return None
    return BrokerAddress(host=host.strip("[]"), port=int(port))


def _overrides_by_address(given: Mapping[str, str], complaints: list[str]) -> Mapping[str, int]:
    name = "max.connections.per.ip.overrides"
    found: dict[str, int] = {}
    for item in items_of(given.get(name, "")):
        address, _, count = item.rpartition(":")
        if not address or not count.isdigit():
            complaints.append(f"{name}: {item!r} must be address:count")
        else:
            found[address.strip("[]")] = int(count)
    return MappingProxyType(found)


def _topic_defaults(given: Mapping[str, str], parsed: Mapping[str, Any], complaints: list[str]) -> TopicDefaults:
    found = topic_defaults({name: given[name] for name in parsed})
    try:
        TopicConfig.from_strings(found)
    except InvalidConfigError as error:
        complaints.append(error.message)
    expiration_ms = parsed.get("producer.id.expiration.ms", PRODUCER_ID_EXPIRATION_MS)
    return TopicDefaults(configs=MappingProxyType(found), producer_id_expiration_ms=expiration_ms)


def _check_the_rest(given: Mapping[str, str], parsed: Mapping[str, Any], complaints: list[str]) -> None:
    roles = items_of(given.get("process.roles", "broker"))
    if "broker" not in roles or not set(roles) <= {"broker", "controller"}:
        complaints.append(f"process.roles={','.join(roles)} must be broker, or broker,controller")
    is_alone = not any(given.get(f"controller.quorum.{name}") for name in ("voters", "bootstrap.servers"))
    if parsed.get("default.replication.factor", 1) != 1 and is_alone:
        complaints.append(
            f"default.replication.factor={parsed['default.replication.factor']} must be 1: the cluster has one node"
        )
    if "classic" not in parsed.get("group.coordinator.rebalance.protocols", ("classic",)):
        complaints.append("group.coordinator.rebalance.protocols must contain classic, as in Kafka")
    if parsed.get("log.cleaner.dedupe.buffer.size", _MIN_DEDUPE_BYTES) < _MIN_DEDUPE_BYTES:
        complaints.append(
            f"log.cleaner.dedupe.buffer.size={parsed['log.cleaner.dedupe.buffer.size']} must be at least"
            f" {_MIN_DEDUPE_BYTES}"
        )
    pairs = (
        ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
        ("group.consumer.min.session.timeout.ms", "group.consumer.session.timeout.ms"),
        ("group.consumer.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
        ("group.consumer.min.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms"),
        ("group.consumer.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
        ("group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms"),
        ("group.consumer.min.assignment.interval.ms", "group.consumer.assignment.interval.ms"),
        ("group.consumer.assignment.interval.ms", "group.consumer.max.assignment.interval.ms"),
    )
    for lower, upper in pairs:
        low, high = (parsed.get(name, int(BROKER_SETTINGS[name].default or 0)) for name in (lower, upper))
        if low > high:
            complaints.append(f"{lower}={low} must not be greater than {upper}={high}")


_IDLE_BY_BROKER_NAME: Final = {
    synonym: reason for name, reason in IDLE_TOPIC_SETTINGS.items() for synonym in TOPIC_SYNONYMS.get(name, ())
}


def _notes(given: Mapping[str, str]) -> tuple[str, ...]:
    found = []
    for name in sorted(given):
        base = base_name(name)
        if base in _IDLE_BY_BROKER_NAME:
            found.append(f"{name} is ignored: {_IDLE_BY_BROKER_NAME[base]}")
        elif base in IDLE_SETTINGS and base != "process.roles":
            found.append(f"{name} is ignored: this broker does not use it")
    return tuple(found)
