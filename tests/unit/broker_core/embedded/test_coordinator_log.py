import random
import threading

import pytest
from support.clients.transacting import SetClock

from broker_core.coordinator.contract import CoordinatorResult
from broker_core.embedded.embedded_cluster import EmbeddedCluster
from broker_core.group.group_records import OffsetCommitRecord, OffsetCommitValue
from broker_core.group.offsets.group_offsets import GroupOffsets
from broker_core.log_directory.internal_topics import CONSUMER_OFFSETS_PARTITION
from broker_core.model.exceptions import DiskFullError, InvalidGroupError, RecordTooLargeError, UnknownTopicError
from broker_core.model.identifiers import TopicPartition
from broker_core.storage.os_file_system import OsFileSystem

T0 = TopicPartition("t", 0)
DATA_FILE = "__consumer_offsets-0/00000000000000000000.log"


class CountingFileSystem(OsFileSystem):
    """Counts syncs of the log's data file, and refuses writes to it while `is_full`."""

    def __init__(self):
        self.syncs, self.refused, self.is_full = 0, 0, False

    def open(self, path, *, writable, create=False):
        file = super().open(path, writable=writable, create=create)
        return _CountingFile(self, file) if writable and path.endswith(DATA_FILE) else file


class _CountingFile:
    def __init__(self, fs, file):
        self._fs, self._file = fs, file

    def __getattr__(self, name):
        return getattr(self._file, name)

    def sync(self):
        self._fs.syncs += 1
        self._file.sync()

    def write_at(self, position, data):
        if self._fs.is_full:
            self._fs.refused += 1
            raise OSError(28, "No space left on device", self._file.path)
        self._file.write_at(position, data)


@pytest.fixture
def fs():
    return CountingFileSystem()


@pytest.fixture
def cluster(tmp_path, fs):
    with EmbeddedCluster(tmp_path / "log", create=True, clock=SetClock(), file_system=fs) as opened:
        opened.create_topic("t")
        yield opened


@pytest.fixture
def other(cluster, tmp_path):
    with EmbeddedCluster(tmp_path / "log", clock=SetClock()) as opened:
        yield opened


def log_of(cluster):
    return cluster._own().offsets._log


def a_record(offset, metadata="", group="group"):
    value = OffsetCommitValue(offset=offset, metadata=metadata, commit_time_ms=1)
    return OffsetCommitRecord(group_id=group, partition=T0, value=value)


def putting(*records, reply=None):
    return lambda _: CoordinatorResult(records=records, reply=reply)


def offset_in(log):
    log.state.refresh()
    return log.state.look(lambda offsets: [each.offset for each in offsets.fetch("group").values()])


def test_a_change_is_planned_on_records_of_other_processes(cluster, other):
    def count(offsets):
        current = sum(each.offset for each in offsets.fetch("group").values())
        return CoordinatorResult(records=(a_record(current + 1),), reply=current)

    def work(process):
        for _ in range(10):
            log_of(process).change(count)

    threads = [threading.Thread(target=work, args=(process,)) for process in (cluster, other, cluster, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert offset_in(log_of(cluster)) == offset_in(log_of(other)) == [40]


def test_the_records_of_a_change_are_one_batch(cluster):
    log_of(cluster).change(putting(a_record(1, group="a"), a_record(1, group="b"), a_record(1, group="c")))
    fetched = cluster.fetch(CONSUMER_OFFSETS_PARTITION, 0, max_bytes=1)
    assert fetched.next_offset == 3


def test_a_plan_without_records_appends_nothing(cluster):
    log = log_of(cluster)
    log.change(putting(a_record(1)))
    assert log.change(putting(reply="as it was")) == "as it was"
    assert cluster.bounds(CONSUMER_OFFSETS_PARTITION).log_end_offset == 1


def test_a_refused_plan_creates_no_log(cluster):
    def refuse(offsets):
        raise InvalidGroupError("no")

    with pytest.raises(InvalidGroupError):
        log_of(cluster).change(refuse)
    assert "__consumer_offsets" not in cluster.describe_topics()


def test_a_change_that_may_be_lost_is_synced_with_the_next_one(cluster, fs, other):
    log = log_of(cluster)
    log.change(putting(a_record(1)))
    before = fs.syncs
    for number in range(2, 5):
        log.change(putting(a_record(number), reply=number), may_be_lost=lambda reply: reply > 1)
        assert offset_in(log_of(other)) == [number]
    assert fs.syncs == before
    log.change(putting(a_record(5), reply=0), may_be_lost=lambda reply: reply > 1)
    assert fs.syncs == before + 1
    log_of(other).change(putting(a_record(6)))
    assert offset_in(log) == [6]


def test_a_change_whose_write_failed_has_no_effect(cluster, other, fs):
    log = log_of(cluster)
    log.change(putting(a_record(1)))
    fs.is_full = True
    with pytest.raises(DiskFullError):
        log.change(putting(a_record(2)))
    assert fs.refused
    fs.is_full = False
    assert offset_in(log) == offset_in(log_of(other)) == [1]
    log.change(putting(a_record(3)))
    assert offset_in(log_of(other)) == [3]


def test_a_change_too_large_for_the_log_is_refused_as_a_whole(cluster):
    noise = random.Random(1)
    records = [a_record(1, metadata=noise.randbytes(1500).hex(), group=f"group-{number:04d}") for number in range(900)]
    with pytest.raises(RecordTooLargeError, match="exceeds"):
        log_of(cluster).change(putting(*records))
    assert log_of(cluster).state.look(GroupOffsets.groups) == ()


def test_a_roll_is_reported(cluster):
    log = log_of(cluster)
    told = []
    log.on_rolled = told.append
    log.change(putting(a_record(1)))
    cluster.alter_topic_configs("__consumer_offsets", {"internal.segment.bytes": "200"})
    for number in range(3):
        log.change(putting(a_record(number, metadata="x" * 90)))
    assert told and set(told) == {CONSUMER_OFFSETS_PARTITION}


def test_repeated_deletion_of_the_log_raises_with_an_explanation(cluster, monkeypatch):
    log = log_of(cluster)
    log.change(putting(a_record(1)))
    attempts = []

    def gone(partition, operation):
        attempts.append(partition)
        raise UnknownTopicError("Topic '__consumer_offsets' does not exist.")

    monkeypatch.setattr(log._access, "write", gone)
    with pytest.raises(UnknownTopicError):
        log.change(putting(a_record(2)))
    assert len(attempts) == 3
