import contextlib
import errno
import os
import shutil
import threading

import pytest
from support.builders.append_records import append_values
from support.builders.builders import a_batch
from support.files.filled_disk import FilledDisk

from broker_core.embedded.embedded_cluster import EmbeddedCluster
from broker_core.log_directory.directory import LogDirectory
from broker_core.log_directory.metadata_log import MetadataLog
from broker_core.log_directory.partition_access import PartitionAccess
from broker_core.log_directory.partition_folders import PartitionFolders
from broker_core.log_directory.partition_lock import PartitionLock
from broker_core.log_directory.system_ports import SystemClock, SystemEntropy
from broker_core.model.exceptions import (
    CorruptDataError,
    DiskFullError,
    InvalidRecordError,
    RecordTooLargeError,
    StorageError,
    UnknownTopicError,
)
from broker_core.model.identifiers import OffsetSpec, TopicPartition
from broker_core.ports import LockMode
from broker_core.storage.checkpoints import read_partition_metadata
from broker_core.storage.os_file_system import OsFileSystem
from broker_core.storage.readable_partition import ReadablePartition

ENTROPY = SystemEntropy()
T0 = TopicPartition("t", 0)


class Door:
    """One process's way into a directory."""

    def __init__(self, path, max_open_count=10, lock_mode=LockMode.SHARED):
        self.path = path
        fs = OsFileSystem()
        self.directory = LogDirectory(fs, str(path), create=True, entropy=ENTROPY, lock_mode=lock_mode)
        self.directory.make()
        self.log = MetadataLog(fs, self.directory, SystemClock())
        self.folders = PartitionFolders(fs, str(path), self.log, ENTROPY)
        self.access = PartitionAccess(fs, self.directory, self.log, self.folders, max_open_count=max_open_count)

    def create(self, name="t", partition_count=1, **configs):
        configs = {setting.replace("_", "."): value for setting, value in configs.items()}
        return self.log.change(
            lambda c: c.plan_create_topic(name, partition_count=partition_count, configs=configs, entropy=ENTROPY)
        )

    def delete(self, name="t"):
        self.folders.remove(self.log.change(lambda c: c.plan_delete_topic(name)))

    def append(self, partition=T0, records=1):
        return self.access.write(
            partition, lambda store: store.append(a_batch(records), now_ms=1_700_000_000_000)
        ).result.base_offset

    def end(self, partition=T0):
        return self.access.read(partition, ReadablePartition.bounds).log_end_offset


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log"


def test_several_processes_alternate_on_one_partition(path):
    one, two = Door(path), Door(path)
    one.create()
    assert [door.append() for door in (one, two, two, one, two)] == [0, 1, 2, 3, 4]
    assert one.end() == two.end() == 5


def test_a_folder_missing_after_a_crash_is_created_by_the_first_write_and_reads_as_empty(path):
    door = Door(path)
    door.create(partition_count=3)
    assert not (path / "t-0").exists()
    assert door.end() == 0
    assert not (path / "t-0").exists()
    assert door.append(TopicPartition("t", 2)) == 0
    assert (path / "t-2").is_dir()


def test_an_incomplete_folder_is_completed_on_use(path):
    one, two = Door(path), Door(path)
    topic = one.create()
    one.append()
    two.folders.make_all(topic)
    os.remove(path / "t-0" / "partition.metadata")
    assert one.end() == 1
    assert read_partition_metadata(OsFileSystem(), str(path / "t-0")) == topic.topic_id
    assert two.append() == 1


def test_a_recreated_topic_is_empty_for_a_process_that_had_the_old_one_open(path):
    one, two = Door(path), Door(path)
    one.create()
    assert [two.append() for _ in range(3)] == [0, 1, 2]
    assert one.end() == 3
    two.delete()
    two.create()
    assert one.end() == 0
    assert one.append() == 0
    assert two.end() == 1


def test_a_result_of_a_topic_recreated_meanwhile_is_discarded(path):
    one, two = Door(path), Door(path)
    one.create()
    one.append()
    calls = []

    def read_slowly(store):
        calls.append(store)
        end = store.bounds().log_end_offset
        if len(calls) == 1:
            two.delete()
            two.create()
        return end

    assert one.access.read(T0, read_slowly) == 0
    assert len(calls) == 2


