"""aiokafka at the broker of a test: clients with short waits, and all that a topic holds."""

from __future__ import annotations

import asyncio
import functools
import time
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.helpers import create_ssl_context
from support.brokers.reachable_broker import PASSWORD, PEMS, USER
from support.builders.wire_batches import wait_for_markers

SECONDS = 20
_READING = {"fetch_max_wait_ms": 50, "auto_offset_reset": "earliest", "enable_auto_commit": False}


def in_a_loop(story):
    """An asynchronous test, run from beginning to end in a loop of its own."""

    @functools.wraps(story)
    def run(*arguments, **named):
        asyncio.run(story(*arguments, **named))

    return run


def settings_of(broker, listener="PLAINTEXT", **given):
    """What a client needs for a listener. `trusted` and `shown` name certificates in files."""
    found = {"bootstrap_servers": broker.bootstrap(listener), "security_protocol": listener, "retry_backoff_ms": 20}
    trusted, shown = given.pop("trusted", "authority.pem"), given.pop("shown", None)
    if listener.startswith("SASL"):
        found |= {"sasl_mechanism": "SCRAM-SHA-512", "sasl_plain_username": USER, "sasl_plain_password": PASSWORD}
    if listener.endswith("SSL"):
        certificate = str(PEMS / shown) if shown else None
        context = create_ssl_context(cafile=str(PEMS / trusted), certfile=certificate, keyfile=certificate)
        found |= {"ssl_context": context}
    return found | given


@asynccontextmanager
async def an_admin(broker, listener="PLAINTEXT", **given):
    client = AIOKafkaAdminClient(**settings_of(broker, listener, **given))
    try:
        await client.start()
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def a_producer(broker, listener="PLAINTEXT", **given):
    producer = AIOKafkaProducer(**settings_of(broker, listener, **given))
    try:
        await producer.start()
        yield producer
    finally:
        await producer.stop()


def a_stopped_consumer(broker, group=None, listener="PLAINTEXT", **given):
    """One that the test starts and stops."""
    return AIOKafkaConsumer(**settings_of(broker, listener, **{"group_id": group, **_READING, **given}))


@asynccontextmanager
async def a_consumer(broker, group=None, listener="PLAINTEXT", **given):
    consumer = a_stopped_consumer(broker, group, listener, **given)
    try:
        await consumer.start()
        yield consumer
    finally:
        await consumer.stop()


async def make_topic(broker, partition_count=1, **config):
    """A new topic; its name."""
    name = broker.name()
    configs = {"retention.ms": "-1", **{key.replace("__", "."): str(value) for key, value in config.items()}}
    async with an_admin(broker) as admin:
        new = NewTopic(name, num_partitions=partition_count, replication_factor=1, topic_configs=configs)
        response = await admin.create_topics([new])
        assert [(topic, code) for topic, code, *_ in response.topic_errors] == [(name, 0)]
        deadline = time.monotonic() + SECONDS
        while name not in await admin.list_topics():
            assert time.monotonic() < deadline, f"{name} is not there"
            await asyncio.sleep(0.02)
    return name


async def send(producer, topic, records):
    """Sends records, each a value or the arguments of send; where each was written."""
    sent = [record if isinstance(record, dict) else {"value": record} for record in records]
    futures = [await producer.send(topic, **given) for given in sent]
    return [await asyncio.wait_for(future, SECONDS) for future in futures]


async def write(broker, topic, records, listener="PLAINTEXT", **given):
    async with a_producer(broker, listener, **given) as producer:
        return await send(producer, topic, records)


async def read_all(broker, topic, listener="PLAINTEXT", **given):
    """Every record from the beginning to the end, partition by partition in the order of their offsets."""
    partitions = await partitions_of(broker, topic)
    async with a_consumer(broker, listener=listener, **given) as reader:
        reader.assign(partitions)
        await reader.seek_to_beginning()
        ends, found, deadline = await reader.end_offsets(partitions), [], time.monotonic() + SECONDS
        while any([await reader.position(partition) < end for partition, end in ends.items()]):
            assert time.monotonic() < deadline, f"{len(found)} records and no end after {SECONDS} s"
            for records in (await reader.getmany(timeout_ms=200)).values():
                found += records
        return sorted(found, key=lambda record: record.partition)


async def partitions_of(broker, topic):
    async with an_admin(broker) as admin:
        [found] = await admin.describe_topics([topic])
    return [TopicPartition(topic, number) for number in sorted(part["partition"] for part in found["partitions"])]


async def values_of(broker, topic, **given):
    return [record.value for record in await read_all(broker, topic, **given)]


async def committed_values(broker, topic):
    """What read-committed readers see, once every transaction has ended."""
    await asyncio.to_thread(wait_for_markers, broker, topic)
    return await values_of(broker, topic, isolation_level="read_committed")


async def take(consumer, count):
    """The next `count` records, in the order in which they came."""
    found, deadline = [], time.monotonic() + SECONDS
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records after {SECONDS} s"
        for records in (await consumer.getmany(timeout_ms=100, max_records=count - len(found))).values():
            found += records
    return found


async def wait_until(condition):
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within {SECONDS} s"
        await asyncio.sleep(0.02)


def numbers_of(consumer):
    """The partitions that it has been given."""
    return sorted(partition.partition for partition in consumer.assignment())
