"""What a folder does besides the contract that every store keeps (tests/object_stores)."""

import errno
import os

import pytest

from broker_core.model.exceptions import (
    ObjectOutcomeUnknownError,
    ObjectPermissionError,
    ObjectPreconditionError,
)
from broker_core.object_store import folder_store
from broker_core.object_store.folder_store import FolderStore


@pytest.fixture
def store(tmp_path):
    return FolderStore(str(tmp_path / "log"))


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
