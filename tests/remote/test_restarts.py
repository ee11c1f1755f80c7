"""A client keeps running while the broker is stopped or killed."""

import threading
import time

import pytest

from broker_core.cluster import GroupOffset, TransactionalProducer
from broker_core.model.exceptions import BrokerUnavailableError, RemoteError, RequestTimedOutError
from broker_core.model.identifiers import TopicPartition
from broker_core.record.batch_builder import build_batch
from broker_core.record.batch_reader import Record, iter_headers, records_of


def a_batch(value, producer, sequence, **given):
    """A record with the current time: a restarted leader forgets a producer whose newest record is older than a day
    (producer.id.expiration.ms) and would take a repeated batch for a new one."""
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


@pytest.mark.parametrize("how", [pytest.param("stop", marks=pytest.mark.long), "kill"])
def test_appends_continue_over_a_restart_and_each_is_written_once(broker, client, topic, how):
    partition, producer, written = TopicPartition(topic, 0), client.init_producer(), []
    may_end, errors = threading.Event(), []

    def write():
        sequence = 0
        try:
            while not may_end.is_set():
                client.append(partition, a_batch(str(sequence), producer, sequence))
                written.append(str(sequence))
                sequence += 1
                time.sleep(0.002)
        except RemoteError as error:
            errors.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    time.sleep(0.5)
    getattr(broker, how)()
    before = len(written)
    broker.start()
    deadline = time.monotonic() + 60
    while len(written) < before + 50 and thread.is_alive() and time.monotonic() < deadline:
        time.sleep(0.1)
    may_end.set()
    thread.join()
    assert errors == []
    assert len(written) >= before + 50
    assert values_of(client, partition) == written


def test_a_transaction_survives_a_restart_of_its_coordinator(broker, client, topic):
    partition, name, group = TopicPartition(topic, 0), broker.name("x"), broker.name("g")
    made = client.init_producer(name, timeout_ms=600_000)
    producer = TransactionalProducer(
        transactional_id=name, producer_id=made.producer_id, producer_epoch=made.producer_epoch
    )
    client.add_partitions_to_transaction(producer, [partition])
    client.append(partition, a_batch("before", producer, 0, is_transactional=True))
    broker.stop()
    broker.start()
    client.append(partition, a_batch("after", producer, 1, is_transactional=True))
    client.commit_offsets_in_transaction(producer, group, {partition: GroupOffset(offset=2)})
    broker.kill()
    broker.start()
    client.end_transaction(producer, commit=True)
    assert values_of(client, partition) == ["before", "after"]
    assert client.fetch_offsets(group)[partition].offset == 2
    assert client.bounds(partition).last_stable_offset == client.bounds(partition).high_watermark


def test_a_cluster_that_stays_down_is_reported(broker, client, topic):
    client.bounds(TopicPartition(topic, 0))
    with broker.client(default__api__timeout__ms=1500) as impatient:
        impatient.bounds(TopicPartition(topic, 0))
        broker.stop()
        try:
            with pytest.raises(
                BrokerUnavailableError, match=rf"{broker.bootstrap()} cannot be reached: Connection ref"
            ):
                impatient.bounds(TopicPartition(topic, 0))
        finally:
            broker.start()
        assert client.bounds(TopicPartition(topic, 0)).high_watermark == 0


def test_a_reader_continues_after_the_broker_was_killed(broker, client, topic):
    partition, producer = TopicPartition(topic, 0), client.init_producer()
    for number in range(20):
        client.append(partition, a_batch(str(number), producer, number))
    found, offset = [], 0
    while offset < 20:
        if offset == 10:
            broker.restart()
        fetched = client.fetch(partition, offset, max_bytes=1)
        found += [record.value.decode() for record in records_of(fetched.buffer, 0)]
        offset = fetched.next_offset
    assert found == [str(number) for number in range(20)]


def test_a_hanging_broker_times_out_and_is_used_again_later(broker, client, topic):
    partition = TopicPartition(topic, 0)
    with broker.client(request__timeout__ms=300, default__api__timeout__ms=1000) as impatient:
        impatient.bounds(partition)
        broker.pause()
        try:
            # Which error depends on whether the old connection times out or a new one.
            given_up = (RequestTimedOutError, BrokerUnavailableError)
            with pytest.raises(
                given_up, match=r"1000 ms \(default\.api\.timeout\.ms\).*did not answer|did not answer.*1000 ms"
            ):
                impatient.bounds(partition)
        finally:
            broker.resume()
        assert client.bounds(partition).high_watermark == 0
        impatient.bounds(partition)
