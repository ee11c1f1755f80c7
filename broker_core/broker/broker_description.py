"""A broker's settings as DescribeConfigs shows them: those that were given and those that were not."""

from __future__ import annotations

from dataclasses import dataclass

from broker_core.broker.settings.broker_config import BrokerConfig, base_name
from broker_core.broker.settings.broker_settings import BROKER_SETTINGS, BrokerSetting, SettingKind
from broker_core.broker.settings.idle_settings import IDLE_SETTINGS, IdleSetting


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedSetting:
    """`value` is None for a secret, and where there is none. `default` None: it has no value unless given."""

    name: str
    value: str | None
    default: str | None
    kind: SettingKind
    is_given: bool
    is_sensitive: bool
    is_read_only: bool
    doc: str


def describe_broker(config: BrokerConfig) -> tuple[DescribedSetting, ...]:
    """In alphabetical order. `node.id` and `broker.id` stand for one another, as in Kafka."""
    node_id = str(config.node_id)
    given = {**config.given, "node.id": node_id, "broker.id": node_id}
    shown = {name for name, setting in BROKER_SETTINGS.items() if setting.is_described}
    return tuple(_described(name, given) for name in sorted({*shown, *IDLE_SETTINGS, *given}))


def _described(name: str, given: dict[str, str]) -> DescribedSetting:
    base = base_name(name)
    setting: BrokerSetting | IdleSetting = BROKER_SETTINGS.get(base) or IDLE_SETTINGS[base]
    is_own = name == base
    is_sensitive = setting.kind == SettingKind.PASSWORD
    return DescribedSetting(
        name=name,
        value=None if is_sensitive else given.get(name, setting.default),
        default=setting.default if is_own else None,
        kind=setting.kind,
        is_given=name in given,
        is_sensitive=is_sensitive,
        is_read_only=not setting.is_dynamic,
        doc=setting.doc if isinstance(setting, BrokerSetting) else "It has no effect here.",
    )
