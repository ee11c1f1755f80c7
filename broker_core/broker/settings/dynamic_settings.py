"""Dynamic settings: changed while the broker runs, for one broker or for all brokers (KIP-226).

They are stored in the metadata log and override the properties file, as soon as they are durable and after restarts.
They are Kafka's dynamic settings without listeners, logins, TLS and threads, which are only read from the file here.

    altered = changed_config(config, of_cluster={"log.retention.ms": "7"}, of_broker={})     checked; for a change
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
from broker_core.broker.settings.setting_layers import NO_SETTINGS
from broker_core.model.exceptions import InvalidConfigError, InvalidRequestError
from broker_core.model.topic_defaults import TOPIC_SYNONYMS

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
"""Since KIP-966 Kafka stores it for all brokers at the first start: it cannot be set for a single broker."""

_FIELD_OF: Final[Mapping[str, str]] = MappingProxyType(
    {
        name: name.replace(".", "_")
        for name in (
            "group.consumer.assignment.interval.ms", "log.cleaner.dedupe.buffer.size", "max.connections",
            "max.connections.per.ip", "max.connections.per.ip.overrides", "producer.id.expiration.ms",
        )
    }
)  # fmt: skip
_OF_TOPICS: Final = frozenset(
    name for synonyms in TOPIC_SYNONYMS.values() for name in synonyms if BROKER_SETTINGS[name].is_dynamic
)
_IDLE: Final = frozenset(
    name for name, setting in IDLE_SETTINGS.items() if setting.is_dynamic and name not in REFUSED_UNLESS_DEFAULT
)
CHANGEABLE: Final = _FIELD_OF.keys() | _OF_TOPICS | _IDLE

_log: Final = logging.getLogger(__name__)


def check_names(names: Iterable[str]) -> None:
    """Raises InvalidRequestError for a name that is not a dynamic setting."""
    for name in names:
        if name in CHANGEABLE:
            continue
        if name in BROKER_SETTINGS or name in IDLE_SETTINGS or name.startswith("listener.name."):
            raise InvalidRequestError(
                f"Cannot update these configs dynamically: [{name}]. Set it in the properties file and restart the"
                " broker.",
                setting=name,
            )
        close = difflib.get_close_matches(name, CHANGEABLE, n=1, cutoff=0.6)
        advice = f"; did you mean {close[0]}?" if close else ""
        raise InvalidRequestError(f"{name} is not a broker setting{advice}", setting=name)


def changed_config(
    config: BrokerConfig, *, of_cluster: Mapping[str, str], of_broker: Mapping[str, str]
) -> BrokerConfig:
    """`config` with these dynamic settings in place of all earlier ones. Raises InvalidConfigError."""
    parsed = parse_broker_config(config.layers.of_file, of_cluster=of_cluster, of_broker=of_broker)
    fields = {field: getattr(parsed, field) for field in (*_FIELD_OF.values(), "topic_defaults")}
    return replace(config, layers=parsed.layers, **fields)


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
    return sorted(name for name in names if name in _IDLE)


def _known(stored: Mapping[str, str]) -> Mapping[str, str]:
    unknown = sorted(stored.keys() - CHANGEABLE)
    if unknown:
        _log.warning("ignoring stored settings that are not dynamic: %s", ", ".join(unknown))
    return MappingProxyType({name: value for name, value in stored.items() if name in CHANGEABLE})
