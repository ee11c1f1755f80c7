"""The settings of topics, decoded once for each description of a topic and its defaults, not at each use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker_core.cluster import TopicDescription
from broker_core.model.topic_config import TopicConfig
from broker_core.model.topic_defaults import TopicDefaults

_SPARE_COUNT: Final = 64


class TopicConfigs:
    """Safe to use from several threads. Keeps at most about as many entries of deleted topics as of existing ones."""

    def __init__(
        self, topic_now: Callable[[str], TopicDescription | None], defaults_now: Callable[[], TopicDefaults]
    ) -> None:
        """`topic_now` returns the current topic of a name; `defaults_now` the defaults of topic settings, the same
        object until they change."""
        self._topic_now = topic_now
        self._defaults_now = defaults_now
        self._known: dict[str, tuple[TopicDescription, TopicDefaults, TopicConfig]] = {}
        self._pruned_at_count = _SPARE_COUNT

    def __len__(self) -> int:
        return len(self._known)

    def of(self, topic: TopicDescription) -> TopicConfig:
        defaults = self._defaults_now()
        known = self._known.get(topic.name)
        if known is None or known[0] is not topic or known[1] is not defaults:
            if len(self._known) >= self._pruned_at_count:
                self._prune()
            known = topic, defaults, defaults.config_of(topic.configs)
            self._known[topic.name] = known
        return known[2]

    def _prune(self) -> None:
        for name, (topic, _, _) in list(self._known.items()):
            if self._topic_now(name) is not topic:
                self._known.pop(name, None)
        self._pruned_at_count = 2 * len(self._known) + _SPARE_COUNT
