"""kafka-python: groups whose members join and leave."""

import threading
import time

import pytest
from kafka import OffsetAndMetadata, TopicPartition
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.errors import (
    CommitFailedError,
    FencedInstanceIdError,
    InconsistentGroupProtocolError,
    InvalidSessionTimeoutError,
    OffsetMetadataTooLargeError,
    RebalanceInProgressError,
)
from support.clients.kafka_python_clients import (
    SECONDS,
    a_consumer,
    an_open_consumer,
    make_topic,
    numbers_of,
    subscribe,
    take,
    write,
)
from support.spark.consuming_process import consuming_process

ASSIGNORS = [
    RangePartitionAssignor,
    pytest.param(RoundRobinPartitionAssignor, marks=pytest.mark.long),
    pytest.param(CooperativeStickyAssignor, marks=pytest.mark.long),
]
QUICK = {"heartbeat_interval_ms": 100, "session_timeout_ms": 6000}


class KafkaPythonMember(ConsumerRebalanceListener):
    """A consumer in a thread of its own, because a poll of this client waits for the other members. It keeps what it
    reads and which partitions are assigned to it and revoked."""

    def __init__(self, broker, topic, group, **given):
        self.given, self.taken, self.values, self.error = [], [], [], None
        self.consumer = an_open_consumer(broker, group, **{**QUICK, **given})
        subscribe(self.consumer, topic, self)
        self._may_end = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    @property
    def numbers(self):
        return numbers_of(self.consumer)

    def on_partitions_assigned(self, assigned):
        self.given.append(sorted(p.partition for p in assigned))

    def on_partitions_revoked(self, revoked):
        self.taken.append(sorted(p.partition for p in revoked))

    def stop(self):
        """Ends the polling; from then on the test may call the consumer."""
        self._may_end.set()
        self._thread.join()

    def close(self):
        self.stop()
        self.consumer.close(autocommit=False)

    def _poll(self):
        try:
            while not self._may_end.is_set():
                for records in self.consumer.poll(300).values():
                    self.values += [record.value for record in records]
                    self.consumer.commit()
        except Exception as error:  # the test checks it
            self.error = error


def wait_until(condition):
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within {SECONDS} s"
        time.sleep(0.02)


def settle(*members, until):
    wait_until(lambda: until(*[member.numbers for member in members]))
    assert [member.error for member in members] == [None] * len(members)


def share(partition_count):
    """All partitions are assigned, each once, in shares that differ by at most one."""

    def is_settled(*shares):
        sizes = [len(numbers) for numbers in shares]
        everything = sorted(number for numbers in shares for number in numbers)
        return everything == list(range(partition_count)) and max(sizes) - min(sizes) <= 1

    return is_settled


@pytest.mark.parametrize("assignor", ASSIGNORS, ids=["range", "roundrobin", "cooperative-sticky"])
def test_members_share_the_partitions_and_the_rest_take_over_when_one_leaves(broker, assignor):
    topic, group = make_topic(broker, partition_count=4), broker.name("g")
    given = {"partition_assignment_strategy": (assignor,)}
    first, second = KafkaPythonMember(broker, topic, group, **given), KafkaPythonMember(broker, topic, group, **given)
    settle(first, second, until=share(4))
    second.close()
    settle(first, until=share(4))
    first.close()


def test_a_crashed_member_loses_its_partitions_when_its_session_times_out(broker):
    topic, group = make_topic(broker, partition_count=2), broker.name("g")
    with consuming_process("kafka-python", broker, topic, group, 900, partitions=[0, 1]) as process:
        survivor = KafkaPythonMember(broker, topic, group)
        settle(survivor, until=lambda numbers: len(numbers) == 1)
        process.kill()
        killed = time.monotonic()
        settle(survivor, until=lambda numbers: numbers == [0, 1])
        assert time.monotonic() - killed > 0.3, "it did not wait for the session timeout"
    survivor.close()


def test_members_without_partitions_wait_and_take_over(broker):
    topic, group = make_topic(broker), broker.name("g")
    members = [KafkaPythonMember(broker, topic, group) for _ in range(3)]
    settle(*members, until=lambda *shares: share(1)(*shares) and all(member.given for member in members))
    [busy] = [member for member in members if member.numbers == [0]]
    idle = [member for member in members if member is not busy]
    busy.close()
    settle(*idle, until=share(1))
    for member in idle:
        member.close()


def test_a_static_member_that_restarts_keeps_its_partitions_without_a_rebalance(broker):
    topic, group = make_topic(broker, partition_count=4), broker.name("g")
    first, second = (KafkaPythonMember(broker, topic, group, group_instance_id=name) for name in ("one", "two"))
    settle(first, second, until=share(4))
    wait_until(lambda: all(member.given[-1:] == [member.numbers] for member in (first, second)))
    before, given, taken = second.numbers, list(first.given), list(first.taken)
    second.close()
    second = KafkaPythonMember(broker, topic, group, group_instance_id="two")
    settle(second, until=lambda numbers: numbers == before)
    time.sleep(0.5)  # some heartbeats
    assert (first.given, first.taken) == (given, taken)
    first.close()
    second.close()