def test_reading_a_topic_deleted_meanwhile_raises_unknown_topic(path):
    one, two = Door(path), Door(path)
    one.create()
    one.append()

    def read_slowly(store):
        two.delete()
        return store.read(0, max_bytes=100)

    with pytest.raises(UnknownTopicError):
        one.access.read(T0, read_slowly)


def test_a_writer_that_waited_during_a_recreation_writes_to_the_new_topic(path):
    one, two = Door(path), Door(path)
    one.create()
    one.append()
    entered = one.log.refresh
    calls = []

    def refresh_late(**arguments):
        calls.append(1)
        if len(calls) == 1:
            # The lock is held by now, on a folder that is about to be another topic's: no process can rename it, so
            # the other process only gets as far as the metadata log.
            two.log.change(lambda c: c.plan_delete_topic("t"))
            two.create()
        entered(**arguments)

    one.log.refresh = refresh_late
    assert one.append() == 0
    assert len(calls) > 1
    assert two.end() == 1


def test_a_writer_creates_the_folder_of_a_topic_recreated_just_before(path, monkeypatch):
    one, two = Door(path), Door(path)
    one.create()
    make, calls = one.folders.make, []

    def make_late(topic, partition):
        calls.append(topic.topic_id)
        if len(calls) == 1:
            two.log.change(lambda c: c.plan_delete_topic("t"))
            two.create()
        make(topic, partition)

    monkeypatch.setattr(one.folders, "make", make_late)
    assert one.append() == 0
    assert len(set(calls)) == 2
    assert two.end() == 1


def test_constantly_changing_settings_do_not_block_a_write_forever(path, monkeypatch):
    one, two = Door(path), Door(path)
    one.create()
    one.append()
    refresh, calls = one.log.refresh, []

    def refresh_altered(**arguments):
        calls.append(1)
        two.log.change(lambda c: c.plan_alter_topic_configs("t", {"retention.ms": str(1000 + len(calls))}))
        refresh(**arguments)

    monkeypatch.setattr(one.log, "refresh", refresh_altered)
    assert one.append() == 1
    assert len(calls) >= 10
    monkeypatch.undo()
    assert one.append() == 2


def test_an_exclusive_process_does_not_remove_a_topic_during_a_write(path):
    """The write would go on by its paths in the folder of the topic that was recreated."""
    door = Door(path, lock_mode=LockMode.EXCLUSIVE)
    door.create()
    door.append()
    deleted = []

    def delete_and_recreate():
        door.delete()
        deleted.append(True)
        door.folders.make_all(door.create())

    deleting = threading.Thread(target=delete_and_recreate)

    def write(store):
        deleting.start()
        deleting.join(0.3)
        assert deleted == [], "the topic is gone in the middle of a write"
        store.roll(1_700_000_000_000)

    door.access.write(T0, write)
    deleting.join()
    assert door.append() == 0
    assert sorted(name for name in os.listdir(path / "t-0") if name.endswith(".log")) == [f"{0:020}.log"]


def test_new_settings_apply_from_the_next_operation(path):
    one, two = Door(path), Door(path)
    one.create()
    one.append()
    two.log.change(lambda c: c.plan_alter_topic_configs("t", {"cleanup.policy": "compact"}))
    with pytest.raises(InvalidRecordError):
        one.access.write(T0, lambda store: store.append(a_batch([a_record_without_key()]), now_ms=1_700_000_000_000))
    assert one.access.config_of(T0).is_compacted


def a_record_without_key():
    from support.builders.builders import a_record

    return a_record(key=None)


def test_more_partitions_than_the_open_limit_are_all_served(path):
    door = Door(path, max_open_count=3)
    door.create(partition_count=9)
    partitions = [TopicPartition("t", number) for number in range(9)]
    for _ in range(2):
        for partition in partitions:
            door.append(partition)
    assert [door.end(partition) for partition in partitions] == [2] * 9
    files = len(os.listdir("/proc/self/fd"))
    for partition in partitions * 3:
        door.append(partition)
    assert len(os.listdir("/proc/self/fd")) <= files + 3


def test_an_operating_system_error_becomes_a_storage_error(path):
    door = Door(path)
    door.create()
    door.append()

    def refuse(store):
        raise OSError(5, "Input/output error")

    for way in (door.access.read, door.access.write):
        with pytest.raises(StorageError, match="Input/output error"):
            way(T0, refuse)
    assert door.append() == 1


