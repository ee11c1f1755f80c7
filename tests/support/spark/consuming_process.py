"""A member of a group that a test kills: a process with one client's consumer, which prints the partitions that it has
been given each time they change, and goes on.

    python consuming_process.py confluent-kafka|kafka-python|aiokafka BOOTSTRAP TOPIC GROUP SESSION_MS [PROTOCOL]
"""

import asyncio
import subprocess
import sys
from contextlib import contextmanager

HEARTBEATS_OF_A_SESSION = 3


@contextmanager
def consuming_process(client, broker, topic, group, session_ms, *, protocol="classic", partitions):
    """Runs once it has the partitions; killed at the end, unless the test has done so."""
    command = [sys.executable, __file__, client, broker.bootstrap(), topic, group, str(session_ms), protocol]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        for line in process.stdout:
            if line.split() == [str(number) for number in partitions]:
                break
        assert process.poll() is None, f"{client}: the process ended with {process.returncode}"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


class _Assignment:
    """Says what is new."""

    def __init__(self):
        self._last = None

    def tell(self, numbers):
        if sorted(numbers) != self._last:
            self._last = sorted(numbers)
            print(*self._last, flush=True)


def _confluent_kafka(bootstrap, topic, group, session_ms, protocol):
    from confluent_kafka import Consumer

    settings = {"bootstrap.servers": bootstrap, "group.id": group, "group.protocol": protocol}
    if protocol == "classic":
        settings |= {"session.timeout.ms": session_ms, "heartbeat.interval.ms": session_ms // HEARTBEATS_OF_A_SESSION}
    consumer, told = Consumer(settings), _Assignment()
    consumer.subscribe([topic])
    while True:
        consumer.poll(0.05)
        told.tell([partition.partition for partition in consumer.assignment()])


def _kafka_python(bootstrap, topic, group, session_ms, protocol):
    from kafka import KafkaConsumer

    heartbeat_ms = session_ms // HEARTBEATS_OF_A_SESSION
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, group_id=group, session_timeout_ms=session_ms, heartbeat_interval_ms=heartbeat_ms
    )
    # It must know the topic before it joins, and hear of it once more: see `kafka_python_clients.subscribe`.
    assert consumer.partitions_for_topic(topic)
    consumer.subscribe([topic])
    assert topic in consumer.topics()
    told = _Assignment()
    while True:
        consumer.poll(50)
        told.tell([partition.partition for partition in consumer.assignment()])


async def _aiokafka(bootstrap, topic, group, session_ms, protocol):
    from aiokafka import AIOKafkaConsumer

    heartbeat_ms = session_ms // HEARTBEATS_OF_A_SESSION
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=heartbeat_ms,
    )
    told = _Assignment()
    await consumer.start()
    while True:
        await consumer.getmany(timeout_ms=50)
        told.tell([partition.partition for partition in consumer.assignment()])


def main(client, bootstrap, topic, group, session_ms, protocol):
    arguments = (bootstrap, topic, group, int(session_ms), protocol)
    if client == "aiokafka":
        asyncio.run(_aiokafka(*arguments))
    else:
        {"confluent-kafka": _confluent_kafka, "kafka-python": _kafka_python}[client](*arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
