"""confluent-kafka: groups of the classic protocol whose members join and leave."""

import time

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import NewTopic
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

QUICK = {"heartbeat.interval.ms": 100, "session.timeout.ms": 6000}


class ConfluentMember:
    """A consumer that counts assigned and revoked partitions."""

    def __init__(self, broker, topic, group, **given):
        self.given, self.taken = [], []
        self.consumer = a_consumer(broker, group, **{**QUICK, **given})
        self.consumer.subscribe([topic], on_assign=self._on_assign, on_revoke=self._on_revoke)

    @property
    def numbers(self):
        return numbers_of(self.consumer)

    def _on_assign(self, _, partitions):
        self.given.append(sorted(p.partition for p in partitions))

    def _on_revoke(self, _, partitions):
        self.taken.append(sorted(p.partition for p in partitions))


def settle(*members, until):
    poll_until(lambda: until(*[member.numbers for member in members]), *[member.consumer for member in members])


def share(partition_count):
    """All partitions are assigned, each once, in shares that differ by at most one."""

    def is_settled(*shares):
        sizes = [len(numbers) for numbers in shares]
        everything = sorted(number for numbers in shares for number in numbers)
        return everything == list(range(partition_count)) and max(sizes) - min(sizes) <= 1

    return is_settled


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_members_share_the_partitions_and_the_rest_take_over_when_one_leaves(broker, strategy):
    topic, group = make_topic(broker, partition_count=4), broker.name("g")
    first, second = (ConfluentMember(broker, topic, group, partition__assignment__strategy=strategy) for _ in range(2))
    settle(first, second, until=share(4))
    second.consumer.close()
    settle(first, until=share(4))
    first.consumer.close()


def test_a_crashed_member_loses_its_partitions_when_its_session_times_out(broker):
    topic, group = make_topic(broker, partition_count=2), broker.name("g")
    with consuming_process("confluent-kafka", broker, topic, group, 900, partitions=[0, 1]) as process:
        survivor = ConfluentMember(broker, topic, group)
        settle(survivor, until=lambda numbers: len(numbers) == 1)
        process.kill()
        killed = time.monotonic()
        settle(survivor, until=lambda numbers: numbers == [0, 1])
        assert time.monotonic() - killed > 0.3, "it did not wait for the session timeout"
    survivor.consumer.close()


def test_members_without_partitions_wait_and_take_over(broker):
    topic, group = make_topic(broker, partition_count=1), broker.name("g")
    members = [ConfluentMember(broker, topic, group) for _ in range(3)]
    # At once: the first to join has the partition until the others come, and in between no member has it.
    settle(*members, until=lambda *shares: share(1)(*shares) and all(member.given for member in members))
    [busy] = [member for member in members if member.numbers == [0]]
    idle = [member for member in members if member is not busy]
    assert [member.numbers for member in idle] == [[], []]
    busy.consumer.close()
    settle(*idle, until=share(1))
    for member in idle:
        member.consumer.close()


def test_a_static_member_that_restarts_keeps_its_partitions_without_a_rebalance(broker):
    topic, group = make_topic(broker, partition_count=4), broker.name("g")
    first, second = (ConfluentMember(broker, topic, group, group__instance__id=name) for name in ("one", "two"))
    settle(first, second, until=share(4))
    before, given, taken = second.numbers, list(first.given), list(first.taken)
    second.consumer.close()
    second = ConfluentMember(broker, topic, group, group__instance__id="two")
    settle(first, second, until=lambda _, numbers: numbers == before)
    assert (first.given, first.taken) == (given, taken)
    first.consumer.close()
    second.consumer.close()


def test_a_second_static_member_with_the_same_id_fences_the_first(broker):
    topic, group = make_topic(broker, partition_count=1), broker.name("g")
    first = ConfluentMember(broker, topic, group, group__instance__id="one")
    settle(first, until=share(1))
    second = ConfluentMember(broker, topic, group, group__instance__id="one")
    settle(second, until=share(1))
    errors, deadline = [], time.monotonic() + SECONDS
    while not errors and time.monotonic() < deadline:
        message = first.consumer.poll(0.1)
        if message is not None:
            errors.append(message.error())
    # A fatal error is reported as such, with its reason.
    assert [error.code() for error in errors] == [KafkaError._FATAL]
    assert "Fatal consumer error" in errors[0].str()
    assert "fenced" in errors[0].str()
    first.consumer.close()
    second.consumer.close()


def test_cooperative_members_keep_partitions_that_do_not_move(broker):
    topic, group = make_topic(broker, partition_count=4), broker.name("g")
    first = ConfluentMember(broker, topic, group, partition__assignment__strategy="cooperative-sticky")
    settle(first, until=share(4))
    assert first.given == [[0, 1, 2, 3]]
    second = ConfluentMember(broker, topic, group, partition__assignment__strategy="cooperative-sticky")
    settle(first, second, until=share(4))
    assert [len(numbers) for numbers in first.taken if numbers] == [2]
    assert [numbers for numbers in second.given if numbers] == [second.numbers]
    kept = first.numbers
    second.consumer.close()
    settle(first, until=share(4))
    assert sorted(set(range(4)) - set(kept)) == first.given[-1]
    first.consumer.close()


