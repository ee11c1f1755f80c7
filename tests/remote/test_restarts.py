"""A real Kafka that is stopped or killed under a client that goes on."""

import threading
import time

import pytest

from broker_core.cluster import GroupOffset, TransactionalProducer
from broker_core.model.exceptions import BrokerUnavailableError, RemoteError
from broker_core.model.identifiers import TopicPartition
from broker_core.record.batch_builder import build_batch
from broker_core.record.batch_reader import Record, iter_headers, records_of


def a_batch(value, producer, sequence, **given):
    """A record of now: a leader that starts anew forgets a producer whose newest record is older than a day
    (producer.id.expiration.ms), and takes a repeated batch of it for a new one."""
    return build_batch(
        [Record(value=value.encode(), timestamp_ms=int(time.time() * 1000))],
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=sequence,
        **given,
    )


def values_of(client, partition):
    found, offset = [], 0
    while True:
        fetched = client.fetch(partition, offset, max_bytes=2**20)
        if not len(fetched.buffer):
            return found
        for position, header in iter_headers(fetched.buffer):
            if not header.is_control:
                found += [record.value.decode() for record in records_of(fetched.buffer, position)]
        offset = fetched.next_offset


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_appends_go_on_over_a_restart_and_each_is_written_once(kafka, client, topic, how):
    partition, producer, written = TopicPartition(topic, 0), client.init_producer(), []
    may_end, troubles = threading.Event(), []

    def write():
        sequence = 0
        try:
            while not may_end.is_set():
                client.append(partition, a_batch(str(sequence), producer, sequence))
                written.append(str(sequence))
                sequence += 1
                time.sleep(0.002)
        except RemoteError as trouble:
            troubles.append(trouble)

    thread = threading.Thread(target=write)
    thread.start()
    time.sleep(0.5)
    getattr(kafka, how)()
    before = len(written)
    kafka.start()
    deadline = time.monotonic() + 60
    while len(written) < before + 50 and thread.is_alive() and time.monotonic() < deadline:
        time.sleep(0.1)
    may_end.set()
    thread.join()
    assert troubles == []
    assert len(written) >= before + 50
    assert values_of(client, partition) == written


def test_a_transaction_outlives_its_coordinator(kafka, client, topic):
    partition, name, group = TopicPartition(topic, 0), kafka.name("x"), kafka.name("g")
    made = client.init_producer(name)
    producer = TransactionalProducer(
        transactional_id=name, producer_id=made.producer_id, producer_epoch=made.producer_epoch
    )
    client.add_partitions_to_transaction(producer, [partition])
    client.append(partition, a_batch("before", producer, 0, is_transactional=True))
    kafka.stop()
    kafka.start()
    client.append(partition, a_batch("after", producer, 1, is_transactional=True))
    client.commit_offsets_in_transaction(producer, group, {partition: GroupOffset(offset=2)})
    kafka.kill()
    kafka.start()
    client.end_transaction(producer, commit=True)
    assert values_of(client, partition) == ["before", "after"]
    assert client.fetch_offsets(group)[partition].offset == 2
    assert client.bounds(partition).last_stable_offset == client.bounds(partition).high_watermark


def test_a_cluster_that_stays_away_is_told(kafka, client, topic):
    client.bounds(TopicPartition(topic, 0))
    with kafka.client(default__api__timeout__ms=1500) as impatient:
        impatient.bounds(TopicPartition(topic, 0))
        kafka.stop()
        try:
            with pytest.raises(BrokerUnavailableError, match=rf"{kafka.bootstrap()} cannot be reached: Connection ref"):
                impatient.bounds(TopicPartition(topic, 0))
        finally:
            kafka.start()
        assert client.bounds(TopicPartition(topic, 0)).high_watermark == 0
