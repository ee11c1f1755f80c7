"""confluent-kafka: groups of the new protocol (KIP-848), where the broker assigns partitions."""

import time

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupType, KafkaError, TopicPartition
from confluent_kafka.admin import NewPartitions, NewTopic
from support.clients.confluent_clients import (
    SECONDS,
    a_consumer,
    a_producer,
    an_admin,
    make_topic,
    numbers_of,
    poll_until,
    send,
    take,
)
from support.spark.consuming_process import consuming_process

NEW = {"group.protocol": "consumer"}
CLASSIC = {"heartbeat.interval.ms": 100, "session.timeout.ms": 6000, "partition.assignment.strategy": "range"}


def a_member(broker, group, *topics, **given):
    consumer = a_consumer(broker, group, **{**NEW, **given})
    consumer.subscribe(list(topics))
    return consumer


def wait_for(shares, *members):
    """Polls until the members have these partition counts, in any order, and no partition twice."""

    def holds():
        found = [{(p.topic, p.partition) for p in member.assignment()} for member in members]
        return sorted(map(len, found)) == sorted(shares) and len(set().union(*found)) == sum(shares)

    poll_until(holds, *members)


@pytest.mark.parametrize("assignor", [pytest.param("range", marks=pytest.mark.long), "uniform"])
def test_members_share_the_partitions_and_the_rest_take_over_when_one_leaves(broker, assignor):
    topic, group = make_topic(broker, partition_count=4), broker.name("g")
    first = a_member(broker, group, topic, group__remote__assignor=assignor)
    wait_for([4], first)
    second = a_member(broker, group, topic, group__remote__assignor=assignor)
    wait_for([2, 2], first, second)
    described = an_admin(broker)
    found = described.describe_consumer_groups([group])[group].result(SECONDS)
    assert (found.type, found.state) == (ConsumerGroupType.CONSUMER, ConsumerGroupState.STABLE)
    assert found.partition_assignor == assignor
    assert sorted(
        sorted(p.partition for p in member.assignment.topic_partitions) for member in found.members
    ) == sorted([numbers_of(first), numbers_of(second)])
    second.close()
    wait_for([4], first)
    first.close()


def test_the_range_assignor_assigns_the_same_partition_numbers_of_all_topics_to_one_member(broker):
    topics, group = [make_topic(broker, partition_count=4) for _ in range(2)], broker.name("g")
    members = [a_member(broker, group, *topics, group__remote__assignor="range") for _ in range(2)]
    wait_for([4, 4], *members)
    for member in members:
        by_topic = [sorted(p.partition for p in member.assignment() if p.topic == topic) for topic in topics]
        assert by_topic[0] == by_topic[1]
        assert by_topic[0] in ([0, 1], [2, 3])
        member.close()


def test_an_unknown_assignor_is_refused(broker):
    topic = make_topic(broker)
    member = a_member(broker, broker.name("g"), topic, group__remote__assignor="fastest")
    error = member.poll(SECONDS).error()
    assert error.code() in (KafkaError.UNSUPPORTED_ASSIGNOR, KafkaError._FATAL)
    assert "assignor" in error.str().lower()
    member.close()


def test_a_crashed_member_loses_its_partitions_when_its_session_times_out(broker):
    topic, group = make_topic(broker, partition_count=2), broker.name("g")
    where = consuming_process("confluent-kafka", broker, topic, group, 0, protocol="consumer", partitions=[0, 1])
    with where as process:
        survivor = a_member(broker, group, topic)
        wait_for([1], survivor)
        process.kill()
        killed = time.monotonic()
        wait_for([2], survivor)
        assert time.monotonic() - killed > 0.5, "it did not wait for the session timeout"
    survivor.close()


@pytest.mark.long
def test_members_without_partitions_wait_and_take_over(broker):
    topic, group = make_topic(broker), broker.name("g")
    members = [a_member(broker, group, topic) for _ in range(3)]
    wait_for([0, 0, 1], *members)
    [busy] = [member for member in members if member.assignment()]
    idle = [member for member in members if member is not busy]
    busy.close()
    wait_for([0, 1], *idle)
    for member in idle:
        member.close()


def test_a_static_member_that_restarts_gets_its_partitions_back(broker):
    topic, group = make_topic(broker, partition_count=4), broker.name("g")
    first, second = (a_member(broker, group, topic, group__instance__id=name) for name in ("one", "two"))
    wait_for([2, 2], first, second)
    held = numbers_of(second), numbers_of(first)
    second.close()
    second = a_member(broker, group, topic, group__instance__id="two")
    poll_until(lambda: numbers_of(second) == held[0], first, second)
    assert numbers_of(first) == held[1]
    first.close()
    second.close()


def test_the_next_member_starts_at_the_committed_offsets(broker):
    topic, group = make_topic(broker), broker.name("g")
    send(a_producer(broker), topic, [b"%d" % n for n in range(5)])
    member = a_member(broker, group, topic)
    assert [message.value() for message in take(member, 3)] == [b"0", b"1", b"2"]
    member.commit(offsets=[TopicPartition(topic, 0, 3, metadata="here")], asynchronous=False)
    member.close()
    successor = a_member(broker, group, topic)
    assert [message.value() for message in take(successor, 2)] == [b"3", b"4"]
    [found] = successor.committed([TopicPartition(topic, 0)], timeout=SECONDS)
    assert (found.offset, found.metadata) == (3, "here")
    successor.close()


def test_new_partitions_and_new_topics_are_assigned(broker):
    topic, group, admin = make_topic(broker), broker.name("g"), an_admin(broker)
    later = broker.name()
    member = a_member(broker, group, topic, later)
    wait_for([1], member)
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(SECONDS)
    wait_for([3], member)
    admin.create_topics([NewTopic(later, num_partitions=2, replication_factor=1)])[later].result(SECONDS)
    wait_for([5], member)
    member.close()


@pytest.mark.long
def test_the_broker_matches_a_pattern(broker):
    stem, group, admin = broker.name("pattern"), broker.name("g"), an_admin(broker)
    new = [NewTopic(f"{stem}-{number}", num_partitions=1, replication_factor=1) for number in range(2)]
    for created in admin.create_topics(new).values():
        created.result(SECONDS)
    # Kafka's coordinator learns of topics a little later and matches a pattern again only after ten seconds.
    time.sleep(0.3)
    member = a_member(broker, group, f"^{stem}-[01]$")
    wait_for([2], member)
    assert sorted(p.topic for p in member.assignment()) == [f"{stem}-0", f"{stem}-1"]
    for number in range(2):
        send(a_producer(broker), f"{stem}-{number}", [b"%d" % number])
    assert sorted(message.value() for message in take(member, 2)) == [b"0", b"1"]
    member.close()


def test_a_group_moves_from_the_classic_protocol_to_the_new_one_and_back(broker):
    topic, group, admin = make_topic(broker, partition_count=4), broker.name("g"), an_admin(broker)

    def type_of_group():
        return admin.describe_consumer_groups([group])[group].result(SECONDS).type

    old = a_consumer(broker, group, **CLASSIC)
    old.subscribe([topic])
    wait_for([4], old)
    assert type_of_group() == ConsumerGroupType.CLASSIC
    new = a_member(broker, group, topic)
    wait_for([2, 2], old, new)
    assert type_of_group() == ConsumerGroupType.CONSUMER
    old.commit(offsets=[TopicPartition(topic, numbers_of(old)[0], 3)], asynchronous=False)
    new.close()
    wait_for([4], old)
    assert type_of_group() == ConsumerGroupType.CLASSIC
    old.close()
