"""Dynamic settings: changed while the broker runs, for one broker or for all brokers (KIP-226).

They are stored in the metadata log and override the properties file, as soon as they are durable and after restarts.
They are Kafka's dynamic settings; those that name Java classes are refused.

    check_names(["log.retention.ms"], is_of_all=True)
    altered = changed_config(config, of_cluster={"log.retention.ms": "7"}, of_broker={})     checked; for a change
    check_change(config, altered)
    config = stored_config(config, image.broker_configs)                                     lenient; for stored ones
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from broker_core.broker.settings.broker_config import BrokerConfig, parse_broker_config
from broker_core.broker.settings.broker_settings import BROKER_SETTINGS
from broker_core.broker.settings.idle_settings import IDLE_SETTINGS, REFUSED_UNLESS_DEFAULT
from broker_core.broker.settings.listener_changes import check_listener_change, kept_listeners
from broker_core.broker.settings.listener_settings import LISTENER_PREFIX
from broker_core.broker.settings.setting_layers import NO_SETTINGS, base_name
from broker_core.model.exceptions import InvalidConfigError, InvalidRequestError
from broker_core.model.topic_defaults import TOPIC_SYNONYMS

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
"""Since KIP-966 Kafka stores it for all brokers at the first start: it cannot be set for a single broker."""

_FIELD_OF: Final[Mapping[str, str]] = MappingProxyType(
    {
        name: name.replace(".", "_")
        for name in (
            "group.consumer.assignment.interval.ms", "log.cleaner.dedupe.buffer.size", "max.connections",
            "max.connections.per.ip", "max.connections.per.ip.overrides", "num.io.threads", "producer.id.expiration.ms",
        )
    }
)  # fmt: skip
_DYNAMIC: Final = (
    frozenset(name for name, setting in BROKER_SETTINGS.items() if setting.is_dynamic)
    | frozenset(name for name, setting in IDLE_SETTINGS.items() if setting.is_dynamic)
) - REFUSED_UNLESS_DEFAULT.keys()
_OF_TOPICS: Final = frozenset(name for synonyms in TOPIC_SYNONYMS.values() for name in synonyms) & _DYNAMIC
_IDLE: Final = _DYNAMIC & IDLE_SETTINGS.keys()
_OF_LISTENERS: Final = frozenset(name for name in _DYNAMIC if name.startswith(("ssl.", "sasl.")))
"""The security of listeners. Without a listener's prefix they are for all of them."""
_ONLY_OF_ONE_LISTENER: Final = frozenset(
    name for name in _OF_LISTENERS if name.startswith(("ssl.keystore.", "ssl.truststore.", "ssl.key.password"))
)
_ALSO_OF_ONE_LISTENER: Final = frozenset(
    {
        "max.connections", "max.connection.creation.rate", "num.network.threads", "ssl.allow.dn.changes",
        "ssl.allow.san.changes", "ssl.principal.mapping.rules",
    }
)  # fmt: skip
_ONLY_OF_ONE_BROKER: Final = _OF_LISTENERS | {"cordoned.log.dirs", "listeners", "listener.security.protocol.map"}
CHANGEABLE: Final = _DYNAMIC - _ONLY_OF_ONE_LISTENER
"""Without those of a single listener: see `is_changeable`."""
_THREAD_COUNTS: Final = (
    "background.threads", "log.cleaner.threads", "num.io.threads", "num.network.threads",
    "num.recovery.threads.per.data.dir", "num.replica.fetchers", "remote.log.reader.threads",
)  # fmt: skip

_log: Final = logging.getLogger(__name__)


def is_changeable(name: str) -> bool:
    """Whether it is a dynamic setting, of a node or, with the prefix, of a listener."""
    if name.startswith(LISTENER_PREFIX):
        return base_name(name) in _OF_LISTENERS | _ALSO_OF_ONE_LISTENER
    return name in CHANGEABLE


