import os
import threading

import pytest
from support.files.read_only_file_system import ReadOnlyFileSystem

from broker_core.log_directory import directory as directory_room
from broker_core.log_directory.clean_shutdown import write_clean_shutdown
from broker_core.log_directory.directory import DirectoryKind, LogDirectory
from broker_core.log_directory.meta_properties import MetaProperties
from broker_core.log_directory.partition_lock import PartitionLock
from broker_core.log_directory.system_ports import SystemEntropy
from broker_core.model.exceptions import (
    DirectoryFormatError,
    DirectoryLockedError,
    DirectoryReadOnlyError,
    DiskFullError,
)
from broker_core.ports import LockMode
from broker_core.storage.os_file_system import OsFileSystem

KAFKAS_PROPERTIES = "version=1\nnode.id=1\ncluster.id=x\n"


def open_directory(path, *, create=True, fs=None):
    return LogDirectory(fs or OsFileSystem(), str(path), create=create, entropy=SystemEntropy())


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "log"


def names_in(path):
    return sorted(os.listdir(path))


def test_a_missing_path_becomes_a_log_only_when_created(path):
    directory = open_directory(path)
    assert directory.kind is DirectoryKind.ABSENT
    assert not path.parent.exists()
    directory.make()
    assert directory.kind is DirectoryKind.OURS
    assert names_in(path) == [".lock", "meta.properties"]
    again = open_directory(path, create=False)
    assert again.kind is DirectoryKind.OURS
    assert again.properties == directory.properties
    assert isinstance(again.properties, MetaProperties)


def test_without_create_a_missing_log_is_refused(path):
    with pytest.raises(DirectoryFormatError, match=r"log does not exist; create a topic to make it a log directory"):
        open_directory(path, create=False)
    path.mkdir(parents=True)
    with pytest.raises(DirectoryFormatError, match="is an empty directory, not a log"):
        open_directory(path, create=False)
    assert names_in(path) == []


def test_a_file_is_not_a_log_directory(tmp_path):
    (tmp_path / "log").write_text("")
    with pytest.raises(DirectoryFormatError, match="log is a file, not a log directory"):
        open_directory(tmp_path / "log")


def test_a_directory_full_of_other_things_is_refused_even_to_create_in(tmp_path):
    (tmp_path / "a.txt").write_text("")
    (tmp_path / "b.txt").write_text("")
    with pytest.raises(DirectoryFormatError, match=r"no meta\.properties, and holds a\.txt and 1 more"):
        open_directory(tmp_path)


def test_an_interrupted_creation_is_repeated(tmp_path):
    (tmp_path / ".lock").write_text("")
    (tmp_path / "meta.properties.tmp").write_text("garbage")
    directory = open_directory(tmp_path)
    assert directory.kind is DirectoryKind.ABSENT
    directory.make()
    assert open_directory(tmp_path, create=False).kind is DirectoryKind.OURS


@pytest.mark.parametrize("create", [True, False])
def test_a_real_kafkas_directory_is_foreign_and_unchanged(tmp_path, create):
    (tmp_path / "meta.properties").write_text(KAFKAS_PROPERTIES)
    directory = open_directory(tmp_path, create=create)
    assert directory.kind is DirectoryKind.FOREIGN
    assert names_in(tmp_path) == ["meta.properties"]
    with pytest.raises(DirectoryReadOnlyError, match=r"written by Apache Kafka.*kafka\.bootstrap\.servers"):
        directory.make()


@pytest.mark.parametrize("file_name", ["partition.metadata", "00000000000000000000.log"])
def test_partition_folders_without_properties_are_foreign(tmp_path, file_name):
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / file_name).write_text("")
    assert open_directory(tmp_path).kind is DirectoryKind.FOREIGN


def test_a_newer_format_is_refused(tmp_path):
    (tmp_path / "meta.properties").write_text(KAFKAS_PROPERTIES + "streamlog.format=9\n")
    with pytest.raises(DirectoryFormatError, match=r"streamlog\.format=9, but this version supports 1"):
        open_directory(tmp_path)


