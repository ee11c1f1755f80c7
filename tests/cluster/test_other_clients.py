"""kafka-python and aiokafka at three nodes, whose leader is killed meanwhile."""

import asyncio
import time

from aiokafka import AIOKafkaProducer
from kafka import KafkaProducer
from support.clients.aiokafka_clients import in_a_loop
from support.clients.aiokafka_clients import values_of as aiokafka_values_of
from support.clients.kafka_python_clients import values_of as kafka_python_values_of

SECONDS = 60
VALUES = [b"%d" % number for number in range(300)]
_IMPATIENT = {"retry_backoff_ms": 50, "request_timeout_ms": 5000}


def test_kafka_python_writes_each_record_once_and_in_order_while_the_leader_is_killed(cluster):
    topic = cluster.make_topic()
    leader = cluster.leader_of(topic)
    producer = KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, acks="all", enable_idempotence=True, delivery_timeout_ms=60_000,
        **_IMPATIENT,
    )  # fmt: skip
    futures = []
    for number, value in enumerate(VALUES):
        futures.append(producer.send(topic, value))
        if number == 100:
            futures[50].get(SECONDS)
            cluster.hit(leader, "killed")
        time.sleep(0.002)
    assert [future.get(SECONDS).offset for future in futures] == list(range(len(VALUES)))
    producer.close(timeout=10)
    assert cluster.leader_of(topic) != leader
    assert kafka_python_values_of(cluster, topic) == VALUES
    cluster.heal()
    cluster.assert_replicas_are_equal(topic)


@in_a_loop
async def test_aiokafka_writes_each_record_once_and_in_order_while_the_leader_is_killed(cluster):
    topic = await asyncio.to_thread(cluster.make_topic)
    leader = await asyncio.to_thread(cluster.leader_of, topic)
    producer = AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, acks="all", enable_idempotence=True, metadata_max_age_ms=1000,
        **_IMPATIENT,
    )  # fmt: skip
    await producer.start()
    sent = []
    for number, value in enumerate(VALUES):
        sent.append(await producer.send(topic, value))
        if number == 100:
            await sent[50]
            await asyncio.to_thread(cluster.hit, leader, "killed")
        await asyncio.sleep(0.002)
    places = await asyncio.wait_for(asyncio.gather(*sent), SECONDS)
    await producer.stop()
    assert [place.offset for place in places] == list(range(len(VALUES)))
    assert await asyncio.to_thread(cluster.leader_of, topic) != leader
    assert await aiokafka_values_of(cluster, topic) == VALUES
    await asyncio.to_thread(cluster.heal)
    await asyncio.to_thread(cluster.assert_replicas_are_equal, topic)