def test_a_second_static_member_with_the_same_id_fences_the_first(broker):
    topic, group = make_topic(broker), broker.name("g")
    first = KafkaPythonMember(broker, topic, group, group_instance_id="one")
    settle(first, until=share(1))
    second = KafkaPythonMember(broker, topic, group, group_instance_id="one")
    settle(second, until=share(1))
    first.stop()
    second.stop()
    partition = TopicPartition(topic, 0)
    second.consumer.commit({partition: OffsetAndMetadata(2, "", -1)})
    # It learned of this in a heartbeat, without an error to the caller, or learns of it now.
    with pytest.raises((FencedInstanceIdError, RebalanceInProgressError)):
        first.consumer.commit({partition: OffsetAndMetadata(1, "", -1)})
    assert second.consumer.committed(partition) == 2
    for member in (first, second):
        member.close()


def test_cooperative_members_keep_partitions_that_do_not_move(broker):
    topic, group = make_topic(broker, partition_count=4), broker.name("g")
    given = {"partition_assignment_strategy": (CooperativeStickyAssignor,)}
    first = KafkaPythonMember(broker, topic, group, **given)
    settle(first, until=share(4))
    second = KafkaPythonMember(broker, topic, group, **given)
    settle(first, second, until=share(4))
    assert [len(numbers) for numbers in first.taken if numbers] == [2]
    assert [numbers for numbers in second.given if numbers] == [second.numbers]
    first.close()
    second.close()


def test_a_group_reads_every_record_once_while_members_join_and_leave(broker):
    topic, group = make_topic(broker, partition_count=3), broker.name("g")
    sent = [b"%d" % n for n in range(90)]

    def write_and_wait(part, *members):
        before = sum(len(member.values) for member in members)
        write(broker, topic, [{"value": value, "partition": int(value) % 3} for value in part])
        wait_until(lambda: sum(len(member.values) for member in members) >= before + len(part))

    first, second = KafkaPythonMember(broker, topic, group), KafkaPythonMember(broker, topic, group)
    settle(first, second, until=share(3))
    write_and_wait(sent[:30], first, second)
    first.close()
    settle(second, until=share(3))
    write_and_wait(sent[30:60], second)
    third = KafkaPythonMember(broker, topic, group)
    settle(second, third, until=share(3))
    write_and_wait(sent[60:], second, third)
    for member in (second, third):
        member.close()
    # Between rebalances only: across a rebalance a group promises at-least-once.
    assert sorted(first.values + second.values + third.values, key=int) == sent


def test_committed_offsets_are_fetched_with_their_metadata(broker):
    topic, group = make_topic(broker, partition_count=3), broker.name("g")
    write(broker, topic, [{"value": b"%d" % n, "partition": 0} for n in range(5)])
    zero, one, two = (TopicPartition(topic, number) for number in range(3))
    offsets = {zero: OffsetAndMetadata(3, "half done, ünïcödé", -1), one: OffsetAndMetadata(7, "", -1)}
    with a_consumer(broker, group) as committer:
        committer.commit(offsets)
    with a_consumer(broker, group) as reader:
        found = [reader.committed(partition, metadata=True) for partition in (zero, one, two)]
        assert found == [OffsetAndMetadata(3, "half done, ünïcödé", -1), OffsetAndMetadata(7, "", -1), None]
        subscribe(reader, topic)
        assert [record.value for record in take(reader, 2)] == [b"3", b"4"]


def test_metadata_is_measured_as_java_measures_a_string(broker):
    partition = TopicPartition(make_topic(broker), 0)
    with a_consumer(broker, broker.name("g")) as committer:
        for character, longest in (("m", 4096), ("é", 4096), ("𝄞", 2048)):
            with pytest.raises(OffsetMetadataTooLargeError):
                committer.commit({partition: OffsetAndMetadata(1, character * (longest + 1), -1)})
            committer.commit({partition: OffsetAndMetadata(2, character * longest, -1)})
            assert committer.committed(partition, metadata=True).metadata == character * longest


def test_a_client_that_is_not_a_member_may_not_commit_for_a_group_with_members(broker):
    topic, group = make_topic(broker), broker.name("g")
    partition = TopicPartition(topic, 0)
    member = KafkaPythonMember(broker, topic, group)
    settle(member, until=share(1))
    with a_consumer(broker, group) as stranger:
        with pytest.raises(CommitFailedError):
            stranger.commit({partition: OffsetAndMetadata(5, "", -1)})
        assert stranger.committed(partition) is None
        member.close()
        stranger.commit({partition: OffsetAndMetadata(5, "", -1)})
        assert stranger.committed(partition) == 5


def test_a_group_of_members_without_a_common_assignor_is_refused(broker):
    topic, group = make_topic(broker), broker.name("g")
    first = KafkaPythonMember(broker, topic, group, partition_assignment_strategy=(RangePartitionAssignor,))
    settle(first, until=share(1))
    stranger = KafkaPythonMember(broker, topic, group, partition_assignment_strategy=(RoundRobinPartitionAssignor,))
    wait_until(lambda: stranger.error is not None)
    assert isinstance(stranger.error, InconsistentGroupProtocolError)
    first.close()
    stranger.close()


def test_a_session_that_is_too_short_for_the_broker_is_refused(broker):
    hasty = KafkaPythonMember(broker, make_topic(broker), broker.name("g"), session_timeout_ms=400)
    wait_until(lambda: hasty.error is not None)
    assert isinstance(hasty.error, InvalidSessionTimeoutError)
    hasty.close()
