"""A partition is locked until readers can see what was written. If it were released earlier, the next writer would find
batches after the published end, take them for those of a dead process, and answer with offsets of its own."""

import pytest
from support.builders.builders import a_batch

from broker_core.broker.partition.partition_target import PartitionTarget
from broker_core.log.append_request import AppendRequest
from broker_core.log_directory.directory import LogDirectory
from broker_core.log_directory.metadata_log import MetadataLog
from broker_core.log_directory.partition_access import PartitionAccess
from broker_core.log_directory.partition_folders import PartitionFolders
from broker_core.log_directory.partition_lock import LOCK_FILE_NAME, PartitionLock
from broker_core.log_directory.system_ports import SystemClock, SystemEntropy
from broker_core.model.identifiers import TopicPartition
from broker_core.ports import LockMode
from broker_core.storage.os_file_system import OsFileSystem
from broker_core.storage.partition_bounds import BoundsFile

ENTROPY = SystemEntropy()
T0 = TopicPartition("t", 0)
NOW_MS = 1_700_000_000_000


class LockedPublishes:
    """A directory with the topic `t`. `seen`: of each published end of t-0, whether the partition was locked then."""

    def __init__(self, path, lock_mode, monkeypatch):
        fs = OsFileSystem()
        directory = LogDirectory(fs, str(path), create=True, entropy=ENTROPY, lock_mode=lock_mode)
        directory.make()
        log = MetadataLog(fs, directory, SystemClock())
        folders = PartitionFolders(fs, str(path), log, ENTROPY)
        self.access = PartitionAccess(fs, directory, log, folders, max_open_count=10)
        self.topic = log.change(lambda c: c.plan_create_topic("t", partition_count=1, configs={}, entropy=ENTROPY))
        self.write([a_batch(1)])  # makes the folder
        self.seen = []
        self._other = PartitionLock(str(path / "t-0" / LOCK_FILE_NAME), creates=False)
        publish = BoundsFile.publish

        def watched(file, bounds):
            self.seen.append((bounds.log_end_offset, self.is_locked))
            publish(file, bounds)

        monkeypatch.setattr(BoundsFile, "publish", watched)

    @property
    def is_locked(self):
        """For another process."""
        got = self._other.acquire(LockMode.SHARED, timeout_seconds=0)
        if got:
            self._other.release()
        return not got

    def write(self, batches):
        self.access.write(T0, lambda store: [store.append(batch, now_ms=NOW_MS) for batch in batches])

    def target(self):
        return PartitionTarget(access=self.access, topic_partition=T0, topic_id=self.topic.topic_id)


@pytest.fixture
def shared(tmp_path, monkeypatch):
    return LockedPublishes(tmp_path / "log", LockMode.SHARED, monkeypatch)


@pytest.fixture
def alone(tmp_path, monkeypatch):
    return LockedPublishes(tmp_path / "log", LockMode.EXCLUSIVE, monkeypatch)


def test_each_append_is_published_under_the_lock(shared):
    shared.write([a_batch(1), a_batch(1)])
    assert shared.seen == [(2, True), (3, True)]
    assert not shared.is_locked


def test_an_append_group_is_published_under_the_lock(shared):
    shared.target().append(
        [AppendRequest(batches=a_batch(1)) for _ in range(2)], now_ms=NOW_MS, wants_all_producers=False
    )
    assert shared.seen == [(3, True)]
    assert not shared.is_locked


def test_begun_appends_stay_locked_until_they_are_published(alone):
    target = alone.target()
    begun = target.maybe_begin([AppendRequest(batches=a_batch(1))], now_ms=NOW_MS)
    assert begun is not None
    assert (alone.is_locked, alone.seen) == (True, [])
    held, pending = begun
    if pending.needs_sync:
        pending.sync()
    target.publish(held, pending)
    assert alone.seen == [(2, True)]
    assert not alone.is_locked


def test_a_log_start_is_moved_under_the_lock(shared):
    shared.access.write(T0, lambda store: store.delete_records(1))
    assert shared.seen
    assert all(is_locked for _, is_locked in shared.seen)
    assert not shared.is_locked
