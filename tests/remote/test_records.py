"""Records are written to a broker and read back, byte by byte."""

import os

import pytest
from support.brokers.in_memory_cluster import InMemoryCluster

from broker_core.model.exceptions import (
    InvalidRecordError,
    InvalidTimestampError,
    OffsetOutOfRangeError,
    OutOfOrderSequenceError,
    PolicyViolationError,
    RecordTooLargeError,
)
from broker_core.model.identifiers import CompressionType, IsolationLevel, OffsetSpec, TopicPartition
from broker_core.record.batch_builder import build_batch
from broker_core.record.batch_reader import Record, iter_headers, records_of
from broker_core.record.columns import decode

RECORDS = [
    Record(key=b"k", value=b"v", timestamp_ms=1000),
    Record(key=None, value=None, timestamp_ms=1001),
    Record(key=b"", value=b"", timestamp_ms=999, headers=(("h", b"1"), ("h", None), ("", b""))),
    Record(key="schlüssel".encode(), value=b"x" * 100_000, timestamp_ms=1002),
]


def batches(*sizes, producer=None, first_sequence=0, **given):
    """A batch for each number of records."""
    found, sequence = bytearray(), first_sequence
    for size in sizes:
        identity = {}
        if producer is not None:
            identity = {
                "producer_id": producer.producer_id,
                "producer_epoch": producer.producer_epoch,
                "base_sequence": sequence,
            }
        found += build_batch([Record(value=b"%d" % sequence, timestamp_ms=1000)] * size, **identity, **given)
        sequence += size
    return found


def read_all(client, partition, from_offset=0, *, max_bytes=2**20, isolation=IsolationLevel.READ_UNCOMMITTED):
    """Records of all fetches up to the end."""
    found = []
    while True:
        fetched = client.fetch(partition, from_offset, max_bytes=max_bytes, isolation=isolation)
        if not len(fetched.buffer):
            return found
        for position, _ in iter_headers(fetched.buffer):
            found += [record for record in records_of(fetched.buffer, position) if record.offset >= from_offset]
        from_offset = fetched.next_offset


@pytest.mark.parametrize("codec", list(CompressionType))
def test_records_are_read_as_they_were_written_in_every_codec(client, topic, codec):
    partition = TopicPartition(topic, 0)
    result = client.append(partition, build_batch(RECORDS, compression=codec))
    assert (result.base_offset, result.last_offset) == (0, 3)
    found = read_all(client, partition)
    assert [(one.key, one.value, one.timestamp_ms, one.headers) for one in found] == [
        (one.key, one.value, one.timestamp_ms, one.headers) for one in RECORDS
    ]


