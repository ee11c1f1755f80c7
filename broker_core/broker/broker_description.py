"""A broker's settings as DescribeConfigs shows them, with the defaults of settings without a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from broker_core.broker.settings.broker_config import BrokerConfig
from broker_core.broker.settings.broker_settings import BROKER_SETTINGS, BrokerSetting
from broker_core.broker.settings.idle_settings import IDLE_SETTINGS
from broker_core.broker.settings.listener_settings import LISTENER_PREFIX
from broker_core.broker.settings.setting_layers import SettingLayers, SettingSource, Synonym, known_setting
from broker_core.model.setting_kind import SettingKind


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedSetting:
    """`value` is normalized by its type; None without a value, and for sensitive settings."""

    name: str
    value: str | None
    source: SettingSource
    synonyms: tuple[Synonym, ...]
    kind: SettingKind
    is_sensitive: bool
    is_read_only: bool
    doc: str


def describe_broker(config: BrokerConfig) -> tuple[DescribedSetting, ...]:
    """In alphabetical order. `node.id` and `broker.id` are synonyms, as in Kafka."""
    node_id = str(config.node_id)
    of_file = {**config.layers.of_file, "node.id": node_id, "broker.id": node_id}
    layers = replace(config.layers, of_file=MappingProxyType(of_file))
    shown = {name for name, setting in BROKER_SETTINGS.items() if setting.is_described}
    return tuple(_described(name, layers) for name in sorted({*shown, *IDLE_SETTINGS, *layers.merged()}))


def describe_cluster_defaults(of_cluster: Mapping[str, str]) -> tuple[DescribedSetting, ...]:
    """The dynamic settings of all brokers, as they were entered; other sources are ignored."""
    layers = SettingLayers(of_cluster=of_cluster)
    described = [_described(name, layers) for name in sorted(of_cluster)]
    return tuple(
        replace(each, value=each.synonyms[0].value, synonyms=each.synonyms[:1]) for each in described if each.synonyms
    )


def _described(name: str, layers: SettingLayers) -> DescribedSetting:
    setting = known_setting(name)
    is_of_listener = name.startswith(LISTENER_PREFIX)
    synonyms = layers.synonyms(name)
    given = synonyms[0].value if synonyms else setting.default
    # Kafka does not parse the settings of one listener.
    value = given if given is None or is_of_listener else setting.shown(given)
    return DescribedSetting(
        name=name,
        value=None if setting.is_sensitive else value,
        source=synonyms[0].source if synonyms else SettingSource.DEFAULT,
        synonyms=synonyms,
        kind=setting.kind,
        is_sensitive=setting.is_sensitive,
        is_read_only=is_of_listener or not setting.is_dynamic,
        doc=setting.doc if isinstance(setting, BrokerSetting) else "This broker ignores the setting.",
    )
