"""Which partitions a query reads: named topics, topics by a pattern, or named partitions."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from broker_core.cluster import TopicDescription
from broker_core.model.identifiers import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribeTopics:
    """All partitions of these topics, also those that are added later."""

    topics: frozenset[str]

    option = "subscribe"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribePattern:
    """All partitions of the topics in whose name the regular expression is found anywhere; internal topics never."""

    pattern: str

    option = "subscribePattern"


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignPartitions:
    """These partitions and no others."""

    partitions: frozenset[TopicPartition]

    option = "assign"


Subscription = SubscribeTopics | SubscribePattern | AssignPartitions


def subscription_text(subscription: Subscription) -> str:
    """`subscribe=a,b`: the same subscription has the same text in every process."""
    match subscription:
        case SubscribeTopics(topics=topics):
            names = sorted(topics)
        case AssignPartitions(partitions=partitions):
            names = [str(tp) for tp in sorted(partitions)]
        case SubscribePattern(pattern=pattern):
            names = [pattern]
    return f"{subscription.option}={','.join(names)}"


def topics_to_describe(subscription: Subscription) -> Collection[str] | None:
    """The names to request from the log; None if the pattern needs all of them."""
    match subscription:
        case SubscribeTopics(topics=topics):
            return topics
        case AssignPartitions(partitions=partitions):
            return {tp.topic for tp in partitions}
        case SubscribePattern():
            return None


def assigned_partitions(
    subscription: Subscription, topics: Mapping[str, TopicDescription]
) -> frozenset[TopicPartition]:
    """The partitions to read of the existing topics."""
    match subscription:
        case SubscribeTopics(topics=names):
            return frozenset(_all_partitions(topics[name] for name in names if name in topics))
        case SubscribePattern(pattern=pattern):
            found = re.compile(pattern)
            return frozenset(_all_partitions(t for t in topics.values() if not t.is_internal and found.search(t.name)))
        case AssignPartitions(partitions=partitions):
            return partitions & frozenset(_all_partitions(topics.values()))


def missing_names(subscription: Subscription, topics: Mapping[str, TopicDescription]) -> list[str]:
    """The named topics and partitions that do not exist, sorted; a pattern names none."""
    match subscription:
        case SubscribeTopics(topics=names):
            return sorted(name for name in names if name not in topics)
        case AssignPartitions(partitions=partitions):
            return [str(tp) for tp in sorted(partitions - assigned_partitions(subscription, topics))]
        case SubscribePattern():
            return []


def _all_partitions(topics: Iterable[TopicDescription]) -> Iterable[TopicPartition]:
    return (partition for topic in topics for partition in topic.partitions())
