"""Settings of topics as answers show them: the value that counts, and where it comes from (KIP-226).

1 the topic       4 the broker's properties file       5 nobody: Kafka's default
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from broker_core.broker.broker_node import BrokerNode
from broker_core.broker.settings.broker_settings import BROKER_SETTINGS, TOPIC_SYNONYMS, kind_of_topic_setting
from broker_core.model.topic_settings import SETTINGS

OF_TOPIC, OF_BROKER_FILE, DEFAULT = 1, 4, 5

_NEVER_SHOWN: Final = frozenset({"internal.segment.bytes"})


def topic_config_answers(
    node: BrokerNode, configs: Mapping[str, str], *, with_synonyms: bool = False
) -> list[dict[str, Any]]:
    """Every setting of a topic that sets `configs`, in alphabetical order."""
    shown = [name for name in SETTINGS if name not in _NEVER_SHOWN or name in configs]
    return [_answer(node, name, configs, with_synonyms=with_synonyms) for name in shown]


def _answer(node: BrokerNode, name: str, configs: Mapping[str, str], *, with_synonyms: bool) -> dict[str, Any]:
    synonyms = _synonyms(node, name, configs)
    value, source = (synonyms[0]["value"], synonyms[0]["source"]) if synonyms else (SETTINGS[name].default, DEFAULT)
    return {
        "name": name,
        "value": value,
        "config_source": source,
        "synonyms": synonyms if with_synonyms else [],
        "config_type": kind_of_topic_setting(name).value,
        "documentation": None,
    }


def _synonyms(node: BrokerNode, name: str, configs: Mapping[str, str]) -> list[dict[str, Any]]:
    """Who says something of the setting; the first one counts. If nobody does, the topic has a default of its own."""
    found = []
    if name in configs:
        found.append({"name": name, "value": configs[name], "source": OF_TOPIC})
    broker_names = TOPIC_SYNONYMS.get(name, ())
    if name in node.config.topic_defaults:
        given = next(each for each in broker_names if each in node.config.given)
        found.append({"name": given, "value": node.config.topic_defaults[name], "source": OF_BROKER_FILE})
    if broker_names and (default := BROKER_SETTINGS[broker_names[0]].default) is not None:
        found.append({"name": broker_names[0], "value": default, "source": DEFAULT})
    return found
