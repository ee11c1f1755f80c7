"""The settings of topics, decoded once for each description of a topic and not at each look."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from broker_core.cluster import TopicDescription
from broker_core.model.topic_config import TopicConfig

_SPARE_COUNT: Final = 64


class TopicConfigs:
    """Safe to use from several threads. Of topics that are gone no more is kept than of those that are there."""

    def __init__(self, topic_now: Callable[[str], TopicDescription | None], topic_defaults: Mapping[str, str]) -> None:
        """`topic_now`: the topic of a name as it is; `topic_defaults`: settings where topics say nothing themselves."""
        self._topic_now = topic_now
        self._topic_defaults = topic_defaults
        self._known: dict[str, tuple[TopicDescription, TopicConfig]] = {}
        self._pruned_at_count = _SPARE_COUNT

    def __len__(self) -> int:
        return len(self._known)

    def of(self, topic: TopicDescription) -> TopicConfig:
        known = self._known.get(topic.name)
        if known is None or known[0] is not topic:
            if len(self._known) >= self._pruned_at_count:
                self._prune()
            known = topic, TopicConfig.from_stored({**self._topic_defaults, **topic.configs})
            self._known[topic.name] = known
        return known[1]

    def _prune(self) -> None:
        for name, (topic, _) in list(self._known.items()):
            if self._topic_now(name) is not topic:
                self._known.pop(name, None)
        self._pruned_at_count = 2 * len(self._known) + _SPARE_COUNT
