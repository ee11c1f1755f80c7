"""What a folder does besides the contract that every store keeps (tests/object_stores)."""

import errno
import os
import resource
from contextlib import contextmanager

import pytest
from support.builders.append_records import append_values

from broker_core.cluster import GroupOffset
from broker_core.model.exceptions import (
    DiskFullError,
    ObjectOutcomeUnknownError,
    ObjectPermissionError,
    ObjectPreconditionError,
    StorageError,
)
from broker_core.model.identifiers import TopicPartition
from broker_core.object_cluster.log_ports import LogPorts
from broker_core.object_cluster.object_cluster import ObjectCluster
from broker_core.object_store import folder_store
from broker_core.object_store.folder_store import FolderStore


@pytest.fixture
def store(tmp_path):
    return FolderStore(str(tmp_path / "log"))


@contextmanager
def file_size_limit(size_bytes):
    """The system refuses larger files, with EFBIG, as a full disk refuses any."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def upload_all(store, path, data):
    upload = store.upload(path)
    upload.write(data)
    upload.finish()


WRITES = {
    "put": lambda store, data: store.put("checkpoints/latest", data),
    "put_if_absent": lambda store, data: store.put_if_absent("commits/2", data),
    "put_if_matches": lambda store, data: store.put_if_matches("groups/g", data, "0"),
    "upload": lambda store, data: upload_all(store, "data/x", data),
}


def files(store):
    return sorted(
        os.path.relpath(os.path.join(folder, name), store._folder)
        for folder, _, names in os.walk(store._folder)
        for name in names
    )


def versions(store, path):
    return sorted(os.listdir(f"{store._folder}/{path}@"))


def test_reading_creates_nothing(store):
    assert list(store.list_after("commits/")) == []
    assert not os.path.exists(store._folder)


def test_a_foreign_folder_is_no_object(store):
    store.put("commits/1", b"x")
    os.makedirs(f"{store._folder}/commits/2")
    assert [entry.path for entry in store.list_after("commits/")] == ["commits/1"]


def test_outdated_versions_of_a_replaced_object_are_removed(store, monkeypatch):
    monkeypatch.setattr(folder_store, "_KEPT_VERSION_SECONDS", -1)
    etag = store.put_if_absent("groups/g", b"0")
    for number in range(1, 41):
        etag = store.put_if_matches("groups/g", b"%d" % number, etag)
    assert bytes(store.get("groups/g").data) == b"40"
    assert versions(store, "groups/g") == [f"{number:08d}" for number in range(25, 41)]


def test_young_versions_are_kept(store):
    etag = store.put_if_absent("groups/g", b"0")
    for number in range(1, 41):
        etag = store.put_if_matches("groups/g", b"%d" % number, etag)
    assert len(versions(store, "groups/g")) == 40


def test_a_delayed_writer_does_not_restore_an_old_version(store, monkeypatch):
    """One that read version 1, and makes version 2 after 2 was made and removed by others."""
    monkeypatch.setattr(folder_store, "_KEPT_VERSION_SECONDS", -1)
    store.put_if_absent("groups/g", b"0")
    old = store.put_if_matches("groups/g", b"1", "0")
    etag = old
    for number in range(2, 41):
        etag = store.put_if_matches("groups/g", b"%d" % number, etag)
    with pytest.raises(ObjectPreconditionError):
        store.put_if_matches("groups/g", b"stale", old)
    monkeypatch.setattr(FolderStore, "_last_version", lambda self, path: int(old))
    with pytest.raises(ObjectOutcomeUnknownError, match="was removed while"):
        store.put_if_matches("groups/g", b"stale", old)
    monkeypatch.undo()
    assert bytes(store.get("groups/g").data) == b"40"
    assert f"{int(old) + 1:08d}" not in versions(store, "groups/g")


def test_old_leftovers_of_dead_uploads_are_removed(store):
    store.upload("data/x").write(b"abc")
    (left,) = os.listdir(store._uploads)
    assert store.remove_abandoned(0) == 0
    os.utime(os.path.join(store._uploads, left), (1, 1))
    assert store.remove_abandoned(2_000) == 1
    assert os.listdir(store._uploads) == []


def test_a_finished_write_leaves_no_file_behind(store):
    store.put("checkpoints/latest", b"1")
    store.put_if_absent("commits/1", b"1")
    with pytest.raises(ObjectPreconditionError):
        store.put_if_absent("commits/1", b"2")
    upload = store.upload("data/x")
    upload.write(b"1")
    upload.finish()
    assert os.listdir(store._uploads) == []


@pytest.mark.parametrize(
    ("number", "kind"), [(errno.EACCES, ObjectPermissionError), (errno.EIO, ObjectOutcomeUnknownError)]
)
def test_file_system_errors_are_reported_with_the_path(store, monkeypatch, number, kind):
    def refuse(*arguments, **named):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(kind, match=r"objects://.*/log/commits/1: "):
        store.put_if_absent("commits/1", b"")


def test_every_write_is_synced_before_it_is_acknowledged(store, monkeypatch):
    synced = []
    real = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: (synced.append(os.readlink(f"/proc/self/fd/{descriptor}")), real(descriptor))[1]
    )
    store.put_if_absent("commits/1", b"x")
    assert synced[0].startswith(store._uploads) and synced[-1] == f"{store._folder}/commits"


@pytest.mark.parametrize("size", [10, 100_000], ids=["while it is flushed", "while it is written"])
@pytest.mark.parametrize("write", WRITES)
def test_a_refused_write_has_a_known_outcome_and_leaves_no_file(store, write, size):
    """It was said to be unknown, tried again and again, and each attempt left an empty file."""
    store.put_if_absent("groups/g", b"")
    before = files(store)
    with file_size_limit(0), pytest.raises(StorageError) as caught:
        WRITES[write](store, bytes(size))
    assert type(caught.value) is StorageError
    assert "Nothing was written. Raise the limit of the process" in caught.value.message
    assert files(store) == before
    WRITES[write](store, bytes(size))
    assert len(files(store)) == len(before) + 1


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("call", ["makedirs", "open", "fsync", "link", "replace"])
@pytest.mark.parametrize("write", WRITES)
def test_a_full_disk_is_reported_as_such_whichever_step_it_refuses(store, monkeypatch, write, call, number):
    store.put_if_absent("groups/g", b"")
    before = files(store)
    refused = []

    def refuse(*arguments, **named):
        refused.append(arguments)
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        if call == "open":
            patch.setattr(folder_store, "open", refuse, raising=False)
        else:
            patch.setattr(os, call, refuse)
        if call == ("link" if write == "put" else "replace"):
            WRITES[write](store, b"x")
            assert not refused
            return
        with pytest.raises(
            DiskFullError, match=r"No space left .* objects://.*Nothing was written\. Free space"
        ) as caught:
            WRITES[write](store, b"x")
    assert refused and caught.value.directory == store._folder
    assert files(store) == before


@pytest.mark.parametrize("write", WRITES)
def test_after_the_link_the_outcome_is_unknown_on_a_full_disk_too(store, monkeypatch, write):
    """The folder's entry may not be durable."""
    store.put_if_absent("groups/g", b"")
    real = os.fsync
    refused = []

    def fsync(descriptor):
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            refused.append(descriptor)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(ObjectOutcomeUnknownError, match="its folder cannot be synced"):
        WRITES[write](store, b"x")
    assert refused and os.listdir(store._uploads) == []


