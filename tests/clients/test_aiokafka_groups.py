"""aiokafka: groups whose members join and leave."""

import asyncio
import time

import pytest
from aiokafka import ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import CommitFailedError, InconsistentGroupProtocolError, InvalidSessionTimeoutError
from aiokafka.structs import OffsetAndMetadata
from support.clients.aiokafka_clients import (
    a_consumer,
    a_stopped_consumer,
    in_a_loop,
    make_topic,
    numbers_of,
    take,
    wait_until,
    write,
)
from support.spark.consuming_process import consuming_process

ASSIGNORS = [RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor]
QUICK = {"heartbeat_interval_ms": 100, "session_timeout_ms": 6000}


class AiokafkaMember(ConsumerRebalanceListener):
    """A consumer that keeps what it reads and which partitions are assigned to it and revoked."""

    def __init__(self, broker, topic, group, **given):
        self.given, self.taken, self.values = [], [], []
        self.consumer = a_stopped_consumer(broker, group, **{**QUICK, **given})
        self.consumer.subscribe([topic], listener=self)
        self._reading = None

    @property
    def numbers(self):
        return numbers_of(self.consumer)

    def on_partitions_assigned(self, assigned):
        self.given.append(sorted(p.partition for p in assigned))

    def on_partitions_revoked(self, revoked):
        self.taken.append(sorted(p.partition for p in revoked))

    async def start(self):
        await self.consumer.start()
        self._reading = asyncio.create_task(self._read())
        return self

    async def stop(self):
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        await self.consumer.stop()

    async def _read(self):
        while True:
            for partition, records in (await self.consumer.getmany(timeout_ms=50)).items():
                await self.consumer.commit({partition: records[-1].offset + 1})
                self.values += [record.value for record in records]


def all_given_out(partition_count, members):
    """Each partition once, in shares that differ by at most one."""
    shares = [member.numbers for member in members]
    sizes = [len(numbers) for numbers in shares]
    everything = sorted(number for numbers in shares for number in numbers)
    return everything == list(range(partition_count)) and max(sizes) - min(sizes) <= 1


async def settle(partition_count, *members):
    await wait_until(lambda: all_given_out(partition_count, members))


@pytest.mark.parametrize("assignor", ASSIGNORS, ids=lambda assignor: assignor.name)
@in_a_loop
async def test_members_share_the_partitions_and_the_rest_take_over_when_one_leaves(broker, assignor):
    topic, group = await make_topic(broker, partition_count=4), broker.name("g")
    given = {"partition_assignment_strategy": (assignor,)}
    first, second = [await AiokafkaMember(broker, topic, group, **given).start() for _ in range(2)]
    await settle(4, first, second)
    await second.stop()
    await settle(4, first)
    await first.stop()


@in_a_loop
async def test_a_crashed_member_loses_its_partitions_when_its_session_times_out(broker):
    topic, group = await make_topic(broker, partition_count=2), broker.name("g")
    with consuming_process("aiokafka", broker, topic, group, 900, partitions=[0, 1]) as process:
        survivor = await AiokafkaMember(broker, topic, group).start()
        await wait_until(lambda: len(survivor.numbers) == 1)
        process.kill()
        killed = time.monotonic()
        await settle(2, survivor)
        assert time.monotonic() - killed > 0.3, "it did not wait for the session timeout"
    await survivor.stop()


@in_a_loop
async def test_members_without_partitions_wait_and_take_over(broker):
    topic, group = await make_topic(broker), broker.name("g")
    members = [await AiokafkaMember(broker, topic, group).start() for _ in range(3)]
    await wait_until(lambda: all_given_out(1, members) and all(member.given for member in members))
    [busy] = [member for member in members if member.numbers == [0]]
    idle = [member for member in members if member is not busy]
    await busy.stop()
    await settle(1, *idle)
    for member in idle:
        await member.stop()


