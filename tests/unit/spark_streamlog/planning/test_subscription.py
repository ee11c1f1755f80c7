from uuid import uuid4

import pytest

from broker_core.cluster import TopicDescription
from broker_core.model.identifiers import TopicPartition
from spark_streamlog.planning.subscription import (
    AssignPartitions,
    SubscribePattern,
    SubscribeTopics,
    assigned_partitions,
    missing_names,
    topics_to_describe,
)


def topics(**counts):
    return {
        name: TopicDescription(name=name, topic_id=uuid4(), partition_count=count, is_internal=name.startswith("__"))
        for name, count in counts.items()
    }


THERE = topics(events=2, Events=1, other_events=1, __events=1)


def names(partitions):
    return sorted(str(tp) for tp in partitions)


def test_all_partitions_of_named_topics_are_read_and_names_keep_their_case():
    assert names(assigned_partitions(SubscribeTopics(topics=frozenset({"events"})), THERE)) == ["events-0", "events-1"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("events", ["events-0", "events-1", "other_events-0"]),
        ("^events", ["events-0", "events-1"]),
        ("(?i)^events$", ["Events-0", "events-0", "events-1"]),
        ("nothing", []),
    ],
)
def test_a_pattern_is_unanchored_and_never_matches_internal_topics(pattern, expected):
    assert names(assigned_partitions(SubscribePattern(pattern=pattern), THERE)) == expected


def test_an_internal_topic_can_be_subscribed_by_name():
    assert names(assigned_partitions(SubscribeTopics(topics=frozenset({"__events"})), THERE)) == ["__events-0"]


def test_only_assigned_partitions_are_read():
    assign = AssignPartitions(partitions=frozenset({TopicPartition("events", 1), TopicPartition("Events", 0)}))
    assert names(assigned_partitions(assign, THERE)) == ["Events-0", "events-1"]


def test_missing_topics_and_partitions_are_named():
    assert missing_names(SubscribeTopics(topics=frozenset({"events", "nope"})), THERE) == ["nope"]
    assign = AssignPartitions(partitions=frozenset({TopicPartition("events", 2), TopicPartition("nope", 0)}))
    assert missing_names(assign, THERE) == ["events-2", "nope-0"]
    assert missing_names(SubscribePattern(pattern="nope"), THERE) == []


def test_a_pattern_describes_all_topics_and_other_subscriptions_only_theirs():
    assert topics_to_describe(SubscribePattern(pattern="x")) is None
    assert set(topics_to_describe(SubscribeTopics(topics=frozenset({"a"})))) == {"a"}
    assert set(topics_to_describe(AssignPartitions(partitions=frozenset({TopicPartition("a", 3)})))) == {"a"}
