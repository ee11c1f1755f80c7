"""The way past what cannot be read: which rows are left, and what is said of the others."""

import logging
import struct
from dataclasses import replace

import pytest
from support.brokers.in_memory_cluster import InMemoryCluster
from support.spark.read_query import batch_values, read_options, values_of

from broker_core.cluster import FetchedBatches, PartitionBounds
from broker_core.model.identifiers import CompressionType, TopicPartition
from broker_core.record.batch_builder import build_batch
from broker_core.record.batch_reader import Record, iter_headers
from spark_streamlog.errors import ConditionError
from spark_streamlog.rows.record_rows import RecordRows
from spark_streamlog.source.fetched_rows import FetchedRows

T0 = TopicPartition("t", 0)

TOO_LATE_MS = 2**63 // 1000 + 1
"""The first millisecond, or nearly, that 64-bit microseconds cannot hold: SPARK-56243."""


@pytest.fixture
def cluster():
    cluster = InMemoryCluster()
    cluster.create_topic("t")
    return cluster


def add(cluster, *records, compression=CompressionType.NONE):
    """(value, timestamp) of each record of one batch."""
    batch = build_batch(
        [Record(value=value.encode(), timestamp_ms=timestamp_ms) for value, timestamp_ms in records],
        compression=compression,
    )
    cluster.append(T0, batch)


@pytest.mark.parametrize("compression", [CompressionType.NONE, CompressionType.GZIP])
def test_a_timestamp_that_does_not_fit_is_reported_with_topic_partition_and_offset(cluster, compression):
    add(cluster, ("a", 1), ("b", 2))
    add(cluster, ("c", 3), ("d", TOO_LATE_MS), ("e", 4), compression=compression)
    place = r"topic t partition 0 at offset 3 cannot be read: timestamp 9223372036854776 ms at offset 3 is out of"
    with pytest.raises(ConditionError, match=rf"STREAMLOG_UNREADABLE_RECORD\] .*{place}.*onUnreadableRecord=skip"):
        batch_values(cluster)


@pytest.mark.parametrize("compression", [CompressionType.NONE, CompressionType.GZIP])
@pytest.mark.parametrize("bad", [0, 1, 2])
def test_skip_mode_skips_only_unreadable_records(cluster, caplog, compression, bad):
    add(cluster, ("a", 1), ("b", 2))
    records = [("c", 3), ("d", 3), ("e", 3)]
    records[bad] = (records[bad][0], -TOO_LATE_MS)
    add(cluster, *records, compression=compression)
    add(cluster, ("f", TOO_LATE_MS), ("g", TOO_LATE_MS))
    add(cluster, ("h", 5))
    expected = ["a", "b", *(value for number, value in enumerate("cde") if number != bad), "h"]
    with caplog.at_level(logging.WARNING, "spark_streamlog"):
        assert batch_values(cluster, onUnreadableRecord="skip") == expected
    (said,) = [message for message in caplog.messages if "onUnreadableRecord" in message]
    assert f"3 record(s) of topic t partition 0 were skipped, the first at offset {2 + bad}: timestamp -922" in said


def test_an_unreadable_record_outside_of_the_range_is_ignored(cluster):
    add(cluster, ("a", TOO_LATE_MS), ("b", 1), ("c", 2), ("d", TOO_LATE_MS))
    given = {"startingOffsets": '{"t":{"0":1}}', "endingOffsets": '{"t":{"0":3}}'}
    assert batch_values(cluster, **given) == ["b", "c"]


def buffer_of(*batches):
    whole, offset = b"", 0
    for batch, count in batches:
        whole += struct.pack(">q", offset) + bytes(batch[8:])
        offset += count
    return whole, offset


def three_batches(compression):
    return [
        (build_batch([Record(value=f"{n}{i}".encode()) for i in range(2)], compression=compression), 2)
        for n in range(3)
    ]


def from_offset(fetched, offset):
    """The batches that a fetch from this offset returns."""
    position = next((at for at, header in iter_headers(fetched.buffer) if header.next_offset > offset), 0)
    return replace(fetched, buffer=fetched.buffer[position:])


def read(buffer, until, **given):
    bounds = PartitionBounds(log_start_offset=0, last_stable_offset=until, high_watermark=until, log_end_offset=until)
    fetched = FetchedBatches(buffer=memoryview(buffer), next_offset=until, bounds=bounds)
    rows, found = RecordRows(T0, include_headers=False), FetchedRows(T0, read_options(**given))
    values, reached = [], 0
    while reached < until:
        # The rest of a buffer is fetched again after a batch that was skipped.
        before = reached
        for decoded in found.decoded(from_offset(fetched, reached), reached, until):
            assert decoded.next_offset > reached
            reached = decoded.next_offset
            if decoded.record_batch.num_rows:
                values += values_of([rows.to_rows(decoded.record_batch)])
        assert reached > before
    found.report_skipped()
    return values, reached


@pytest.mark.parametrize("compression", [CompressionType.NONE, CompressionType.GZIP])
@pytest.mark.parametrize("bad", [0, 1, 2])
def test_a_corrupt_batch_is_skipped_as_a_whole(caplog, compression, bad):
    buffer, until = buffer_of(*three_batches(compression))
    position = sum(len(batch) for batch, _ in three_batches(compression)[: bad + 1]) - 1
    buffer = buffer[:position] + bytes([buffer[position] ^ 0x55]) + buffer[position + 1 :]
    with pytest.raises(ConditionError, match=f"topic t partition 0 at offset {2 * bad} cannot be read: checksum"):
        read(buffer, until)
    values, reached = read(buffer, until, onUnreadableRecord="skip")
    assert values == [f"{n}{i}" for n in range(3) if n != bad for i in range(2)]
    assert reached == until
    assert "2 record(s) of topic t partition 0 were skipped" in caplog.text


def test_a_batch_with_an_unknown_end_is_never_skipped():
    buffer, until = buffer_of(*three_batches(CompressionType.NONE))
    start = len(three_batches(CompressionType.NONE)[0][0])
    magic = start + 16
    buffer = buffer[:magic] + b"\x07" + buffer[magic + 1 :]
    with pytest.raises(ConditionError, match=r"STREAMLOG_UNREADABLE_RECORD.*magic 7"):
        read(buffer, until, onUnreadableRecord="skip")


def test_records_of_aborted_transactions_stay_hidden_after_a_skipped_record(cluster):
    add(cluster, ("a", 1))
    cluster.add("t", "x0", "x1", producer_id=1)
    add(cluster, ("b", TOO_LATE_MS), ("c", 2))
    cluster.add("t", "x2", producer_id=1)
    cluster.write_marker("t", 1, is_commit=False)
    add(cluster, ("d", TOO_LATE_MS), ("e", 2))
    cluster.add("t", "y", producer_id=1)
    cluster.write_marker("t", 1, is_commit=True)
    assert batch_values(cluster, onUnreadableRecord="skip") == ["a", "c", "e", "y"]


def test_on_unreadable_record_is_fail_or_skip():
    with pytest.raises(ConditionError, match="onUnreadableRecord must be one of fail, skip, not 'null'"):
        read_options(onUnreadableRecord="null")