@in_a_loop
async def test_a_static_member_that_restarts_keeps_its_partitions_without_a_rebalance(broker):
    topic, group = await make_topic(broker, partition_count=4), broker.name("g")
    first, second = [
        await AiokafkaMember(broker, topic, group, group_instance_id=name).start() for name in ("one", "two")
    ]
    await settle(4, first, second)
    await wait_until(lambda: all(member.given[-1:] == [member.numbers] for member in (first, second)))
    before, given, taken = second.numbers, list(first.given), list(first.taken)
    await second.stop()
    second = await AiokafkaMember(broker, topic, group, group_instance_id="two").start()
    await wait_until(lambda: second.numbers == before)
    await asyncio.sleep(0.5)  # some heartbeats
    assert (first.given, first.taken) == (given, taken)
    for member in (first, second):
        await member.stop()


@in_a_loop
async def test_a_group_reads_every_record_once_while_members_join_and_leave(broker):
    topic, group = await make_topic(broker, partition_count=3), broker.name("g")
    sent = [b"%d" % n for n in range(90)]

    async def write_and_wait(part, *members):
        before = sum(len(member.values) for member in members)
        await write(broker, topic, [{"value": value, "partition": int(value) % 3} for value in part])
        await wait_until(lambda: sum(len(member.values) for member in members) >= before + len(part))

    first, second = [await AiokafkaMember(broker, topic, group).start() for _ in range(2)]
    await settle(3, first, second)
    await write_and_wait(sent[:30], first, second)
    await first.stop()
    await settle(3, second)
    await write_and_wait(sent[30:60], second)
    third = await AiokafkaMember(broker, topic, group).start()
    await settle(3, second, third)
    await write_and_wait(sent[60:], second, third)
    for member in (second, third):
        await member.stop()
    # Between rebalances only: across a rebalance a group promises at-least-once.
    assert sorted(first.values + second.values + third.values, key=int) == sent


@in_a_loop
async def test_committed_offsets_are_fetched_and_the_next_member_starts_there(broker):
    topic, group = await make_topic(broker, partition_count=3), broker.name("g")
    await write(broker, topic, [{"value": b"%d" % n, "partition": 0} for n in range(5)])
    zero, one, two = (TopicPartition(topic, number) for number in range(3))
    async with a_consumer(broker, group) as committer:
        committer.assign([zero, one, two])
        await committer.commit({zero: OffsetAndMetadata(3, "half done, ünïcödé"), one: 7})
    async with a_consumer(broker, group) as reader:
        reader.subscribe([topic])
        assert [record.value for record in await take(reader, 2)] == [b"3", b"4"]
        assert [await reader.committed(partition) for partition in (zero, one, two)] == [3, 7, None]


@in_a_loop
async def test_a_client_that_is_not_a_member_may_not_commit_for_a_group_with_members(broker):
    topic, group = await make_topic(broker), broker.name("g")
    partition = TopicPartition(topic, 0)
    member = await AiokafkaMember(broker, topic, group).start()
    await settle(1, member)
    async with a_consumer(broker, group) as stranger:
        stranger.assign([partition])
        with pytest.raises(CommitFailedError):
            await stranger.commit({partition: 5})
        assert await stranger.committed(partition) is None
        await member.stop()
        await stranger.commit({partition: 5})
        assert await stranger.committed(partition) == 5


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"partition_assignment_strategy": (RoundRobinPartitionAssignor,)}, InconsistentGroupProtocolError),
        ({"session_timeout_ms": 400}, InvalidSessionTimeoutError),
    ],
)
@in_a_loop
async def test_an_inconsistent_member_is_refused(broker, given, error):
    topic, group = await make_topic(broker), broker.name("g")
    first = await AiokafkaMember(broker, topic, group, partition_assignment_strategy=(RangePartitionAssignor,)).start()
    await settle(1, first)
    async with a_consumer(broker, group, **{**QUICK, **given}) as stranger:
        stranger.subscribe([topic])
        with pytest.raises(error):
            await stranger.getmany(timeout_ms=10_000)
    await first.stop()
