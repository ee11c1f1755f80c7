import dataclasses
import shutil
import threading

import pytest
from support.builders.builders import a_batch, a_record

from broker_core.coordinator.coordinator_kind import CoordinatorKind
from broker_core.embedded import coordinator_state
from broker_core.embedded.coordinator_state import CoordinatorState
from broker_core.log_directory.directory import LogDirectory
from broker_core.log_directory.metadata_log import MetadataLog
from broker_core.log_directory.partition_access import PartitionAccess
from broker_core.log_directory.partition_folders import PartitionFolders
from broker_core.log_directory.system_ports import SystemClock, SystemEntropy
from broker_core.model.exceptions import CorruptDataError, StorageError
from broker_core.model.identifiers import TopicPartition
from broker_core.storage.os_file_system import OsFileSystem

ENTROPY = SystemEntropy()
T0, U0 = TopicPartition("t", 0), TopicPartition("u", 0)
NOW_MS = 1_700_000_000_000
COMPACTED = {"cleanup.policy": "compact", "internal.segment.bytes": "300", "min.cleanable.dirty.ratio": "0"}


class KeyValues(dict):
    """Key to value. How often one was begun, and how much was replayed, is counted."""

    begun = 0
    replayed = 0

    def __init__(self):
        super().__init__()
        KeyValues.begun += 1


def replay(machine, record, offset, producer_id):
    KeyValues.replayed += 1
    machine[record[0]] = record[1]


KIND = CoordinatorKind(
    partition=T0,
    begin=KeyValues,
    encode=pytest.fail,
    decode=lambda key, value: (key, value),
    replay=replay,
    replay_marker=pytest.fail,
)


class DirectoryUser:
    """One process's way into a directory, with the state of t-0."""

    def __init__(self, path):
        fs = OsFileSystem()
        self.directory = LogDirectory(fs, str(path), create=True, entropy=ENTROPY)
        self.directory.make()
        self.log = MetadataLog(fs, self.directory, SystemClock())
        self.folders = PartitionFolders(fs, str(path), self.log, ENTROPY)
        self.access = PartitionAccess(fs, self.directory, self.log, self.folders)
        self.state = CoordinatorState(KIND, self.access, self.log)

    def create(self, name="t", **configs):
        return self.log.change(
            lambda c: c.plan_create_topic(name, partition_count=1, configs=configs or COMPACTED, entropy=ENTROPY)
        )

    def delete(self, name="t"):
        self.folders.remove(self.log.change(lambda c: c.plan_delete_topic(name)))

    def put(self, key, value, partition=T0):
        batch = a_batch([a_record(key=key, value=value, timestamp_ms=NOW_MS)])
        self.access.write(partition, lambda store: store.append(batch, now_ms=NOW_MS))

    def seen(self):
        self.state.refresh()
        return self.state.look(dict)

    def seen_held(self):
        """As seen by somebody who holds another partition's lock."""

        def look(store):
            return self.state.look_held(dict)

        return self.state.retrying(lambda: self.access.write(U0, look))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log"


@pytest.fixture
def one(path):
    process = DirectoryUser(path)
    process.create()
    process.create("u")
    KeyValues.begun = KeyValues.replayed = 0
    return process


@pytest.fixture
def two(one, path):
    return DirectoryUser(path)


def test_records_of_other_processes_are_seen_with_and_without_the_lock(one, two):
    one.put(b"a", b"1")
    assert two.seen() == two.seen_held() == {b"a": b"1"}
    one.put(b"a", b"2")
    one.put(b"b", b"1")
    assert two.seen_held() == two.seen() == {b"a": b"2", b"b": b"1"}


def test_only_new_records_are_replayed(one, two):
    for number in range(20):
        one.put(b"%d" % number, b"x")
    two.seen()
    assert (KeyValues.replayed, two.seen() == two.seen_held()) == (20, True)
    one.put(b"new", b"x")
    two.seen_held()
    two.seen()
    assert KeyValues.replayed == 21


def test_without_a_topic_there_is_no_state(path):
    process = DirectoryUser(path)
    process.create("u")
    assert process.seen() == process.seen_held() == {}
    process.create()
    process.put(b"a", b"1")
    assert process.seen_held() == process.seen() == {b"a": b"1"}


