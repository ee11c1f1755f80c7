"""aiokafka: clients keep running while the broker is stopped or killed and restarted."""

import asyncio
import time

import pytest
from aiokafka import TopicPartition
from aiokafka.structs import OffsetAndMetadata
from support.clients.aiokafka_clients import (
    a_consumer,
    a_producer,
    committed_values,
    in_a_loop,
    make_topic,
    send,
    values_of,
    write,
)

LONGER = 60
# On a busy machine a real Kafka restarts slowly, and no client may give up before that.
PATIENT = {"transaction_timeout_ms": 600_000, "request_timeout_ms": 120_000}


async def come_back(broker, how):
    """While the clients keep running."""
    if how == "kill":
        await asyncio.to_thread(broker.restart)
    else:
        await asyncio.to_thread(broker.stop)
        await asyncio.to_thread(broker.start)


class AiokafkaWriter:
    """Writes numbers until it is stopped; `written` are the acknowledged ones."""

    def __init__(self, producer, topic):
        self.written = []
        self._producer, self._topic, self._may_end = producer, topic, False
        self._task = asyncio.create_task(self._write())

    async def wait_for(self, count):
        enough, deadline = len(self.written) + count, time.monotonic() + LONGER
        while len(self.written) < enough:
            assert time.monotonic() < deadline, f"{len(self.written)} of {enough} written after {LONGER} s"
            assert not self._task.done(), self._task.exception()
            await asyncio.sleep(0.02)

    async def end(self):
        self._may_end = True
        await asyncio.wait_for(self._task, LONGER)

    async def _write(self):
        number = 0
        while not self._may_end:
            values = [b"%d" % n for n in range(number, number + 20)]
            futures = [await self._producer.send(self._topic, value) for value in values]
            for value, future in zip(values, futures, strict=True):
                await future
                self.written.append(value)
            number += 20


@pytest.mark.long  # by default it writes to a cluster while the leader is killed: see cluster/test_other_clients.py
@pytest.mark.parametrize("how", ("kill", "stop"))
@in_a_loop
async def test_an_idempotent_producer_writes_each_record_once_and_in_order(broker, how):
    topic = await make_topic(broker)
    async with a_producer(broker, enable_idempotence=True, max_batch_size=200, **PATIENT) as producer:
        writer = AiokafkaWriter(producer, topic)
        await writer.wait_for(200)
        await come_back(broker, how)
        await writer.wait_for(200)
        await writer.end()
    assert writer.written == [b"%d" % n for n in range(len(writer.written))]
    assert await values_of(broker, topic) == writer.written


@in_a_loop
async def test_no_acknowledged_record_is_lost_and_a_consumer_group_reads_all(broker):
    topic, group = await make_topic(broker), broker.name("g")
    seen = []
    async with (
        a_producer(broker, acks="all", **PATIENT) as producer,
        a_consumer(broker, group, session_timeout_ms=6000, heartbeat_interval_ms=500) as reader,
    ):
        writer = AiokafkaWriter(producer, topic)
        reader.subscribe([topic])

        async def read_until(offset):
            deadline = time.monotonic() + LONGER
            while not seen or seen[-1] < offset:
                assert time.monotonic() < deadline, f"{len(seen)} seen after {LONGER} s"
                for records in (await reader.getmany(timeout_ms=100)).values():
                    seen.extend(record.offset for record in records)

        await writer.wait_for(200)
        await read_until(99)
        await reader.commit()
        before = len(seen)
        await come_back(broker, "kill")
        await writer.wait_for(200)
        await writer.end()
        stored = await values_of(broker, topic)
        assert set(stored) == set(writer.written)
        await read_until(len(stored) - 1)
    # Offsets before the kill come once and are not repeated; after it none is missing.
    assert seen[:before] == list(range(before))
    assert min(seen[before:]) == before
    assert set(seen) == set(range(len(stored)))


@pytest.mark.long
@pytest.mark.parametrize("how", ("kill", "stop"))
@in_a_loop
async def test_a_transaction_survives_a_restart(broker, how):
    topic, group = await make_topic(broker), broker.name("g")
    async with a_producer(broker, transactional_id=broker.name("x"), **PATIENT) as producer:
        await producer.begin_transaction()
        await send(producer, topic, [b"before"])
        await come_back(broker, how)
        await send(producer, topic, [b"after"])
        await producer.send_offsets_to_transaction({TopicPartition(topic, 0): 2}, group)
        assert await values_of(broker, topic, isolation_level="read_committed") == []
        await producer.commit_transaction()
    assert await committed_values(broker, topic) == [b"before", b"after"]


@pytest.mark.long
@in_a_loop
async def test_offsets_and_records_survive_a_kill(broker):
    topic, group = await make_topic(broker, partition_count=2), broker.name("g")
    partition = TopicPartition(topic, 1)
    await write(broker, topic, [{"value": b"%d" % n, "partition": n % 2} for n in range(50)], compression_type="lz4")
    async with a_consumer(broker, group) as committer:
        committer.assign([partition])
        await committer.commit({partition: OffsetAndMetadata(7, "here")})
    await come_back(broker, "kill")
    async with a_consumer(broker, group) as reader:
        # While a broker loads the committed offsets it answers with an error for the whole group, as Kafka does. This
        # client takes that as "nothing is committed" and would start at the beginning of its partition.
        found, deadline = None, time.monotonic() + LONGER
        while found is None and time.monotonic() < deadline:
            found = await reader.committed(partition)
        assert found == 7
        reader.assign([partition])
        assert (await reader.getone()).value == b"15"
    assert await values_of(broker, topic) == [b"%d" % n for parity in (0, 1) for n in range(parity, 50, 2)]