def test_a_failed_replacement_leaves_no_file(store, monkeypatch):
    def refuse(*arguments):
        raise OSError(errno.EIO, "I/O error")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(ObjectOutcomeUnknownError):
        store.put("checkpoints/latest", b"x")
    assert files(store) == []


def test_a_log_on_a_full_disk_says_so_at_once(tmp_path):
    """A group's offsets were tried fifty times, and other processes were suspected of writing them."""
    waits = []
    store = FolderStore(str(tmp_path / "log"))
    cluster = ObjectCluster(LogPorts(store=store, sleep_ms=waits.append), create=True)
    cluster.create_topic("t")
    append_values(cluster, "t", "a")
    offsets = {TopicPartition("t", 0): GroupOffset(offset=1)}
    before = files(store)
    with file_size_limit(0):
        for write in (
            lambda: cluster.commit_offsets("g", offsets),
            lambda: append_values(cluster, "t", "b"),
            lambda: cluster.create_topic("u"),
        ):
            with pytest.raises(StorageError, match="Nothing was written"):
                write()
        errors = cluster.maintain().errors
        assert errors and all("Nothing was written" in str(error) for error in errors)
    assert files(store) == before and not [one for one in waits if one]
    cluster.commit_offsets("g", offsets)
    append_values(cluster, "t", "b")
    assert cluster.maintain().errors == []
    cluster.close()
