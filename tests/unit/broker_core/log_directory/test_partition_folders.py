import os
import shutil

import pytest

from broker_core.log_directory.directory import LogDirectory
from broker_core.log_directory.metadata_log import MetadataLog
from broker_core.log_directory.partition_folders import PartitionFolders
from broker_core.log_directory.partition_lock import PartitionLock
from broker_core.log_directory.system_ports import SystemClock, SystemEntropy
from broker_core.model.exceptions import DirectoryFormatError, UnknownTopicError
from broker_core.model.identifiers import TopicPartition
from broker_core.storage.checkpoints import read_partition_metadata
from broker_core.storage.os_file_system import OsFileSystem

ENTROPY = SystemEntropy()
T0 = TopicPartition("t", 0)


class House:
    def __init__(self, path):
        self.fs = OsFileSystem()
        self.path = path
        directory = LogDirectory(self.fs, str(path), create=True, entropy=ENTROPY)
        directory.make()
        self.log = MetadataLog(self.fs, directory, SystemClock())
        self.folders = PartitionFolders(self.fs, str(path), self.log, ENTROPY)

    def create(self, name="t", partition_count=2):
        return self.log.change(
            lambda c: c.plan_create_topic(name, partition_count=partition_count, configs={}, entropy=ENTROPY)
        )

    def forget(self, name="t"):
        return self.log.change(lambda c: c.plan_delete_topic(name))

    def names(self):
        return {name for name in os.listdir(self.path) if name[0] not in "._" and name != "meta.properties"}

    def id_of(self, name):
        return read_partition_metadata(self.fs, f"{self.path}/{name}")


@pytest.fixture
def house(tmp_path):
    return House(tmp_path / "log")


def test_the_folders_of_a_topic_are_created_with_its_id(house):
    topic = house.create()
    house.folders.make_all(topic)
    assert house.names() == {"t-0", "t-1"}
    assert house.id_of("t-1") == topic.topic_id


def test_creating_an_existing_folder_changes_nothing(house):
    topic = house.create()
    house.folders.make(topic, T0)
    before = {name: os.stat(house.path / "t-0" / name).st_mtime_ns for name in os.listdir(house.path / "t-0")}
    house.folders.make(topic, T0)
    after = {name: os.stat(house.path / "t-0" / name).st_mtime_ns for name in os.listdir(house.path / "t-0")}
    assert after == before


def test_an_incomplete_folder_is_completed(house):
    topic = house.create()
    (house.path / "t-0").mkdir()
    house.folders.make(topic, T0)
    assert house.id_of("t-0") == topic.topic_id


@pytest.mark.parametrize("count", [51, 1_000])
def test_a_topic_of_any_size_costs_as_many_syncs_as_one_of_fifty_partitions(house, monkeypatch, count):
    synced = []
    monkeypatch.setattr(house.fs, "sync_directory", synced.append)
    topic = house.create(partition_count=count)
    synced.clear()
    house.folders.make_all(topic)
    assert house.names() == {f"t-{number}" for number in range(50)}
    assert synced.count(str(house.path)) == 1
    assert all(house.id_of(name) == topic.topic_id for name in house.names())


def test_a_foreign_folder_in_the_place_of_a_later_partition_is_moved_aside_with_the_topics_creation(house, tmp_path):
    other = House(tmp_path / "other")
    other.folders.make(other.create(partition_count=61), TopicPartition("t", 60))
    shutil.copytree(other.path / "t-60", house.path / "t-60")
    topic = house.create(partition_count=61)
    house.folders.make_all(topic)
    strays = [name for name in house.names() if name.endswith("-stray")]
    assert len(strays) == 1 and strays[0].startswith("t-60.")
    assert house.id_of("t-60") == topic.topic_id


def test_no_folder_is_created_for_a_deleted_topic(house):
    topic = house.create()
    house.forget()
    with pytest.raises(UnknownTopicError):
        house.folders.make(topic, T0)
    house.folders.make_all(topic)
    assert house.names() == set()


def test_a_deleted_topics_folders_are_removed(house):
    topic = house.create()
    house.folders.make_all(topic)
    house.folders.remove(house.forget())
    assert house.names() == set()


def test_a_recreated_topic_gets_new_folders_while_the_old_ones_exist(house):
    old = house.create()
    house.folders.make_all(old)
    (house.path / "t-0" / "mark").write_text("old")
    house.forget()  # and then the process died before it removed the folders
    new = house.create()
    house.folders.make_all(new)
    assert house.names() == {"t-0", "t-1"}
    assert house.id_of("t-0") == new.topic_id
    assert not (house.path / "t-0" / "mark").exists()


def test_removing_an_old_topic_late_keeps_the_recreated_one(house):
    house.folders.make_all(house.create())
    old = house.forget()
    new = house.create()
    house.folders.make_all(new)
    house.folders.remove(old)
    assert house.id_of("t-0") == new.topic_id


def test_a_folder_of_an_unknown_topic_is_moved_aside_and_kept(house, tmp_path):
    other = House(tmp_path / "other")
    other.folders.make_all(other.create())
    shutil.copytree(other.path / "t-0", house.path / "t-0")
    topic = house.create()
    house.folders.make_all(topic)
    assert house.id_of("t-0") == topic.topic_id
    [stray] = [name for name in house.names() if name.endswith("-stray")]
    assert house.id_of(stray) == other.log.topic("t").topic_id
    assert house.folders.sweep() == 0
    assert stray in house.names()


def test_a_folder_with_a_damaged_topic_id_is_refused_and_kept(house):
    """A flipped bit in partition.metadata once had all records of the partition moved out of sight by a mere read."""
    topic = house.create()
    house.folders.make_all(topic)
    metadata = house.path / "t-0" / "partition.metadata"
    damaged = metadata.read_text().replace(metadata.read_text()[-9:], "A" * 9)
    metadata.write_text(damaged)
    with pytest.raises(DirectoryFormatError, match=str(metadata)):
        house.folders.make(topic, T0)
    house.folders.make_missing(topic)
    assert house.names() == {"t-0", "t-1"}
    assert metadata.read_text() == damaged


def test_a_sweep_removes_only_leftovers_of_crashes(house):
    house.folders.make_all(house.create("gone"))
    house.forget("gone")
    (house.path / "half-0.0123456789abcdef0123456789abcdef-delete").mkdir()
    kept = house.create("kept", 1)
    house.folders.make_all(kept)
    (house.path / "unknown-0").mkdir()
    assert house.folders.sweep() == 3
    assert house.names() == {"kept-0", "unknown-0"}
    assert (house.path / "__cluster_metadata-0").is_dir()


def test_a_folder_is_renamed_only_without_a_concurrent_append(house):
    topic = house.create(partition_count=1)
    house.folders.make_all(topic)
    lock = PartitionLock(f"{house.path}/t-0/.lock")
    seen = []
    renamed = house.fs.rename

    def rename(source, target):
        if target.endswith("-delete"):
            seen.append(PartitionLock(f"{source}/.lock").acquire(lock_mode(), timeout_seconds=0))
        renamed(source, target)

    house.fs.rename = rename
    house.folders.remove(house.forget())
    assert seen == [False]
    lock.close()


def lock_mode():
    from broker_core.ports import LockMode

    return LockMode.SHARED
