import pytest
from support.builders.append_records import append_records

from broker_core.embedded.embedded_cluster import EmbeddedCluster
from broker_core.model.exceptions import UnknownPartitionError, UnknownTopicError
from broker_core.model.identifiers import TopicPartition
from broker_core.record.batch_reader import Record

T0 = TopicPartition("t", 0)


@pytest.fixture
def cluster(tmp_path):
    with EmbeddedCluster(tmp_path / "log", create=True) as opened:
        opened._maintenance.stop()
        opened.create_topic("t", configs={"internal.segment.bytes": "300", "retention.ms": "-1"})
        for number in range(12):
            append_records(opened, "t", Record(key=b"key-%d" % number, value=b"v" * 30))
        yield opened


def test_segments_are_described_in_order_and_the_last_one_is_active(cluster):
    segments = cluster.describe_segments(T0)
    assert len(segments) > 2
    assert [s.base_offset for s in segments[1:]] == [s.next_offset for s in segments[:-1]]
    assert [s.is_active for s in segments] == [False] * (len(segments) - 1) + [True]
    assert sum(s.size_bytes for s in segments) == cluster.bytes_between(T0, 0, 12)


def test_a_byte_limit_ends_at_a_batch_boundary(cluster):
    batch_bytes = cluster.bytes_between(T0, 0, 1)
    assert cluster.find_offset_within_bytes(T0, 0, 12, 3 * batch_bytes) == 3
    assert cluster.find_offset_within_bytes(T0, 0, 12, 1) == 1
    assert cluster.find_offset_within_bytes(T0, 9, 12, 10**9) == 12


def test_a_key_lookup_reads_only_matching_ranges(cluster):
    assert cluster.ranges_with_key(T0, b"key-0", 0, 12).ranges == ((0, 12),)
    cluster.maintain()
    first, *_, active = cluster.describe_segments(T0)
    found = cluster.ranges_with_key(T0, b"key-0", 0, 12)
    assert found.ranges == ((0, first.next_offset), (active.base_offset, 12))
    assert found.skipped_bytes == cluster.bytes_between(T0, first.next_offset, active.base_offset)
    assert cluster.ranges_with_key(T0, None, 0, 12).ranges == ((active.base_offset, 12),)


def test_a_missing_partition_is_named(cluster):
    calls = [
        lambda tp: cluster.describe_segments(tp),
        lambda tp: cluster.bytes_between(tp, 0, 1),
        lambda tp: cluster.find_offset_within_bytes(tp, 0, 1, 1),
        lambda tp: cluster.ranges_with_key(tp, b"", 0, 1),
    ]
    for call in calls:
        with pytest.raises(UnknownTopicError):
            call(TopicPartition("none", 0))
        with pytest.raises(UnknownPartitionError):
            call(TopicPartition("t", 5))