def test_a_group_reads_every_record_once_while_members_join_and_leave(broker):
    topic, group = make_topic(broker, partition_count=3), broker.name("g")
    producer, written, found = a_producer(broker, enable__idempotence=True), [], []

    def write_and_read(values, *members):
        """Between rebalances only: across a rebalance a group promises at-least-once."""
        settle(*members, until=share(3))
        records = [{"value": b"%d" % n, "partition": n % 3} for n in values]
        written.extend((m.partition(), m.offset(), m.value()) for m in send(producer, topic, records))
        deadline = time.monotonic() + SECONDS
        while len(found) < len(written):
            assert time.monotonic() < deadline, f"{len(found)} of {len(written)}"
            for member in members:
                message = member.consumer.poll(0.02)
                if message is not None:
                    assert message.error() is None
                    found.append((message.partition(), message.offset(), message.value()))
                    member.consumer.commit(message, asynchronous=False)

    first, second = ConfluentMember(broker, topic, group), ConfluentMember(broker, topic, group)
    write_and_read(range(30), first, second)
    first.consumer.close()
    write_and_read(range(30, 60), second)
    third = ConfluentMember(broker, topic, group)
    write_and_read(range(60, 90), second, third)
    for member in (second, third):
        assert member.consumer.poll(0.2) is None
        member.consumer.close()
    assert sorted(found) == sorted(written)


def test_committed_offsets_are_fetched_with_their_metadata(broker):
    topic, group = make_topic(broker, partition_count=3), broker.name("g")
    send(a_producer(broker), topic, [{"value": b"%d" % n, "partition": 0} for n in range(5)])
    committer = a_consumer(broker, group)
    offsets = [TopicPartition(topic, 0, 3, metadata="half done, ünïcödé"), TopicPartition(topic, 1, 7)]
    committer.commit(offsets=offsets, asynchronous=False)
    committer.close()
    reader = a_consumer(broker, group)
    asked = [TopicPartition(topic, number) for number in range(3)]
    found = reader.committed(asked, timeout=SECONDS)
    assert [(p.offset, p.metadata) for p in found] == [(3, "half done, ünïcödé"), (7, None), (-1001, None)]
    reader.subscribe([topic])
    assert [message.value() for message in take(reader, 2)] == [b"3", b"4"]
    reader.close()


def test_metadata_that_is_too_long_is_refused(broker):
    topic = make_topic(broker)
    committer = a_consumer(broker, broker.name("g"))
    # This client appends a zero byte to the text, and the byte counts.
    with pytest.raises(KafkaException) as caught:
        committer.commit(offsets=[TopicPartition(topic, 0, 1, metadata="m" * 4096)], asynchronous=False)
    assert caught.value.args[0].code() == KafkaError.OFFSET_METADATA_TOO_LARGE
    committer.commit(offsets=[TopicPartition(topic, 0, 1, metadata="m" * 4095)], asynchronous=False)
    [found] = committer.committed([TopicPartition(topic, 0)], timeout=SECONDS)
    assert (found.offset, found.metadata) == (1, "m" * 4095)
    committer.close()


def test_a_client_that_is_not_a_member_may_not_commit_for_a_group_with_members(broker):
    topic, group = make_topic(broker), broker.name("g")
    member, stranger = ConfluentMember(broker, topic, group), a_consumer(broker, group)
    settle(member, until=share(1))
    member.consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    with pytest.raises(KafkaException) as caught:
        stranger.commit(offsets=[TopicPartition(topic, 0, 5)], asynchronous=False)
    assert caught.value.args[0].code() == KafkaError.UNKNOWN_MEMBER_ID
    assert stranger.committed([TopicPartition(topic, 0)], timeout=SECONDS)[0].offset == 1
    member.consumer.close()
    stranger.commit(offsets=[TopicPartition(topic, 0, 5)], asynchronous=False)
    assert stranger.committed([TopicPartition(topic, 0)], timeout=SECONDS)[0].offset == 5
    stranger.close()


def test_a_group_of_members_without_a_common_assignor_is_refused(broker):
    topic, group = make_topic(broker), broker.name("g")
    first = ConfluentMember(broker, topic, group, partition__assignment__strategy="range")
    settle(first, until=share(1))
    stranger = ConfluentMember(broker, topic, group, partition__assignment__strategy="roundrobin")
    error = stranger.consumer.poll(SECONDS).error()
    assert error.code() == KafkaError.INCONSISTENT_GROUP_PROTOCOL
    first.consumer.close()
    stranger.consumer.close()


def test_a_session_that_is_too_short_for_the_broker_is_refused(broker):
    topic = make_topic(broker)
    hasty = ConfluentMember(broker, topic, broker.name("g"), session__timeout__ms=400, heartbeat__interval__ms=100)
    assert hasty.consumer.poll(SECONDS).error().code() == KafkaError.INVALID_SESSION_TIMEOUT
    hasty.consumer.close()


def test_a_pattern_matches_topics_that_are_created_later(broker):
    stem = broker.name("pattern")
    admin, group = an_admin(broker), broker.name("g")
    reader = a_consumer(broker, group, **QUICK, topic__metadata__refresh__interval__ms=200)
    reader.subscribe([f"^{stem}-.*"])
    # It reports once that no topic matches yet.
    error = reader.poll(SECONDS).error()
    assert error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert stem in error.str()
    producer = a_producer(broker)
    for number in range(2):
        topic = f"{stem}-{number}"
        admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=1)])[topic].result(SECONDS)
        send(producer, topic, [b"%d" % number])
        assert [(m.topic(), m.value()) for m in take(reader, 1)] == [(topic, b"%d" % number)]
        reader.commit(asynchronous=False)
    reader.close()