def test_a_manually_removed_folder_is_recreated(path):
    door = Door(path)
    door.create()
    door.append()
    assert door.end() == 1
    shutil.rmtree(path / "t-0")
    assert door.append() == 0
    assert door.end() == 1
    shutil.rmtree(path / "t-0")
    assert door.end() == 0


def test_a_folder_restored_from_a_copy_is_reopened(path, tmp_path):
    door = Door(path)
    door.create()
    door.append()
    shutil.copytree(path / "t-0", tmp_path / "copy")
    door.append()
    assert door.end() == 2
    shutil.rmtree(path / "t-0")
    shutil.copytree(tmp_path / "copy", path / "t-0", copy_function=shutil.copy)
    assert door.end() == 1
    assert door.append() == 1


def test_a_separately_opened_partition_belongs_to_its_user(path):
    door = Door(path)
    door.create()
    door.append()
    apart = door.access.open_apart(T0)
    door.access.close()
    assert apart.bounds().log_end_offset == 1
    apart.close()


def with_bounds_of_before(path):
    """Two appends, and then the published bounds of the first: as after a power failure, since batches are synced at
    every append and the bounds are not."""
    writer = Door(path)
    writer.create()
    writer.append(records=2)
    bounds_file = path / "t-0" / "partition.bounds"
    before = bounds_file.read_bytes()
    writer.append(records=3)
    writer.access.close()
    bounds_file.write_bytes(before)


def test_the_first_reader_after_a_power_failure_sees_all_acknowledged_records(path):
    with_bounds_of_before(path)
    assert Door(path).end() == 5


def test_a_reader_does_not_truncate_the_tail_of_a_running_writer(path):
    with_bounds_of_before(path)
    with PartitionLock(f"{path}/t-0/.lock").exclusive():
        assert Door(path).end() == 2
    assert Door(path).end() == 5


def test_a_reader_gets_published_records_if_the_rest_is_damaged(path, caplog):
    with_bounds_of_before(path)
    log_file = path / "t-0" / "00000000000000000000.log"
    content = bytearray(log_file.read_bytes())
    content[16] = 9  # the first batch's magic: inside the flushed range
    log_file.write_bytes(content)
    door = Door(path)
    assert door.end() == 2
    with pytest.raises(CorruptDataError):
        door.access.read(T0, lambda store: store.read(0, max_bytes=1000))
    assert "could not be recovered before reading" in caplog.text


def with_bounds_ahead_of_the_records(path):
    """A log as a power failure may leave it when an append was not synced: its bounds are on the device, it is not."""
    writer = Door(path)
    writer.create(flush_policy="os")
    writer.append(records=2)
    writer.access.write(T0, lambda store: store.roll(1_700_000_000_000))  # which syncs
    writer.append(records=2)
    writer.append(records=3)
    writer.access.close()
    log_file = path / "t-0" / "00000000000000000002.log"
    half = len(a_batch(2))
    log_file.write_bytes(log_file.read_bytes()[:half].ljust(log_file.stat().st_size, b"\0"))


def test_the_first_reader_after_a_power_failure_ignores_unsynced_bytes(path):
    with_bounds_ahead_of_the_records(path)
    door = Door(path)
    assert door.access.read(T0, lambda store: store.read(2, max_bytes=10_000)).next_offset == 4
    behind = door.access.read(T0, lambda store: store.read(4, max_bytes=10_000))
    assert (behind.next_offset, bytes(behind.buffer), behind.bounds.log_end_offset) == (4, b"", 4)
    assert door.append() == 4


def test_a_reader_without_write_access_is_reported(path):
    with_bounds_ahead_of_the_records(path)
    door = Door(path)
    door.directory._is_writable = False
    with pytest.raises(CorruptDataError):
        door.access.read(T0, lambda store: store.read(4, max_bytes=10_000))


@pytest.fixture
def alone(path):
    """Who has the directory for himself, with one record in t-0."""
    door = Door(path, lock_mode=LockMode.EXCLUSIVE)
    door.create()
    door.append()
    return door


