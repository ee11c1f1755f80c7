from pathlib import Path

import pytest
from support.builders.builders import a_batch, a_record
from support.clients.transacting import SetClock
from support.files.filled_disk import FilledDisk

from broker_core.cluster import GroupOffset
from broker_core.embedded.embedded_cluster import EmbeddedCluster
from broker_core.log_directory.partition_lock import PartitionLock
from broker_core.log_directory.partition_maintenance import COMPACTION_LOCK_FILE_NAME
from broker_core.model.exceptions import DiskFullError
from broker_core.model.identifiers import TopicPartition
from broker_core.ports import LockMode
from broker_core.record.batch_reader import iter_headers, records_of
from broker_core.storage.compaction_run import CompactionReport
from broker_core.storage.os_file_system import OsFileSystem

T0 = TopicPartition("t", 0)
SMALL = {"internal.segment.bytes": "300", "retention.ms": "-1"}
COMPACTED = {**SMALL, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
NOW_MS = 1_700_000_100_000


@pytest.fixture
def cluster(tmp_path):
    with EmbeddedCluster(tmp_path / "log", create=True, clock=SetClock(NOW_MS)) as opened:
        # Only the maintenance that a test asks for.
        opened._maintenance.stop()
        yield opened


def fill(cluster, count, key=b"k"):
    for number in range(count):
        cluster.append(T0, a_batch([a_record(number, key=key, value=b"v" * 100)]))


def offsets_in(cluster):
    bounds = cluster.bounds(T0)
    offset, found = bounds.log_start_offset, []
    while offset < bounds.high_watermark:
        fetched = cluster.fetch(T0, offset, max_bytes=10_000)
        for position, _ in iter_headers(fetched.buffer):
            found.extend(record.offset for record in records_of(fetched.buffer, position))
        offset = fetched.next_offset
    return found


def test_retention_removes_segments_above_retention_bytes(cluster):
    cluster.create_topic("t", configs={**SMALL, "retention.bytes": "500"})
    fill(cluster, 20)
    [report] = cluster.maintain(["t"])
    assert report.error is None
    assert report.deleted_segment_count > 3
    assert report.deleted_offset_count == cluster.bounds(T0).log_start_offset
    assert cluster.bounds(T0).log_start_offset == offsets_in(cluster)[0] > 10


def test_retention_keeps_pinned_offsets_until_the_pin_expires(cluster):
    cluster.create_topic("t", configs={**SMALL, "retention.bytes": "0"})
    fill(cluster, 20)
    pin = GroupOffset(offset=7, metadata=f"streamlog-pin-until:{NOW_MS + 1000}")
    cluster.commit_offsets("reader", {T0: pin})
    cluster.maintain(["t"])
    assert 0 < cluster.bounds(T0).log_start_offset <= 7
    assert offsets_in(cluster)[-1] == 19
    cluster._clock.time_ms = NOW_MS + 1000
    cluster.maintain(["t"])
    assert cluster.bounds(T0).log_start_offset == 20


def test_nothing_is_deleted_while_pins_are_unreadable(cluster, tmp_path):
    cluster.create_topic("t", configs={**SMALL, "retention.bytes": "0"})
    fill(cluster, 20)
    cluster.commit_offsets("reader", {T0: GroupOffset(offset=7)})
    path = tmp_path / "log" / "__consumer_offsets-0" / "00000000000000000000.log"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with EmbeddedCluster(tmp_path / "log", clock=SetClock(NOW_MS)) as other:
        [report] = other.maintain(["t"])
    assert "CorruptBatchError" in report.error
    assert cluster.bounds(T0).log_start_offset == 0


def test_compaction_keeps_the_newest_of_each_key_and_the_active_segment(cluster):
    cluster.create_topic("t", configs=COMPACTED)
    fill(cluster, 21)
    [report] = cluster.maintain()
    assert report.error is None
    assert report.compaction.records_removed >= 15
    assert len(offsets_in(cluster)) == 21 - report.compaction.records_removed
    assert offsets_in(cluster)[-1] == 20


def test_a_topic_without_compaction_gets_no_compaction_lock(cluster, tmp_path):
    cluster.create_topic("t", configs=SMALL)
    fill(cluster, 5)
    cluster.maintain()
    assert not (tmp_path / "log" / "t-0" / COMPACTION_LOCK_FILE_NAME).exists()


def test_a_second_compactor_skips_the_partition(cluster, tmp_path):
    cluster.create_topic("t", configs=COMPACTED)
    fill(cluster, 21)
    other = PartitionLock(str(tmp_path / "log" / "t-0" / COMPACTION_LOCK_FILE_NAME))
    with other.exclusive():
        [report] = cluster.maintain()
    assert (report.error, report.compaction) == (None, CompactionReport())
    assert other.acquire(LockMode.EXCLUSIVE, timeout_seconds=0)


def test_an_error_in_one_partition_is_reported_and_stops_no_other(cluster, tmp_path):
    cluster.create_topic("s", configs=SMALL)
    cluster.create_topic("t", configs={**SMALL, "retention.bytes": "500"})
    fill(cluster, 20)
    (tmp_path / "log" / "s-0" / ".lock").unlink()
    (tmp_path / "log" / "s-0" / ".lock").mkdir()
    broken, whole = cluster.maintain()
    assert "Is a directory" in broken.error
    assert (whole.partition, whole.error) == (T0, None)
    assert whole.deleted_segment_count


def test_a_topic_deleted_before_its_turn_is_not_an_error(cluster):
    cluster.create_topic("t", configs=SMALL)

    def delete(partition, done_count, total_count):
        cluster.delete_topic(partition.topic)

    [report] = cluster.maintain(["t"], progress=delete)
    assert cluster.describe_topics() == {}
    assert report.error is None


class MeddlingFileSystem(OsFileSystem):
    """Calls `meddle(path)` once, before a file with this ending is made."""

    ending, meddle = "?", None

    def open(self, path, *, writable, create=False):
        if create and self.meddle is not None and path.endswith(self.ending):
            meddle, self.meddle = self.meddle, None
            meddle(path)
        return super().open(path, writable=writable, create=create)


@pytest.mark.parametrize("ending", [".log.cleaned", ".index.cleaned", ".txnindex.cleaned", ".keyfilter.tmp"])
def test_maintenance_of_a_deleted_topic_does_not_touch_a_recreated_one(tmp_path, ending):
    fs = MeddlingFileSystem()
    settings = SMALL if ending == ".keyfilter.tmp" else COMPACTED
    hits = []
    with EmbeddedCluster(tmp_path / "log", create=True, clock=SetClock(NOW_MS), file_system=fs) as cluster:
        cluster._maintenance.stop()
        cluster.create_topic("t", configs=settings)
        fill(cluster, 20)

        def make_it_again(path):
            cluster.delete_topic("t")
            cluster.create_topic("t", configs=settings)
            fill(cluster, 20)
            Path(path).write_bytes(b"of another process's maintenance")
            hits.append(path)

        fs.ending, fs.meddle = ending, make_it_again
        [report] = cluster.maintain(["t"])
        assert Path(hits[0]).read_bytes() == b"of another process's maintenance"
        assert report.error is None
        assert report.key_filter_count == report.compaction.segments_cleaned == 0
        assert offsets_in(cluster) == list(range(20))


def test_records_deleted_during_compaction_are_not_an_error(cluster, monkeypatch):
    from broker_core.storage.partition_rebuilder import PartitionRebuilder

    cluster.create_topic("t", configs={**COMPACTED, "cleanup.policy": "compact,delete"})
    fill(cluster, 20)
    clean, hits = PartitionRebuilder.clean_compaction, []

    def clean_late(store, job, **arguments):
        hits.append(cluster.delete_records(T0, 10))
        return clean(store, job, **arguments)

    monkeypatch.setattr(PartitionRebuilder, "clean_compaction", clean_late)
    [report] = cluster.maintain(["t"])
    assert hits == [10]
    assert report.error is None
    monkeypatch.undo()
    [report] = cluster.maintain(["t"])
    assert report.compaction.segments_cleaned


def test_a_topic_recreated_during_compaction_is_not_changed(cluster, monkeypatch):
    from broker_core.storage.partition_rebuilder import PartitionRebuilder

    cluster.create_topic("t", configs=COMPACTED)
    fill(cluster, 21)
    cleaned = PartitionRebuilder.clean_compaction
    hits = []

    def clean_slowly(store, job, **arguments):
        result = cleaned(store, job, **arguments)
        hits.append(1)
        cluster.delete_topic("t")
        cluster.create_topic("t", configs=COMPACTED)
        fill(cluster, 21)
        return result

    monkeypatch.setattr(PartitionRebuilder, "clean_compaction", clean_slowly)
    [report] = cluster.maintain()
    assert hits
    assert report.compaction == CompactionReport()
    assert offsets_in(cluster) == list(range(21))


def test_maintenance_is_due_only_while_there_is_work(cluster):
    cluster.create_topic("t", configs={**SMALL, "retention.bytes": "1000"})
    maintenance = cluster._own().maintenance
    assert not maintenance.is_due(T0)
    fill(cluster, 1)
    assert not maintenance.is_due(T0)
    fill(cluster, 20)
    assert maintenance.is_due(T0)
    cluster.maintain(["t"])
    assert not maintenance.is_due(T0)
    cluster.alter_topic_configs("t", {"retention.bytes": None, "retention.ms": "1000"})
    assert maintenance.is_due(T0)


def test_a_compacted_partition_is_due_when_it_has_closed_segments(cluster):
    cluster.create_topic("t", configs=COMPACTED)
    maintenance = cluster._own().maintenance
    fill(cluster, 1)
    assert not maintenance.is_due(T0)
    fill(cluster, 5)
    assert maintenance.is_due(T0)


@pytest.mark.parametrize("has_folders", [False, True])
@pytest.mark.parametrize(
    "begin",
    [
        lambda cluster: cluster.commit_offsets("g", {T0: GroupOffset(offset=3)}),
        lambda cluster: cluster.init_producer("id"),
    ],
    ids=["a group", "a transaction"],
)
def test_what_a_full_disk_refused_to_begin_does_not_stop_retention(tmp_path, begin, has_folders):
    disk = FilledDisk()
    with EmbeddedCluster(tmp_path / "log", create=True, clock=SetClock(NOW_MS), file_system=disk) as cluster:
        cluster._maintenance.stop()
        cluster.create_topic("t", configs={**SMALL, "retention.bytes": "500"})
        fill(cluster, 20)
        disk.is_full, disk.has_folders = True, has_folders
        with pytest.raises(DiskFullError):
            begin(cluster)
    with EmbeddedCluster(tmp_path / "log", clock=SetClock(NOW_MS), file_system=disk) as cluster:
        cluster._maintenance.stop()
        refused_count = disk.refused_count
        assert (cluster.list_groups(), cluster.fetch_offsets("g"), cluster.list_transactions()) == ((), {}, ())
        assert disk.refused_count == refused_count > 0
        internal, report = cluster.maintain()
        assert internal.partition.topic.startswith("__")
        assert internal.error is None
        assert "creating a key filter" in report.error, "only what comes after the deletion needs space"
        assert report.deleted_segment_count > 3
        disk.is_full = False
        begin(cluster)
        assert cluster.list_groups() or cluster.list_transactions()
