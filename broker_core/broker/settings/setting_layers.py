"""The sources of a broker's settings, in order of precedence (KIP-226), with their numbers in DescribeConfigs.

    of_broker     dynamic, for this broker                       2
    of_cluster    dynamic, for all brokers                       3
    of_file       its properties file, or `--set`                4
    the default   Kafka's                                        5

`SettingLayers.synonyms` answers DescribeConfigs' `include_synonyms`: all values by source, in order of precedence.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from broker_core.broker.settings.broker_settings import BROKER_SETTINGS, BrokerSetting
from broker_core.broker.settings.idle_settings import IDLE_SETTINGS, IdleSetting
from broker_core.broker.settings.listener_settings import LISTENER_PREFIX
from broker_core.model.topic_defaults import TOPIC_SYNONYMS

NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})

_JAAS_OF_MECHANISM: Final = frozenset(
    f"{mechanism}.sasl.jaas.config" for mechanism in ("plain", "scram-sha-256", "scram-sha-512")
)
_FAMILIES: Final = {name: names for names in TOPIC_SYNONYMS.values() if len(names) > 1 for name in names}
"""Synonymous settings, by each of their names."""


class SettingSource(enum.IntEnum):
    """The source, with its number in DescribeConfigs answers."""

    TOPIC = 1
    BROKER = 2
    CLUSTER = 3
    FILE = 4
    DEFAULT = 5
    GROUP = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Synonym:
    """`value` as it was entered; None for sensitive settings."""

    name: str
    value: str | None
    source: SettingSource


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingLayers:
    """Settings by name, as they were entered, including secrets."""

    of_broker: Mapping[str, str] = field(default_factory=lambda: NO_SETTINGS, repr=False)
    of_cluster: Mapping[str, str] = field(default_factory=lambda: NO_SETTINGS, repr=False)
    of_file: Mapping[str, str] = field(default_factory=lambda: NO_SETTINGS, repr=False)

    def merged(self) -> dict[str, str]:
        """The effective value of each given name."""
        return {**self.of_file, **self.of_cluster, **self.of_broker}

    def value_of(self, name: str) -> str:
        """The effective value of a setting with a default, as it was entered."""
        value = self.merged().get(name, known_setting(name).default)
        assert value is not None, f"{name} has no value"
        return value

    def source_of(self, name: str) -> SettingSource | None:
        """The source of the effective value; None: not given."""
        return next((source for layer, source in self._layers() if name in layer), None)

    def synonyms(self, name: str) -> tuple[Synonym, ...]:
        """All values of the setting and its synonyms; the first is effective. As in Kafka, values before the setting's
        own name are left out: a setting that is only given under another name has at most defaults."""
        found = list(self._all_synonyms(name))
        first = next((place for place, synonym in enumerate(found) if synonym.name == name), len(found))
        return tuple(found[first:])

    def _layers(self) -> tuple[tuple[Mapping[str, str], SettingSource], ...]:
        return (
            (self.of_broker, SettingSource.BROKER),
            (self.of_cluster, SettingSource.CLUSTER),
            (self.of_file, SettingSource.FILE),
        )

    def _all_synonyms(self, name: str) -> Iterator[Synonym]:
        names = _names_that_stand_in(name)
        for layer, source in self._layers():
            for each in names:
                if each in layer:
                    yield Synonym(name=each, value=_unless_sensitive(each, layer[each]), source=source)
        for each in names:
            default = None if each.startswith(LISTENER_PREFIX) else known_setting(each).default
            if default is not None:
                yield Synonym(name=each, value=default, source=SettingSource.DEFAULT)


def base_name(name: str) -> str:
    """The `<setting>` of `listener.name.<name>.<setting>`; other names are returned unchanged."""
    if not name.startswith(LISTENER_PREFIX):
        return name
    own = name[len(LISTENER_PREFIX) :].partition(".")[2]
    return "sasl.jaas.config" if own in _JAAS_OF_MECHANISM else own


def known_setting(name: str) -> BrokerSetting | IdleSetting:
    """The row of a setting, with or without a listener prefix. Raises KeyError for an unknown name."""
    base = base_name(name)
    return BROKER_SETTINGS[base] if base in BROKER_SETTINGS else IDLE_SETTINGS[base]


def _names_that_stand_in(name: str) -> tuple[str, ...]:
    if name.startswith(LISTENER_PREFIX):
        return name, base_name(name)
    return _FAMILIES.get(name, (name,))


def _unless_sensitive(name: str, value: str) -> str | None:
    return None if known_setting(name).is_sensitive else value