def test_an_open_partition_is_held_without_waiting_and_excludes_other_writers(alone):
    held = alone.access.maybe_hold(T0)
    held.store.append(a_batch(1), now_ms=1_700_000_000_000)
    assert alone.access.maybe_hold(T0) is None
    with PartitionLock(f"{alone.path}/t-0/.lock").maybe_exclusive(timeout_seconds=0) as is_free:
        assert not is_free
    appended = []
    other = threading.Thread(target=lambda: appended.append(alone.append()))
    other.start()
    other.join(0.05)
    assert appended == []
    releasing = threading.Thread(target=held.release)
    releasing.start()
    for thread in (releasing, other):
        thread.join()
    assert appended == [2]
    alone.access.maybe_hold(T0).release()


def test_a_partition_that_is_new_or_being_written_is_not_held(path):
    door = Door(path, lock_mode=LockMode.EXCLUSIVE)
    door.create()
    assert door.access.maybe_hold(T0) is None
    assert door.end() == 0
    assert door.access.maybe_hold(T0) is None
    assert door.access.maybe_hold(TopicPartition("another", 0)) is None
    door.append()
    assert door.access.write(T0, lambda store: door.access.maybe_hold(T0)) is None
    door.access.maybe_hold(T0).release()


def test_a_partition_locked_by_another_process_is_not_held_and_stays_free(alone):
    with PartitionLock(f"{alone.path}/t-0/.lock").exclusive():
        assert alone.access.maybe_hold(T0) is None
    assert alone.append() == 1
    alone.access.maybe_hold(T0).release()


def test_a_partition_of_a_changed_topic_is_not_held_until_reopened(alone):
    alone.log.change(lambda c: c.plan_alter_topic_configs("t", {"max.message.bytes": "100"}))
    assert alone.access.maybe_hold(T0) is None
    assert alone.append() == 1
    held = alone.access.maybe_hold(T0)
    with pytest.raises(RecordTooLargeError):
        held.store.append(a_batch(3), now_ms=1_700_000_000_000)
    held.release()
    alone.delete()
    assert alone.access.maybe_hold(T0) is None
    alone.create()
    assert alone.access.maybe_hold(T0) is None
    assert alone.append() == 0
    alone.access.maybe_hold(T0).release()


def test_a_partition_without_its_state_is_not_held_until_a_write_loads_it(alone):
    held = alone.access.maybe_hold(T0)
    held.store._writer.forget()
    held.release()
    assert alone.access.maybe_hold(T0) is None
    assert alone.append() == 1
    alone.access.maybe_hold(T0).release()


def test_a_topic_is_not_removed_while_its_partition_is_held(alone):
    held = alone.access.maybe_hold(T0)
    deleting = threading.Thread(target=alone.delete)
    deleting.start()
    deleting.join(0.05)
    assert (alone.path / "t-0").is_dir()
    held.release()
    deleting.join()
    assert not (alone.path / "t-0").exists()
    assert alone.access.maybe_hold(T0) is None


def test_a_process_that_shares_the_directory_cannot_hold_a_partition(path):
    door = Door(path)
    door.create()
    door.append()
    with pytest.raises(AssertionError, match="other processes may write"):
        door.access.maybe_hold(T0)


def test_a_topic_deleted_just_before_locking_is_not_held(alone, monkeypatch):
    """A job deletes it between the look at the topic and the lock: its folder may be another topic's by then."""
    acquire = PartitionLock.acquire
    deleted = []

    def acquire_late(lock, *arguments, **given):
        if lock.path.endswith("/t-0/.lock") and not deleted:
            deleted.append(True)
            alone.log.change(lambda c: c.plan_delete_topic("t"))
        return acquire(lock, *arguments, **given)

    monkeypatch.setattr(PartitionLock, "acquire", acquire_late)
    assert alone.access.maybe_hold(T0) is None
    assert deleted
    with PartitionLock(f"{alone.path}/t-0/.lock").maybe_exclusive(timeout_seconds=0) as is_free:
        assert is_free
    alone.access.close()


def test_a_partition_whose_lock_fails_is_not_held_and_stays_usable(alone, monkeypatch):
    refusals = []

    def refuse(lock, mode, *, timeout_seconds=None):
        refusals.append(mode)
        raise OSError(errno.ENOLCK, "no locks are left")

    with monkeypatch.context() as patched:
        patched.setattr(PartitionLock, "acquire", refuse)
        assert alone.access.maybe_hold(T0) is None
    assert refusals
    alone.access.maybe_hold(T0).release()


