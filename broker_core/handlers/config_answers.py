"""Settings as answers show them: the value that counts, and where it comes from (KIP-226).

DescribeConfigs tells parsed values. The answer to CreateTopics tells them as they were typed, and takes a setting of
the broker in another unit (log.roll.hours) for one of the topic, which DescribeConfigs does not: both as in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from broker_core.broker.broker_description import DescribedSetting
from broker_core.broker.broker_node import BrokerNode
from broker_core.broker.settings.group_config import GROUP_SETTINGS, GroupConfigSetting, group_synonyms
from broker_core.broker.settings.setting_layers import SettingSource, Synonym
from broker_core.model.topic_defaults import TOPIC_SYNONYMS
from broker_core.model.topic_settings import SETTINGS, Setting

_NEVER_SHOWN: Final = frozenset({"internal.segment.bytes"})


def topic_answers(node: BrokerNode, configs: Mapping[str, str]) -> list[dict[str, Any]]:
    """Every setting of a topic that sets `configs`, in alphabetical order."""
    return [_topic_answer(node, setting, configs) for setting in _shown_settings(configs)]


def created_topic_answers(node: BrokerNode, configs: Mapping[str, str]) -> list[dict[str, Any]]:
    """The same for a topic that was just made."""
    return [_created_topic_answer(node, setting.name, configs) for setting in _shown_settings(configs)]


def broker_answer(setting: DescribedSetting) -> dict[str, Any]:
    return {
        "name": setting.name,
        "value": setting.value,
        "read_only": setting.is_read_only,
        "config_source": setting.source.value,
        "is_sensitive": setting.is_sensitive,
        "synonyms": _synonym_answers(setting.synonyms),
        "config_type": setting.kind.value,
        "documentation": setting.doc,
    }


def group_answers(node: BrokerNode, configs: Mapping[str, str]) -> list[dict[str, Any]]:
    """Every setting of a group that sets `configs`, in alphabetical order."""
    return [_group_answer(node, setting, configs) for setting in GROUP_SETTINGS.values()]


def _shown_settings(configs: Mapping[str, str]) -> list[Setting]:
    return [setting for name, setting in SETTINGS.items() if name not in _NEVER_SHOWN or name in configs]


def _topic_answer(node: BrokerNode, setting: Setting, configs: Mapping[str, str]) -> dict[str, Any]:
    synonyms = _topic_synonyms(node, setting, configs)
    value = configs.get(setting.name, node.config.topic_defaults.configs.get(setting.name, setting.default))
    return {
        "name": setting.name,
        "value": None if value is None else setting.shown(value),
        "config_source": (synonyms[0].source if synonyms else SettingSource.DEFAULT).value,
        "synonyms": _synonym_answers(synonyms),
        "config_type": setting.kind.value,
        "documentation": None,
    }


def _topic_synonyms(node: BrokerNode, setting: Setting, configs: Mapping[str, str]) -> list[Synonym]:
    """Everything that has a say, the first counts. If there is nothing, the topic has a default of its own."""
    of_broker = TOPIC_SYNONYMS.get(setting.name, ())[:1]
    synonyms = [synonym for name in of_broker for synonym in node.config.layers.synonyms(name)]
    if setting.name not in configs:
        return synonyms
    shown = setting.shown(configs[setting.name])
    return [Synonym(name=setting.name, value=shown, source=SettingSource.TOPIC), *synonyms]


def _created_topic_answer(node: BrokerNode, name: str, configs: Mapping[str, str]) -> dict[str, Any]:
    value, source = SETTINGS[name].default, SettingSource.DEFAULT
    if name in configs:
        value, source = configs[name], SettingSource.TOPIC
    elif name in node.config.topic_defaults.configs:
        sources = map(node.config.layers.source_of, TOPIC_SYNONYMS[name])
        value = node.config.topic_defaults.configs[name]
        source = next(source for source in sources if source is not None)
    return {"name": name, "value": value, "config_source": source.value}


def _group_answer(node: BrokerNode, setting: GroupConfigSetting, configs: Mapping[str, str]) -> dict[str, Any]:
    synonyms = group_synonyms(setting, configs, node.config)
    value = synonyms[0].value
    return {
        "name": setting.name,
        "value": None if value is None else setting.shown(value),
        "config_source": synonyms[0].source.value,
        "synonyms": _synonym_answers(synonyms),
        "config_type": setting.kind.value,
        "documentation": None,
    }


def _synonym_answers(synonyms: Iterable[Synonym]) -> list[dict[str, Any]]:
    return [{"name": each.name, "value": each.value, "source": each.source.value} for each in synonyms]
