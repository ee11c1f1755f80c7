"""A group coordinator with its groups of KIP-848, run by hand: a clock, topics, timers, and a log replayed twice.

After each event the records are replayed into the coordinator, and into a second one that sees nothing but the log:
both must hold the same. No two members may ever have a partition at once.
"""

from __future__ import annotations

import itertools
from uuid import UUID, uuid5

from broker_core.group.classic.classic_groups import ClassicGroups
from broker_core.group.consumer.consumer_effects import ConsumerHeartbeatRequest
from broker_core.group.consumer.consumer_groups import ConsumerGroups
from broker_core.group.consumer.consumer_settings import ConsumerGroupSettings
from broker_core.group.coordinator_records import decode_coordinator_record, encode_coordinator_record
from broker_core.group.group_coordinator import GroupCoordinator
from broker_core.group.group_settings import GroupSettings
from broker_core.group.topic_view import TopicFacts, TopicView

_NAMESPACE = UUID("6f6b9a7e-2f41-4a4c-9d5b-0d4a3b1f5c11")
START_MS = 1_700_000_000_000


class ConsumerGroupRunner:
    def __init__(self, settings=None, classic_settings=None):
        self.settings = settings or ConsumerGroupSettings(assignment_interval_ms=0)
        self.classic_settings = classic_settings or GroupSettings(initial_rebalance_delay_ms=0)
        self.now_ms = START_MS
        self.topics: dict[str, TopicFacts] = {}
        self.view = TopicView(lambda: self.topics)
        self.log = []
        self.answers = {}
        self._timers: dict[str, int] = {}
        self._tickets = itertools.count(1)
        self._ids = itertools.count(1)
        self.coordinator = self._new()
        self.groups = self.coordinator.consumer_groups

    # -- topics and time --

    def create(self, topic, count):
        self.topics[topic] = TopicFacts(uuid5(_NAMESPACE, f"{topic}{next(self._ids)}"), count)
        self._learn_topics()

    def grow(self, topic, count):
        self.topics[topic] = self.topics[topic]._replace(partition_count=count)
        self._learn_topics()

    def delete(self, topic):
        del self.topics[topic]
        self._learn_topics()

    def wait(self, ms):
        """Timers fire at their times on the way."""
        until = self.now_ms + ms
        while self._timers and min(self._timers.values()) <= until:
            key = min(self._timers, key=lambda name: (self._timers[name], name))
            self.now_ms = max(self.now_ms, self._timers.pop(key))
            self._carry_out(self.coordinator.on_timer(key, self.now_ms))
        self.now_ms = until

    # -- requests --

    def heartbeat(self, group_id, member_id, epoch, *, topics=None, owned=None, **fields):
        """`owned` by topic name; the reply."""
        request = ConsumerHeartbeatRequest(
            group_id=group_id,
            member_id=member_id,
            member_epoch=epoch,
            topic_names=None if topics is None else frozenset(topics),
            owned=None if owned is None else self.by_id(owned),
            client_id=fields.pop("client_id", "client"),
            client_host="/127.0.0.1",
            **fields,
        )
        return self.ask(self.groups.on_consumer_heartbeat, request)

    def join(self, group_id, member_id, *topics, **fields):
        fields = {"rebalance_timeout_ms": 60_000, "owned": {}, **fields}
        return self.heartbeat(group_id, member_id, 0, topics=topics, **fields)

    def ask(self, event, request):
        """Any event of the coordinator; None while its request is parked."""
        ticket = self.send(event, request)
        return self.answers.get(ticket)

    def send(self, event, request):
        ticket = next(self._tickets)
        self._carry_out(event(ticket, request, self.now_ms))
        self.wait(0)
        return ticket

    # -- looking --

    def group(self, group_id):
        return self.groups._groups[group_id]

    def by_id(self, partitions):
        return {self.topics[topic].topic_id: frozenset(numbers) for topic, numbers in partitions.items()}

    def by_name(self, partitions):
        names = {facts.topic_id: name for name, facts in self.topics.items()}
        return {names[topic_id]: sorted(numbers) for topic_id, numbers in partitions.items() if topic_id in names}

    def held(self, group_id):
        """Which member has which partitions, those that it is to give up included."""
        return {
            member_id: {
                name: sorted(
                    self.by_name(member.assigned).get(name, []) + self.by_name(member.pending_revocation).get(name, [])
                )
                for name in {**self.by_name(member.assigned), **self.by_name(member.pending_revocation)}
            }
            for member_id, member in self.group(group_id).members.items()
        }

    def restart(self):
        """What is not in the log is gone."""
        self.coordinator = self._replayed()
        self.groups = self.coordinator.consumer_groups
        self._timers.clear()
        self._carry_out(self.coordinator.on_loaded(self.now_ms))

    # -- within --

    def _learn_topics(self):
        self.view.refresh()
        self._carry_out(self.groups.on_topics_changed(self.now_ms))

    def _new(self):
        coordinator = GroupCoordinator(self.classic_settings, new_id=lambda: f"id-{next(self._ids)}")
        assert isinstance(coordinator.classic_groups, ClassicGroups)
        coordinator.consumer_groups = ConsumerGroups(
            self.settings,
            topics=self.view,
            classic_groups=coordinator.classic_groups,
            new_id=lambda: f"id-{next(self._ids)}",
        )
        return coordinator

    def _replayed(self):
        coordinator = self._new()
        for offset, record in enumerate(self.log):
            coordinator.replay(record, record_offset=offset)
        return coordinator

    def _carry_out(self, result):
        for record in result.records:
            stored = encode_coordinator_record(record, timestamp_ms=self.now_ms)
            record = decode_coordinator_record(stored.key, stored.value)
            self.coordinator.replay(record, record_offset=len(self.log))
            self.log.append(record)
        for answer in result.reply.answers:
            assert answer.ticket not in self.answers, f"ticket {answer.ticket} was answered twice"
            self.answers[answer.ticket] = answer.reply
        for timer in result.reply.timers:
            self._timers.pop(timer.key, None)
            if timer.at_ms is not None:
                self._timers[timer.key] = timer.at_ms
        if result.records:
            self._check()

    def _check(self):
        twin = self._replayed().consumer_groups
        assert stored_state(twin) == stored_state(self.groups)
        for group in self.groups._groups.values():
            held = [
                (topic, partition)
                for member in group.members.values()
                for partitions in (member.assigned, member.pending_revocation)
                for topic, numbers in partitions.items()
                for partition in numbers
            ]
            assert len(held) == len(set(held)), f"a partition of {group.group_id} has two owners"
            assert set(held) == group._owners.keys()


def stored_state(groups):
    """What the log says of the groups."""
    return {
        name: (
            group.epoch, group.metadata_hash, group.target, group.members, group.targets, group.regexes,
            group.has_stored_topics, group._static_members, group._owners,
        )
        for name, group in groups._groups.items()
    }  # fmt: skip