def test_batches_of_one_append_are_written_in_order(client, topic):
    partition, producer = TopicPartition(topic, 0), client.init_producer()
    data = batches(*[2] * 12, producer=producer)
    result = client.append(partition, data)
    assert (result.base_offset, result.last_offset) == (0, 23)
    assert [header.base_offset for _, header in iter_headers(data)] == list(range(0, 24, 2))
    assert [one.value for one in read_all(client, partition)] == [b"%d" % (n // 2 * 2) for n in range(24)]


def test_a_repeated_append_is_recognised(client, topic):
    partition, producer = TopicPartition(topic, 0), client.init_producer()
    first = client.append(partition, batches(3, producer=producer))
    assert client.append(partition, batches(3, producer=producer)).base_offset == first.base_offset
    with pytest.raises(OutOfOrderSequenceError):
        client.append(partition, batches(3, producer=producer, first_sequence=50))
    assert client.bounds(partition).log_end_offset == 3


def test_a_fetch_begins_with_the_batch_that_holds_the_offset_and_stays_within_bytes(client, topic):
    partition = TopicPartition(topic, 0)
    size = len(batches(4))
    client.append(partition, batches(4, 4, 4))
    fetched = client.fetch(partition, 5, max_bytes=1)
    assert [header.base_offset for _, header in iter_headers(fetched.buffer)] == [4]
    assert fetched.next_offset == 8
    fetched = client.fetch(partition, 0, max_bytes=2 * size + size // 2)
    assert [header.base_offset for _, header in iter_headers(fetched.buffer)] == [0, 4]
    assert decode(fetched.buffer, from_offset=0).record_batch.num_rows == 8


def test_a_batch_above_the_fetch_limit_is_returned_whole(client, topic):
    partition = TopicPartition(topic, 0)
    client.append(partition, build_batch([Record(value=os.urandom(900_000), timestamp_ms=1)]))
    assert len(client.fetch(partition, 0, max_bytes=1000).buffer) > 900_000


def test_the_bounds_of_a_log(client, topic):
    partition = TopicPartition(topic, 0)
    client.append(partition, batches(5))
    assert len(client.fetch(partition, 5, max_bytes=1000).buffer) == 0
    with pytest.raises(OffsetOutOfRangeError, match="holds offsets 0 to 5") as caught:
        client.fetch(partition, 6, max_bytes=1000)
    assert (caught.value.log_start_offset, caught.value.log_end_offset) == (0, 5)
    assert client.delete_records(partition, 3) == 3
    with pytest.raises(OffsetOutOfRangeError, match="holds offsets 3 to 5"):
        client.fetch(partition, 2, max_bytes=1000)
    assert client.bounds(partition).log_start_offset == 3
    assert client.delete_records(partition, -1) == 5
    with pytest.raises(OffsetOutOfRangeError, match="beyond the high watermark"):
        client.delete_records(partition, 6)


def test_offsets_are_found_by_time(client, topic):
    partition, empty = TopicPartition(topic, 0), TopicPartition(topic, 1)
    client.append(partition, build_batch([Record(value=b"v", timestamp_ms=ms) for ms in (1000, 3000, 2000)]))
    asked = {0: 0, 1000: 0, 1001: 1, 3000: 1, 3001: None}
    for timestamp_ms, offset in asked.items():
        found = client.list_offsets({partition: timestamp_ms, empty: timestamp_ms})
        assert (found[partition] and found[partition].offset, found[empty]) == (offset, None)
    latest = client.list_offsets({partition: OffsetSpec.MAX_TIMESTAMP, empty: OffsetSpec.MAX_TIMESTAMP})
    assert (latest[partition].offset, latest[partition].timestamp_ms, latest[empty]) == (1, 3000, None)
    assert client.list_offsets({partition: OffsetSpec.EARLIEST})[partition].offset == 0
    assert client.list_offsets({partition: OffsetSpec.LATEST})[partition].offset == 3


def test_what_a_topic_refuses(broker, client):
    compacted, small = broker.name(), broker.name()
    client.create_topic(compacted, configs={"cleanup.policy": "compact"})
    client.create_topic(small, configs={"max.message.bytes": "1000", "message.timestamp.after.max.ms": "1000"})
    with pytest.raises(InvalidRecordError, match="key"):
        client.append(TopicPartition(compacted, 0), batches(1))
    with pytest.raises(PolicyViolationError):
        client.delete_records(TopicPartition(compacted, 0), 0)
    with pytest.raises(RecordTooLargeError, match=r"max.message.bytes"):
        client.append(TopicPartition(small, 0), build_batch([Record(value=bytes(2000), timestamp_ms=1)]))
    with pytest.raises(InvalidTimestampError):
        client.append(TopicPartition(small, 0), build_batch([Record(value=b"v", timestamp_ms=2**50)]))


def test_log_append_time_is_returned(broker, client):
    name = broker.name()
    client.create_topic(name, configs={"message.timestamp.type": "LogAppendTime"})
    result = client.append(TopicPartition(name, 0), batches(1))
    assert result.log_append_time_ms > 1_600_000_000_000
    assert client.append(TopicPartition(name, 0), batches(1)).base_offset == 1


def test_a_gap_after_compaction_is_skipped(broker, client):
    name = broker.name()
    client.create_topic(
        name,
        configs={
            "cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01",
            "delete.retention.ms": "0", "min.compaction.lag.ms": "0",
        },
    )  # fmt: skip
    partition = TopicPartition(name, 0)
    for value in (b"1", b"2", b"3"):
        client.append(partition, build_batch([Record(key=b"k", value=value, timestamp_ms=1)]))
    assert [one.value for one in read_all(client, partition)][-1] == b"3"


def test_estimates_from_samples_of_a_real_log_are_close(client, topic):
    partition, producer = TopicPartition(topic, 0), client.init_producer()
    data = batches(*[20] * 300, producer=producer)
    client.append(partition, data)
    assert client.bytes_between(partition, 0, 6_000) == pytest.approx(len(data), rel=0.2)
    found = client.find_offset_within_bytes(partition, 0, 6_000, len(data) // 3)
    assert found == pytest.approx(2_000, rel=0.2)
    assert found % 20 == 0, "not a batch's end"


def test_the_same_log_is_read_as_from_the_twin(client, topic):
    """Compares a fetch with the in-memory cluster that the tests of the planners use."""
    twin, partition = InMemoryCluster(), TopicPartition(topic, 0)
    twin.create_topic(topic)
    for sizes in ((1,), (3, 2), (5,)):
        client.append(partition, batches(*sizes))
        twin.append(partition, batches(*sizes))
    for offset in range(12):
        ours = client.fetch(partition, offset, max_bytes=200)
        theirs = twin.fetch(partition, offset, max_bytes=200)
        assert (ours.next_offset, ours.bounds) == (theirs.next_offset, theirs.bounds)