def with_sequences(door, *sequences, partition=T0):
    for sequence in sequences:
        batch = a_batch(1, producer=(7, 0, sequence))
        yield door.access.write(
            partition, lambda store, batch=batch: store.append(batch, now_ms=1_700_000_000_000)
        ).result


@pytest.mark.parametrize("reason", ["other settings", "too many are open"])
def test_reopening_a_partition_keeps_its_producer_state(path, reason):
    door = Door(path, max_open_count=1)
    door.create(partition_count=2, internal_segment_bytes="150")
    appended = [result.base_offset for result in with_sequences(door, *range(6))]
    if reason == "other settings":
        door.log.change(lambda c: c.plan_alter_topic_configs("t", {"retention.bytes": "1000000"}))
    else:
        list(with_sequences(door, 0, partition=TopicPartition("t", 1)))
    again = list(with_sequences(door, *range(1, 6)))
    assert [result.base_offset for result in again] == appended[1:]
    assert all(result.is_duplicate for result in again)


def test_a_recreated_topic_has_no_producer_state_of_the_old_one(path):
    door = Door(path, max_open_count=1)
    for _ in range(2):
        door.create(partition_count=2)
        assert [result.base_offset for result in with_sequences(door, 0, 1)] == [0, 1]
        list(with_sequences(door, 0, partition=TopicPartition("t", 1)))
        door.delete()


def open_files_below(path):
    found = []
    for entry in os.scandir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(entry.path))
    return [name for name in found if name.startswith(f"{path}/t-")]


def test_detecting_a_deletion_of_another_process_releases_the_disk_space(path):
    one, two = Door(path), Door(path)
    one.create(partition_count=2)
    for number in range(2):
        two.append(TopicPartition("t", number))
        two.end(TopicPartition("t", number))
    assert open_files_below(path)
    one.delete()
    for ask in (two.end, two.append):
        with pytest.raises(UnknownTopicError):
            ask()
        assert not open_files_below(path)


@pytest.mark.parametrize("has_folders", [False, True])
def test_a_topic_whose_folders_a_full_disk_refused_is_empty_and_usable_once_there_is_room(tmp_path, has_folders):
    disk = FilledDisk()
    with EmbeddedCluster(tmp_path / "log", create=True, file_system=disk) as cluster:
        cluster.create_topic("before")
        disk.is_full, disk.has_folders = True, has_folders
        cluster.create_topic("t", partition_count=2)
        assert disk.refused_count
        with EmbeddedCluster(tmp_path / "log", file_system=disk) as other:
            for door in (cluster, other):
                assert door.describe_topics(["t"])["t"].partition_count == 2
                for partition in (TopicPartition("t", 0), TopicPartition("t", 1)):
                    assert door.bounds(partition).log_end_offset == 0
                    assert not door.fetch(partition, 0, max_bytes=1000).buffer
                    assert door.list_offsets({partition: OffsetSpec.MAX_TIMESTAMP}) == {partition: None}
                    assert door.describe_segments(partition) == ()
            with pytest.raises(DiskFullError, match="creating"):
                append_values(cluster, "t", "x")
            disk.is_full = False
            append_values(cluster, "t", "x", partition=1)
            assert other.bounds(TopicPartition("t", 1)).log_end_offset == 1
            assert len(other.fetch(TopicPartition("t", 1), 0, max_bytes=1000).buffer)
            assert other.bounds(TopicPartition("t", 0)).log_end_offset == 0


def test_a_topic_whose_folders_a_full_disk_refused_can_be_deleted_and_created_again(tmp_path):
    disk = FilledDisk()
    with EmbeddedCluster(tmp_path / "log", create=True, file_system=disk) as cluster:
        cluster.create_topic("before")
        disk.is_full = True
        for _ in range(2):
            cluster.create_topic("t")
            assert cluster.bounds(TopicPartition("t", 0)).log_end_offset == 0
            cluster.delete_topic("t")
            assert set(cluster.describe_topics()) == {"before"}
        assert disk.refused_count
        disk.is_full = False
        cluster.create_topic("t")
        append_values(cluster, "t", "x")
        assert cluster.bounds(TopicPartition("t", 0)).log_end_offset == 1