@pytest.mark.parametrize("look", [DirectoryUser.seen, DirectoryUser.seen_held])
def test_a_recreated_log_is_another_log(one, two, look):
    one.put(b"a", b"1")
    assert look(two) == {b"a": b"1"}
    one.delete()
    assert look(two) == {}
    one.create()
    one.put(b"b", b"2")
    assert look(two) == {b"b": b"2"}
    one.delete()
    one.create()
    one.put(b"c", b"3")
    assert look(two) == {b"c": b"3"}


@pytest.mark.parametrize("look", [DirectoryUser.seen, DirectoryUser.seen_held])
def test_a_manually_replaced_folder_is_detected(one, two, path, look):
    one.put(b"a", b"1")
    shutil.copytree(path / "t-0", path.parent / "backup")
    one.put(b"a", b"2")
    assert look(two) == {b"a": b"2"}
    shutil.rmtree(path / "t-0")
    shutil.move(path.parent / "backup", path / "t-0")
    assert look(two) == {b"a": b"1"}


@pytest.mark.parametrize("look", [DirectoryUser.seen, DirectoryUser.seen_held])
def test_compaction_after_the_last_refresh_loses_no_state(one, two, look):
    """Order of events: key a is known with a value; it is deleted, and compaction removes the tombstone in time."""
    one.put(b"a", b"1")
    assert look(two) == {b"a": b"1"}
    one.access.write(T0, lambda store: store.append(a_tombstone(b"a"), now_ms=NOW_MS))
    for number in range(12):
        one.put(b"b", b"%d" % number + b" " * 60)
    for later_ms in (NOW_MS, NOW_MS + 10**9):
        one.access.write(T0, lambda store, at=later_ms: store.compact(at, 10**6))
        one.access.write(T0, lambda store: store.roll(NOW_MS))
        one.put(b"c", b"dirty")
    assert two.state.look(dict) == {b"a": b"1"}
    found = look(two)
    assert b"a" not in found
    assert found[b"b"].startswith(b"11")
    assert KeyValues.begun > 2


def a_tombstone(key):
    return a_batch([a_record(key=key, value=None, timestamp_ms=NOW_MS)])


def test_a_state_far_behind_the_log_is_rebuilt(one, two, monkeypatch):
    monkeypatch.setattr(coordinator_state, "_FOLLOWED_OFFSETS", 5)
    one.put(b"a", b"0")
    two.seen()
    before = KeyValues.replayed
    for number in range(6):
        one.put(b"a", b"%d" % number)
    assert two.seen() == {b"a": b"5"}
    assert KeyValues.replayed == before + 1


def test_an_interrupted_replay_is_restarted(one, two):
    one.put(b"a", b"1")
    two.seen()
    one.put(b"b", b"2")
    one.put(b"bad", b"3")
    is_broken = True

    def breaking(machine, record, offset, producer_id):
        if record[0] == b"bad" and is_broken:
            raise CorruptDataError("it does not fit")
        replay(machine, record, offset, producer_id)

    two.state.kind = dataclasses.replace(KIND, replay=breaking)
    with pytest.raises(CorruptDataError, match=r"t-0: the record at offset 2.*it does not fit"):
        two.seen()
    is_broken = False
    assert two.seen() == {b"a": b"1", b"b": b"2", b"bad": b"3"}


def test_no_folder_is_created_while_a_lock_is_held(one, two, path):
    """Creating it takes the metadata log's lock, which comes before: another process may hold that and wait for ours.
    A state that is only read needs none: without a folder it is empty."""
    one.put(b"a", b"1")
    two.put(b"x", b"1", U0)
    two.seen()
    shutil.rmtree(path / "t-0")
    assert two.seen_held() == {}
    assert not (path / "t-0").exists()
    one.put(b"b", b"2")
    assert two.seen_held() == {b"b": b"2"}


def test_a_log_that_is_replaced_repeatedly_raises(one):
    def operation():
        raise coordinator_state._NotHeldError

    with pytest.raises(StorageError, match="t-0 was replaced 10 times during one operation"):
        one.state.retrying(operation)


def test_threads_share_a_state(one, two):
    errors = []

    def put(name):
        for number in range(30):
            one.put(name, b"%d" % number)

    def follow():
        try:
            last = -1
            for _ in range(100):
                found = int(two.seen().get(b"a", b"-1"))
                assert found >= last
                last = found
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=put, args=(b"a",)), *(threading.Thread(target=follow) for _ in range(3))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert two.seen() == {b"a": b"29"}


def test_closing_releases_open_files(one):
    one.put(b"a", b"1")
    one.seen_held()
    assert one.state._held is not None
    one.state.close()
    assert one.state._held is None
    assert one.seen_held() == {b"a": b"1"}
