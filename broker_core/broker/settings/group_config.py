"""The settings of one group (KIP-848, KIP-932, KIP-1071): stored, checked and described by the broker.

A group that does not set one of them uses the broker's: `group.consumer.session.timeout.ms` is the default of
`consumer.session.timeout.ms`, and settings such as `group.consumer.min.session.timeout.ms` are the limits for groups.
Share and streams groups are not supported: their settings are stored and have no effect.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from broker_core.broker.settings.broker_config import BrokerConfig
from broker_core.broker.settings.setting_layers import SettingSource, Synonym
from broker_core.model.exceptions import InvalidConfigError
from broker_core.model.java_numbers import JAVA_BLANKS
from broker_core.model.setting_kind import SettingKind, shown_value
from broker_core.model.setting_parsers import Parser, boolean, int_parser, invalid_value, one_of

SERVED_PREFIX: Final = "consumer."

_DURATION: Final = re.compile(r"by_duration:P(?=.)(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+(\.\d{0,9})?S)?)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfigSetting:
    """`default`: only for a setting whose default is not a broker setting. `least_name` and `most_name`: the broker
    settings with its limits; None: no limit."""

    name: str
    kind: SettingKind
    parser: Parser
    default: str | None = None
    least_name: str | None = None
    most_name: str | None = None

    @property
    def broker_name(self) -> str | None:
        return None if self.default is not None else f"group.{self.name}"

    def shown(self, value: str) -> str:
        shown = shown_value(self.kind, value)
        assert shown is not None, f"{self.name}: groups have no secrets"
        return shown


def _offset_reset(name: str, value: str) -> str:
    text = value.strip(JAVA_BLANKS)
    if text not in ("earliest", "latest") and not _DURATION.fullmatch(text):
        raise invalid_value(
            name, value, "The value must be 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
        )
    return text


def _number(name: str, least: int, *, bounds: str = "min max") -> GroupConfigSetting:
    """`bounds`: the limits that are broker settings, by the word in their names."""
    kind, _, rest = name.partition(".")
    named = {word: f"group.{kind}.{word}.{rest}" for word in bounds.split()}
    return GroupConfigSetting(
        name=name,
        kind=SettingKind.INT,
        parser=int_parser(least),
        least_name=named.get("min"),
        most_name=named.get("max"),
    )


def _own(name: str, kind: SettingKind, default: str, parser: Parser) -> GroupConfigSetting:
    return GroupConfigSetting(name=name, kind=kind, parser=parser, default=default)


GROUP_SETTINGS: Final[Mapping[str, GroupConfigSetting]] = MappingProxyType(
    {
        setting.name: setting
        for setting in (
            _number("consumer.assignment.interval.ms", 0),
            _number("consumer.heartbeat.interval.ms", 1),
            _number("consumer.session.timeout.ms", 1),
            _number("share.assignment.interval.ms", 0),
            _own("share.auto.offset.reset", SettingKind.STRING, "latest", _offset_reset),
            _number("share.delivery.count.limit", 2),
            _number("share.heartbeat.interval.ms", 1),
            _own(
                "share.isolation.level", SettingKind.STRING, "read_uncommitted",
                one_of("read_committed", "read_uncommitted"),
            ),
            _number("share.partition.max.record.locks", 100),
            _number("share.record.lock.duration.ms", 1000),
            _own("share.renew.acknowledge.enable", SettingKind.BOOLEAN, "true", boolean),
            _number("share.session.timeout.ms", 1),
            _number("streams.assignment.interval.ms", 0),
            _number("streams.heartbeat.interval.ms", 1),
            _number("streams.initial.rebalance.delay.ms", 0, bounds=""),
            GroupConfigSetting(
                name="streams.num.standby.replicas", kind=SettingKind.INT, parser=int_parser(0),
                most_name="group.streams.max.standby.replicas",
            ),
            _number("streams.session.timeout.ms", 1),
        )
    }
)  # fmt: skip
"""By name, in alphabetical order."""

_SESSION, _HEARTBEAT = "session.timeout.ms", "heartbeat.interval.ms"


def check_group_configs(configs: Mapping[str, str], config: BrokerConfig) -> None:
    """Checks all settings of a group. Raises InvalidConfigError, with Kafka's message, for the first mistake."""
    for name in configs:
        if name not in GROUP_SETTINGS:
            raise InvalidConfigError(f"Unknown group config name: {name}", setting=name)
    for name, value in configs.items():
        GROUP_SETTINGS[name].parser(name, value)
    for name, value in configs.items():
        _check_bounds(GROUP_SETTINGS[name], value, config)
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.{_SESSION}", f"{kind}.{_HEARTBEAT}"
        names = configs.keys() & {session, heartbeat}
        if names and group_number(session, configs, config) <= group_number(heartbeat, configs, config):
            raise InvalidConfigError(f"{session} must be greater than {heartbeat}", setting=session)


def group_number(name: str, configs: Mapping[str, str], config: BrokerConfig) -> int:
    """The effective value for a group with these `configs`. A value outside the broker's current limits is moved to the
    nearest limit."""
    setting = GROUP_SETTINGS[name]
    assert setting.broker_name is not None, f"{name} is not a numeric broker setting"
    if name not in configs:
        return int(config.layers.value_of(setting.broker_name))
    number = int(configs[name])
    if setting.least_name is not None:
        number = max(number, int(config.layers.value_of(setting.least_name)))
    if setting.most_name is not None:
        number = min(number, int(config.layers.value_of(setting.most_name)))
    return number


def group_synonyms(setting: GroupConfigSetting, configs: Mapping[str, str], config: BrokerConfig) -> list[Synonym]:
    """All values of a group's setting by source; the first is effective."""
    synonyms = []
    if setting.name in configs:
        shown = setting.shown(configs[setting.name])
        synonyms.append(Synonym(name=setting.name, value=shown, source=SettingSource.GROUP))
    if setting.broker_name is None:
        synonyms.append(Synonym(name=setting.name, value=setting.default, source=SettingSource.DEFAULT))
    else:
        synonyms += config.layers.synonyms(setting.broker_name)
    return synonyms


def _check_bounds(setting: GroupConfigSetting, value: str, config: BrokerConfig) -> None:
    for name, word, sign in ((setting.least_name, "greater", 1), (setting.most_name, "less", -1)):
        if name is not None and (int(value) - int(config.layers.value_of(name))) * sign < 0:
            raise InvalidConfigError(
                f"{setting.name} must be {word} than or equal to {name}", setting=setting.name, value=value
            )
