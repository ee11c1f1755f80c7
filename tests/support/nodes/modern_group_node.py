"""A `GroupNode` whose coordinator serves the groups of KIP-848 too."""

from __future__ import annotations

from support.nodes.group_node import GroupNode, ListRuntime, one_coordinator

from broker_core.group.consumer.consumer_groups import ConsumerGroups
from broker_core.group.consumer.consumer_settings import ConsumerGroupSettings
from broker_core.group.group_coordinator import GroupCoordinator
from broker_core.group.group_settings import GroupSettings
from broker_core.group.topic_view import TopicFacts, TopicView


class ModernGroupNode(GroupNode):
    def __init__(self, path, *, has_authorizer=False, topics=()):
        super().__init__(path, has_authorizer=has_authorizer)
        self.facts = {}
        self.view = TopicView(lambda: self.facts)
        self._ids = iter(f"id{number}" for number in range(1_000))
        self.runtime = ListRuntime(self._coordinator)
        self.groups = one_coordinator(self)
        for name in topics:
            self.make_topic(name)

    def make_topic(self, name, *, partition_count=2):
        made = super().make_topic(name, partition_count=partition_count)
        self.facts[name] = TopicFacts(made.topic_id, partition_count)
        self.view.refresh()
        self.groups.topics_changed()
        return made

    def _coordinator(self):
        coordinator = GroupCoordinator(GroupSettings(), new_id=lambda: next(self._ids))
        coordinator.consumer_groups = ConsumerGroups(
            ConsumerGroupSettings(assignment_interval_ms=0),
            topics=self.view,
            classic_groups=coordinator.classic_groups,
            new_id=lambda: next(self._ids),
        )
        return coordinator