def test_processes_share_a_log_and_a_broker_holds_it_exclusively(path, monkeypatch):
    monkeypatch.setattr(directory_room, "_LOCK_WAIT_SECONDS", 0.05)
    one, two = open_directory(path), open_directory(path)
    one.make()
    two.look_again()
    broker = PartitionLock(f"{path}/.lock")
    assert not broker.acquire(LockMode.EXCLUSIVE, timeout_seconds=0)
    one.close()
    assert not broker.acquire(LockMode.EXCLUSIVE, timeout_seconds=0)
    two.close()
    assert broker.acquire(LockMode.EXCLUSIVE, timeout_seconds=0)
    with pytest.raises(DirectoryLockedError, match=r"served by a broker, which holds .*/\.lock"):
        open_directory(path)


def test_concurrent_creations_of_a_directory_create_it_once(path):
    made = []

    def make():
        directory = open_directory(path)
        directory.make()
        made.append(directory.properties)

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 8
    assert len({properties.cluster_id for properties in made}) == 1


def test_a_removed_or_recreated_directory_is_detected_as_changed(path):
    directory = open_directory(path)
    assert not directory.has_changed()
    other = open_directory(path)
    other.make()
    assert directory.has_changed()
    directory.look_again()
    assert not directory.has_changed()
    for name in names_in(path):
        (path / name).unlink()
    path.rmdir()
    assert directory.has_changed()
    directory.look_again()
    assert directory.kind is DirectoryKind.ABSENT
    directory.make()
    assert directory.properties.cluster_id != other.properties.cluster_id


def test_without_write_access_our_log_is_read_and_shared(path):
    open_directory(path).make()
    fs = ReadOnlyFileSystem()
    directory = open_directory(path, fs=fs)
    assert fs.refused
    assert directory.kind is DirectoryKind.OURS
    assert not directory.is_writable
    assert not PartitionLock(f"{path}/.lock").acquire(LockMode.EXCLUSIVE, timeout_seconds=0)
    with pytest.raises(DirectoryReadOnlyError, match=r"No write access to .*: check its owner"):
        directory.require_writable()


def test_missing_write_access_for_a_new_log_is_reported(path):
    directory = open_directory(path, fs=ReadOnlyFileSystem())
    with pytest.raises(
        DirectoryReadOnlyError,
        match=r"No log directory can be created at .*Give a path",
    ):
        directory.make()
    assert not path.exists()


def test_a_creation_on_a_full_disk_can_be_repeated(path):
    class RefusedRenames(OsFileSystem):
        hits = 0

        def rename(self, source, target):
            self.hits += 1
            raise OSError(28, "No space left on device", target)

    fs = RefusedRenames()
    directory = open_directory(path, fs=fs)
    with pytest.raises(DiskFullError):
        directory.make()
    assert fs.hits == 1
    other = open_directory(path)
    assert other.kind is DirectoryKind.ABSENT
    other.make()
    directory.look_again()
    assert directory.kind is DirectoryKind.OURS


def test_reading_keeps_the_clean_shutdown_marker_and_writing_removes_it(tmp_path):
    path = tmp_path / "log"
    made = open_directory(path)
    made.make()
    made.close()
    mark = path / ".kafka_cleanshutdown"
    write_clean_shutdown(OsFileSystem(), str(path), broker_epoch=-1)
    reading = open_directory(path)
    assert mark.exists()
    reading.require_writable()
    assert not mark.exists()
    reading.close()


@pytest.mark.parametrize(("parent", "reason"), [("/proc", "No such file or directory"), ("/dev/null", "it is a file")])
def test_a_place_where_nothing_can_be_created_is_named_with_the_settings_that_give_another(parent, reason):
    directory = open_directory(f"{parent}/log")
    with pytest.raises(DirectoryReadOnlyError) as caught:
        directory.make()
    assert str(caught.value) == (
        f"No log directory can be created at {parent}/log: this process cannot create anything in {parent} ({reason})."
        " Give a path in a directory that it may write to: the path of load() or save(), --path of streamlog, log.dirs"
        " of a broker."
    )


def test_the_directory_of_a_node_of_a_cluster_is_refused_by_that_name(tmp_path):
    (tmp_path / "meta.properties").write_text("#\nnode.id=1\nversion=1\ncluster.id=4L6g3nShT-eMCtK--X86sw\n")
    (tmp_path / "streamlog-broker-epoch").write_text("5\n")
    with pytest.raises(DirectoryReadOnlyError, match="is the directory of a node of a cluster"):
        open_directory(tmp_path).require_writable()
