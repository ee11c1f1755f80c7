"""kafka-python: clients keep running while the broker is stopped or killed and restarted."""

import threading
import time

import pytest
from kafka import OffsetAndMetadata, TopicPartition
from support.clients.kafka_python_clients import (
    a_consumer,
    a_producer,
    committed_values,
    make_topic,
    send,
    subscribe,
    values_of,
    write,
)

LONGER = 60
# On a busy machine a real Kafka restarts slowly, and no client may give up before that.
PATIENT = {"transaction_timeout_ms": 600_000, "request_timeout_ms": 120_000}


def come_back(broker, how):
    if how == "kill":
        broker.restart()
    else:
        broker.stop()
        broker.start()


class KafkaPythonWriter:
    """Writes numbers in a thread until it is stopped; `written` are the acknowledged ones."""

    def __init__(self, producer, topic):
        self.written, self.errors = [], []
        self._producer, self._topic, self._may_end = producer, topic, threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def wait_for(self, count):
        enough, deadline = len(self.written) + count, time.monotonic() + LONGER
        while len(self.written) < enough:
            assert time.monotonic() < deadline, f"{len(self.written)} of {enough} written after {LONGER} s"
            time.sleep(0.02)

    def end(self):
        self._may_end.set()
        self._thread.join(LONGER)
        assert not self._thread.is_alive()
        assert self.errors == []

    def _write(self):
        number, waiting = 0, []
        while not self._may_end.is_set() or waiting:
            if not self._may_end.is_set() and len(waiting) < 100:
                waiting.append((b"%d" % number, self._producer.send(self._topic, b"%d" % number)))
                number += 1
                continue
            value, future = waiting.pop(0)
            try:
                future.get(LONGER)
                self.written.append(value)
            except Exception as error:  # the test checks it
                self.errors.append(error)


@pytest.mark.long  # by default it writes to a cluster while the leader is killed: see cluster/test_other_clients.py
@pytest.mark.parametrize("how", ("kill", "stop"))
def test_an_idempotent_producer_writes_each_record_once_and_in_order(broker, how):
    topic = make_topic(broker)
    with a_producer(broker, enable_idempotence=True, batch_size=200) as producer:
        writer = KafkaPythonWriter(producer, topic)
        writer.wait_for(200)
        come_back(broker, how)
        writer.wait_for(200)
        writer.end()
    assert writer.written == [b"%d" % n for n in range(len(writer.written))]
    assert values_of(broker, topic) == writer.written


def test_no_acknowledged_record_is_lost_and_a_consumer_group_reads_all(broker):
    topic, group = make_topic(broker), broker.name("g")
    with (
        a_producer(broker, enable_idempotence=False, acks="all") as producer,
        a_consumer(broker, group, session_timeout_ms=6000) as reader,
    ):
        writer, seen = KafkaPythonWriter(producer, topic), []
        subscribe(reader, topic)

        def read_until(offset):
            deadline = time.monotonic() + LONGER
            while not seen or seen[-1] < offset:
                assert time.monotonic() < deadline, f"{len(seen)} seen after {LONGER} s"
                for records in reader.poll(100).values():
                    seen.extend(record.offset for record in records)

        writer.wait_for(200)
        read_until(99)
        reader.commit()
        before = len(seen)
        broker.restart()
        writer.wait_for(200)
        writer.end()
        stored = values_of(broker, topic)
        assert set(stored) == set(writer.written)
        read_until(len(stored) - 1)
    # Offsets before the kill come once and are not repeated; after it none is missing.
    assert seen[:before] == list(range(before))
    assert min(seen[before:]) == before
    assert set(seen) == set(range(len(stored)))


@pytest.mark.long
@pytest.mark.parametrize("how", ("kill", "stop"))
def test_a_transaction_survives_a_restart(broker, how):
    topic, group = make_topic(broker), broker.name("g")
    partition = TopicPartition(topic, 0)
    with (
        a_producer(broker, transactional_id=broker.name("x"), **PATIENT) as producer,
        a_consumer(broker, group) as reader,
    ):
        producer.init_transactions()
        producer.begin_transaction()
        send(producer, topic, [b"before"])
        come_back(broker, how)
        send(producer, topic, [b"after"])
        producer.send_offsets_to_transaction({partition: OffsetAndMetadata(2, "", -1)}, reader.group_metadata())
        assert values_of(broker, topic, isolation_level="read_committed") == []
        producer.commit_transaction()
    assert committed_values(broker, topic) == [b"before", b"after"]
    with a_consumer(broker, group, isolation_level="read_committed") as reader:
        assert reader.committed(partition) == 2


@pytest.mark.long
def test_offsets_and_records_survive_a_kill(broker):
    topic, group = make_topic(broker, partition_count=2), broker.name("g")
    partition = TopicPartition(topic, 1)
    write(broker, topic, [{"value": b"%d" % n, "partition": n % 2} for n in range(50)], compression_type="lz4")
    with a_consumer(broker, group) as committer:
        committer.commit({partition: OffsetAndMetadata(7, "here", -1)})
        broker.restart()
        # The same client reconnects.
        assert committer.committed(partition, metadata=True) == OffsetAndMetadata(7, "here", -1)
    assert values_of(broker, topic) == [b"%d" % n for parity in (0, 1) for n in range(parity, 50, 2)]
