"""aiokafka: the calls of its admin client."""

import asyncio
import time

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    InvalidPartitionsError,
    InvalidTopicError,
    OffsetOutOfRangeError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from support.clients.aiokafka_clients import (
    SECONDS,
    a_consumer,
    an_admin,
    in_a_loop,
    make_topic,
    numbers_of,
    read_all,
    values_of,
    wait_until,
    write,
)


def codes_of(response):
    return [code for _, code, *_ in response.topic_errors]


async def config_of(admin, topic):
    [response] = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    [(code, _, kind, name, entries)] = response.resources
    assert (code, kind, name) == (0, ConfigResourceType.TOPIC, topic)
    return {name: value for name, value, *_ in entries}


@in_a_loop
async def test_topics_are_created_described_and_deleted(broker):
    names = [broker.name() for _ in range(2)]
    async with an_admin(broker) as admin:
        new = [NewTopic(name, num_partitions=3, replication_factor=1) for name in names]
        assert codes_of(await admin.create_topics(new)) == [0, 0]
        assert codes_of(await admin.create_topics(new[:1])) == [TopicAlreadyExistsError.errno]
        found = {topic["topic"]: topic for topic in await admin.describe_topics(names)}
        assert [sorted(p["partition"] for p in found[name]["partitions"]) for name in names] == [[0, 1, 2]] * 2
        assert [[p["leader"] for p in found[name]["partitions"]] for name in names] == [[1, 1, 1]] * 2
        response = await admin.delete_topics(names)
        assert [code for _, code in response.topic_error_codes] == [0, 0]
        deadline = time.monotonic() + SECONDS
        while set(names) & set(await admin.list_topics()):
            assert time.monotonic() < deadline, "still there"
            await asyncio.sleep(0.02)
        response = await admin.delete_topics(names[:1])
        assert [code for _, code in response.topic_error_codes] == [UnknownTopicOrPartitionError.errno]


@in_a_loop
async def test_an_invalid_topic_is_refused(broker):
    async with an_admin(broker) as admin:
        for name, count, error in (("no/slash", 1, InvalidTopicError), ("none", 0, InvalidPartitionsError)):
            response = await admin.create_topics([NewTopic(name, num_partitions=count, replication_factor=1)])
            assert codes_of(response) == [error.errno]
            assert name not in await admin.list_topics()


@in_a_loop
async def test_validate_only_creates_no_topic(broker):
    name = broker.name()
    async with an_admin(broker) as admin:
        new = [NewTopic(name, num_partitions=1, replication_factor=1)]
        assert codes_of(await admin.create_topics(new, validate_only=True)) == [0]
        assert name not in await admin.list_topics()


@in_a_loop
async def test_partitions_can_be_added_but_not_removed(broker):
    topic = await make_topic(broker)
    async with an_admin(broker) as admin:
        await admin.create_partitions({topic: NewPartitions(3)})
        for count in (2, 3):
            with pytest.raises(InvalidPartitionsError):
                await admin.create_partitions({topic: NewPartitions(count)})
    await write(broker, topic, [{"value": b"added", "partition": 2}])
    assert [(record.partition, record.value) for record in await read_all(broker, topic)] == [(2, b"added")]


@in_a_loop
async def test_a_topics_settings_are_described_and_replaced(broker):
    topic = await make_topic(broker, segment__bytes=1048576)
    async with an_admin(broker) as admin:
        found = await config_of(admin, topic)
        assert (found["segment.bytes"], found["cleanup.policy"]) == ("1048576", "delete")
        changed = ConfigResource(ConfigResourceType.TOPIC, topic, configs={"max.message.bytes": "2000"})
        [response] = await admin.alter_configs([changed])
        assert [code for code, *_ in response.resources] == [0]
        found = await config_of(admin, topic)
        assert (found["segment.bytes"], found["max.message.bytes"]) == ("1073741824", "2000")


@in_a_loop
async def test_the_cluster_is_described(broker):
    async with an_admin(broker) as admin:
        found = await admin.describe_cluster()
    [node] = found["brokers"]
    assert (node["node_id"], node["host"]) == (1, "127.0.0.1")
    assert node["port"] == int(broker.bootstrap().split(":")[1])
    assert found["controller_id"] == 1


@in_a_loop
async def test_groups_are_listed_and_described_with_their_offsets(broker):
    topic, group = await make_topic(broker, partition_count=2), broker.name("g")
    async with an_admin(broker) as admin, a_consumer(broker, group, client_id="anna") as member:
        member.subscribe([topic])
        await wait_until(lambda: numbers_of(member) == [0, 1])
        await member.commit({TopicPartition(topic, 1): 5})
        assert (group, "consumer") in await admin.list_consumer_groups()
        [response] = await admin.describe_consumer_groups([group])
        [(code, name, state, kind, protocol, members, *_)] = response.groups
        assert (code, name, state, kind, protocol) == (0, group, "Stable", "consumer", "roundrobin")
        [(_, *described)] = members
        assert "anna" in described
        assert "/127.0.0.1" in described
        offsets = await admin.list_consumer_group_offsets(group)
        assert {where: found.offset for where, found in offsets.items()} == {TopicPartition(topic, 1): 5}
        assert await admin.find_coordinator(group) == 1


@in_a_loop
async def test_records_are_deleted_up_to_an_offset(broker):
    topic = await make_topic(broker)
    partition = TopicPartition(topic, 0)
    await write(broker, topic, [b"%d" % n for n in range(10)])
    async with an_admin(broker) as admin:
        assert await admin.delete_records({partition: RecordsToDelete(before_offset=4)}) == {partition: 4}
        assert await values_of(broker, topic) == [b"%d" % n for n in range(4, 10)]
        with pytest.raises(OffsetOutOfRangeError):
            await admin.delete_records({partition: RecordsToDelete(before_offset=11)})
        assert await admin.delete_records({partition: RecordsToDelete(before_offset=-1)}) == {partition: 10}
    assert [record.offset for record in await write(broker, topic, [b"next"])] == [10]
