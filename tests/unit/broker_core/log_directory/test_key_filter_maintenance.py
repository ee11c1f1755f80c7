import time

import pytest
from support.builders.append_records import append_records

from broker_core.embedded import embedded_cluster
from broker_core.embedded.embedded_cluster import EmbeddedCluster
from broker_core.log_directory import key_filter_maintenance
from broker_core.log_directory.key_filter_maintenance import KEY_FILTER_LOCK_FILE_NAME
from broker_core.log_directory.partition_lock import PartitionLock
from broker_core.model.identifiers import TopicPartition
from broker_core.record.batch_reader import Record
from broker_core.storage.partition_rebuilder import PartitionRebuilder

T0 = TopicPartition("t", 0)
SMALL = {"internal.segment.bytes": "300", "retention.ms": "-1"}


@pytest.fixture
def cluster(tmp_path):
    with EmbeddedCluster(tmp_path / "log", create=True) as opened:
        # Only the maintenance that a test asks for.
        opened._maintenance.stop()
        opened.create_topic("t", configs=SMALL)
        yield opened


def fill(cluster, count=12, first=0):
    for number in range(first, first + count):
        append_records(cluster, "t", Record(key=b"key-%d" % number, value=b"v" * 30))


def filters_in(path):
    return sorted(file.name for file in (path / "log" / "t-0").glob("*.keyfilter"))


def closed_names(cluster):
    return [f"{s.base_offset:020d}.keyfilter" for s in cluster.describe_segments(T0) if not s.is_active]


def test_maintain_creates_missing_filters_and_counts_them(cluster, tmp_path):
    fill(cluster)
    [report] = cluster.maintain()
    assert (report.error, report.key_filter_count) == (None, len(closed_names(cluster)))
    assert filters_in(tmp_path) == closed_names(cluster)
    (tmp_path / "log" / "t-0" / filters_in(tmp_path)[0]).unlink()
    assert [cluster.maintain()[0].key_filter_count for _ in range(2)] == [1, 0]


def test_a_full_segment_gets_its_filter_after_the_append(tmp_path):
    with EmbeddedCluster(tmp_path / "log", create=True) as cluster:
        cluster.create_topic("t", configs=SMALL)
        fill(cluster)
        deadline = time.monotonic() + 20
        while filters_in(tmp_path) != closed_names(cluster) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert filters_in(tmp_path) == closed_names(cluster)


def test_maintenance_after_an_append_reads_a_bounded_amount_newest_first(cluster, tmp_path, monkeypatch):
    fill(cluster)
    monkeypatch.setattr(embedded_cluster, "KEY_FILTER_MAINTENANCE_BYTES", 1)
    cluster._maintain(T0)
    assert filters_in(tmp_path) == closed_names(cluster)[-1:]
    cluster._maintain(T0)
    assert filters_in(tmp_path) == closed_names(cluster)[-2:]


def test_without_work_no_lock_file_is_created(cluster, tmp_path):
    fill(cluster, 1)
    cluster.maintain()
    assert not (tmp_path / "log" / "t-0" / KEY_FILTER_LOCK_FILE_NAME).exists()


def test_a_second_builder_skips_the_partition(cluster, tmp_path):
    fill(cluster)
    other = PartitionLock(str(tmp_path / "log" / "t-0" / KEY_FILTER_LOCK_FILE_NAME))
    with other.exclusive():
        [report] = cluster.maintain()
    assert (report.error, report.key_filter_count) == (None, 0)
    assert cluster.maintain()[0].key_filter_count > 0


def test_a_damaged_segment_gets_no_filter_and_the_others_do(cluster, tmp_path):
    fill(cluster)
    names = closed_names(cluster)
    first = tmp_path / "log" / "t-0" / "00000000000000000000.log"
    content = bytearray(first.read_bytes())
    content[70] ^= 1
    first.write_bytes(content)
    [report] = cluster.maintain()
    assert (report.error, report.key_filter_count) == (None, len(names) - 1)
    assert filters_in(tmp_path) == names[1:]


def test_leftovers_of_a_dead_builder_are_removed(cluster, tmp_path):
    fill(cluster)
    left = tmp_path / "log" / "t-0" / "00000000000000000777.keyfilter.tmp"
    left.write_bytes(b"half")
    cluster.maintain()
    assert not left.exists()


def test_a_topic_recreated_during_a_build_gets_no_filter_of_the_old_segment(cluster, tmp_path, monkeypatch):
    fill(cluster)
    written = PartitionRebuilder.write_key_filter
    hits = []

    def write_slowly(store, segment):
        result = written(store, segment)
        if not hits:
            hits.append(1)
            cluster.delete_topic("t")
            cluster.create_topic("t", configs=SMALL)
            fill(cluster, first=100)
        return result

    monkeypatch.setattr(PartitionRebuilder, "write_key_filter", write_slowly)
    cluster.maintain()
    assert hits
    assert filters_in(tmp_path) == []


def test_internal_topics_get_no_filters(cluster, tmp_path, monkeypatch):
    fill(cluster)
    monkeypatch.setattr(key_filter_maintenance, "is_internal_topic", lambda name: True)
    assert cluster.maintain()[0].key_filter_count == 0
    assert filters_in(tmp_path) == []
