"""aiokafka: transactions and their fencing."""

import asyncio
import time

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import InvalidTransactionTimeout, ProducerFenced
from support.clients.aiokafka_clients import (
    SECONDS,
    a_consumer,
    a_producer,
    committed_values,
    in_a_loop,
    make_topic,
    send,
    take,
    values_of,
    write,
)

COMMITTED = {"isolation_level": "read_committed"}


@in_a_loop
async def test_read_committed_consumers_see_committed_records_only(broker):
    topic = await make_topic(broker, partition_count=2)
    async with a_producer(broker, transactional_id=broker.name("x")) as producer:
        for round_number in range(4):
            await producer.begin_transaction()
            await send(producer, topic, [{"value": b"%d" % round_number, "partition": number} for number in (0, 1)])
            if round_number % 2:
                await producer.abort_transaction()
            else:
                await producer.commit_transaction()
    assert await committed_values(broker, topic) == [b"0", b"2"] * 2
    assert await values_of(broker, topic) == [b"0", b"1", b"2", b"3"] * 2


@in_a_loop
async def test_an_open_transaction_blocks_later_records(broker):
    topic = await make_topic(broker)
    partition = TopicPartition(topic, 0)
    async with (
        a_producer(broker, transactional_id=broker.name("x")) as producer,
        a_consumer(broker, **COMMITTED) as reader,
    ):
        reader.assign([partition])
        await write(broker, topic, [b"before"])
        await producer.begin_transaction()
        await send(producer, topic, [b"inside"])
        await write(broker, topic, [b"behind"])
        assert [record.value for record in await take(reader, 1)] == [b"before"]
        assert await reader.getmany(timeout_ms=300) == {}
        assert await reader.end_offsets([partition]) == {partition: 1}
        assert await values_of(broker, topic) == [b"before", b"inside", b"behind"]
        await producer.commit_transaction()
        assert [record.value for record in await take(reader, 2)] == [b"inside", b"behind"]


@in_a_loop
async def test_many_transactions_one_after_the_other_keep_their_order(broker):
    topic, expected = await make_topic(broker), []
    async with a_producer(broker, transactional_id=broker.name("x")) as producer:
        for number in range(20):
            await producer.begin_transaction()
            values = [b"%d-%d" % (number, n) for n in range(3)]
            await send(producer, topic, values)
            if number % 3 == 2:
                await producer.abort_transaction()
            else:
                await producer.commit_transaction()
                expected += values
    assert await committed_values(broker, topic) == expected


@in_a_loop
async def test_offsets_are_committed_with_the_records_of_the_transaction_or_not_at_all(broker):
    source, target, group = await make_topic(broker), await make_topic(broker), broker.name("g")
    partition = TopicPartition(source, 0)
    await write(broker, source, [b"%d" % n for n in range(6)])

    async def transform(producer, count, end):
        async with a_consumer(broker, group, **COMMITTED) as reader:
            reader.subscribe([source])
            records = await take(reader, count)
            await producer.begin_transaction()
            await send(producer, target, [b"x" + record.value for record in records])
            await producer.send_offsets_to_transaction({partition: records[-1].offset + 1}, group)
            await end()
        values = await committed_values(broker, target)
        deadline = time.monotonic() + SECONDS
        while True:  # this client does not require stable offsets, so the answer may precede the marker
            async with a_consumer(broker, group) as reader:
                found = await reader.committed(partition)
            if found == len(values) or time.monotonic() > deadline:
                return values, found
            await asyncio.sleep(0.05)

    first = [b"x0", b"x1"]
    async with a_producer(broker, transactional_id=broker.name("x")) as producer:
        assert await transform(producer, 2, producer.commit_transaction) == (first, 2)
        assert await transform(producer, 2, producer.abort_transaction) == (first, 2)
        assert await transform(producer, 4, producer.commit_transaction) == ([b"x%d" % n for n in range(6)], 6)


@in_a_loop
async def test_a_second_producer_with_the_same_id_fences_the_first_and_aborts_its_transaction(broker):
    topic, name = await make_topic(broker), broker.name("x")
    async with a_producer(broker, transactional_id=name) as first, a_producer(broker, transactional_id=name) as second:
        # The first is initialised before the second.
        with pytest.raises(ProducerFenced):
            await first.begin_transaction()
            await send(first, topic, [b"fenced"])
            await first.commit_transaction()
        await second.begin_transaction()
        await send(second, topic, [b"left"])
        async with a_producer(broker, transactional_id=name) as third:
            assert await committed_values(broker, topic) == []
            with pytest.raises(ProducerFenced):
                await second.commit_transaction()
            await third.begin_transaction()
            await send(third, topic, [b"kept"])
            await third.commit_transaction()
    assert await committed_values(broker, topic) == [b"kept"]
    assert await values_of(broker, topic) == [b"left", b"kept"]


@in_a_loop
async def test_a_transaction_that_times_out_is_aborted(broker):
    topic = await make_topic(broker)
    async with a_producer(broker, transactional_id=broker.name("x"), transaction_timeout_ms=300) as producer:
        await producer.begin_transaction()
        await send(producer, topic, [b"late"])
        await write(broker, topic, [b"behind"])
        deadline = time.monotonic() + SECONDS
        while await values_of(broker, topic, **COMMITTED) != [b"behind"]:
            assert time.monotonic() < deadline, "still open"
            await asyncio.sleep(0.1)
        with pytest.raises(ProducerFenced):
            await producer.commit_transaction()
    assert await values_of(broker, topic) == [b"late", b"behind"]


@in_a_loop
async def test_a_timeout_above_the_brokers_maximum_is_refused(broker):
    with pytest.raises(InvalidTransactionTimeout):
        async with a_producer(broker, transactional_id=broker.name("x"), transaction_timeout_ms=900_001):
            pass