def check_names(names: Iterable[str], *, is_of_all: bool = False) -> None:
    """Raises InvalidRequestError for a name that is not a dynamic setting or, with `is_of_all`, not one of all
    brokers."""
    for name in names:
        if name in _ONLY_OF_ONE_LISTENER:
            raise InvalidRequestError(
                "These security configs can be dynamically updated only per-listener using the listener prefix:"
                f" [{name}]",
                setting=name,
            )
        if not is_changeable(name):
            raise _refusal(name)
        if is_of_all and (name in _ONLY_OF_ONE_BROKER or _is_security_of_listener(name)):
            raise InvalidRequestError(
                f"Cannot update these configs at default cluster level, broker id must be specified: [{name}]",
                setting=name,
            )


def changed_config(
    config: BrokerConfig, *, of_cluster: Mapping[str, str], of_broker: Mapping[str, str]
) -> BrokerConfig:
    """`config` with these dynamic settings in place of all earlier ones. Raises InvalidConfigError."""
    parsed = parse_broker_config(config.layers.of_file, of_cluster=of_cluster, of_broker=of_broker)
    fields = {field: getattr(parsed, field) for field in (*_FIELD_OF.values(), "topic_defaults")}
    listeners = kept_listeners(config.listeners, parsed.listeners, config.machine_name)
    return replace(config, layers=parsed.layers, listeners=listeners, **fields)


def check_change(config: BrokerConfig, altered: BrokerConfig) -> None:
    """Whether a running broker may get from the one to the other. Raises InvalidConfigError."""
    for name in _THREAD_COUNTS:
        _check_thread_count(name, *(int(one.layers.value_of(name)) for one in (config, altered)))
    check_listener_change(
        config.listeners, altered.listeners, config.layers.of_file, altered.layers.merged().get("listeners", "")
    )


def stored_config(config: BrokerConfig, stored: Mapping[str, Mapping[str, str]]) -> BrokerConfig:
    """`stored`: see `MetadataImage.broker_configs`. Unknown settings of another version or of Kafka are left out with a
    warning. If a stored value is invalid, all are left out, and the broker runs with its file."""
    of_cluster = _known(stored.get("", NO_SETTINGS))
    of_broker = _known(stored.get(str(config.node_id), NO_SETTINGS))
    try:
        return changed_config(config, of_cluster=of_cluster, of_broker=of_broker)
    except InvalidConfigError as error:
        _log.warning("ignoring stored dynamic settings: %s", error)
        return changed_config(config, of_cluster=NO_SETTINGS, of_broker=NO_SETTINGS)


def idle_names(names: Iterable[str]) -> list[str]:
    """The names of dynamic settings without effect here."""
    return sorted(name for name in names if base_name(name) in _IDLE)


def _is_security_of_listener(name: str) -> bool:
    return name.startswith(LISTENER_PREFIX) and base_name(name) not in {"max.connections", *_IDLE - _OF_LISTENERS}


def _refusal(name: str) -> InvalidRequestError:
    if base_name(name) in BROKER_SETTINGS or base_name(name) in IDLE_SETTINGS:
        return InvalidRequestError(
            f"Cannot update these configs dynamically: [{name}]. Set it in the properties file and restart the broker.",
            setting=name,
        )
    close = difflib.get_close_matches(name, CHANGEABLE, n=1, cutoff=0.6)
    advice = f"; did you mean {close[0]}?" if close else ""
    return InvalidRequestError(f"{name} is not a broker setting{advice}", setting=name)


def _check_thread_count(name: str, current: int, wanted: int) -> None:
    """At most twice as many as now, at least half of them: as in Kafka."""
    if wanted == current:
        return
    if wanted < 1:
        raise InvalidConfigError(f"Invalid value {wanted} for configuration {name}: Value must be at least 1")
    failed = f"Dynamic thread count update validation failed for {name}={wanted}"
    if wanted < current // 2:
        raise InvalidConfigError(f"{failed}, value should be at least half the current value {current}")
    if wanted > current * 2:
        raise InvalidConfigError(f"{failed}, value should not be greater than double the current value {current}")


def _known(stored: Mapping[str, str]) -> Mapping[str, str]:
    unknown = sorted(name for name in stored if not is_changeable(name))
    if unknown:
        _log.warning("ignoring stored settings that are not dynamic: %s", ", ".join(unknown))
    return MappingProxyType({name: value for name, value in stored.items() if is_changeable(name)})
