"""What the loop's own writes do when the disk refuses, the topic goes, or the node goes down in the middle."""

import errno
import threading
from pathlib import Path

import pytest
from support.builders.builders import a_batch
from support.files.faulty_file_system import Killed
from support.files.queued_writes import QueuedWrites
from support.nodes.replica_builders import T0, RefusingFileSystem, ReplicaNode, offsets_read

from broker_core.log_directory.partition_lock import PartitionLock
from broker_core.model.exceptions import DiskFullError, StorageError, StreamlogError, UnknownTopicError
from broker_core.model.identifiers import TopicPartition
from broker_core.ports import LockMode
from broker_core.storage.readable_partition import ReadablePartition
from broker_core.storage.writable_partition import WritablePartition

LOG = "t-0/00000000000000000000.log"


@pytest.fixture
def node(tmp_path):
    """With one record in t-0; a test ends it as it likes."""
    node = ReplicaNode(tmp_path / "log", writes=QueuedWrites())
    node.create()
    node.append()
    node.settle()
    return node


def appends_in_one_turn(node, *batches):
    answers = []
    for batch in batches:
        node.append(batch, into=answers)
    node.writes.end_turn()
    return answers


def content(node):
    return Path(node.directory.path, LOG).read_bytes()


def reopened(path):
    """The next start, recovered as after a crash."""
    node = ReplicaNode(path, fs=RefusingFileSystem())
    errors = []
    node.directory.recover(node.jobs, errors.append)
    node.jobs.run_all()
    assert errors == [{}]
    return node


# -- a disk that refuses --

REFUSALS = {
    "the first write": {"kind": "write", "ending": LOG, "error_number": errno.ENOSPC},
    "the second write": {"kind": "write", "ending": LOG, "passed_count": 1, "error_number": errno.ENOSPC},
    "the sync": {"kind": "sync", "ending": LOG},
    "the publish": {"kind": "write", "ending": "t-0/partition.bounds"},
}


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
def test_a_disk_error_rolls_back_the_whole_group_and_the_next_one_reuses_its_offsets(node, tmp_path, refusal):
    before, replica = content(node), node.replica()
    node.fs.refuse(**refusal)
    answers = appends_in_one_turn(node, a_batch(2, producer=(7, 0, 0)), a_batch(1))
    node.writes.run_all()
    assert node.fs.refused == 1
    kind = DiskFullError if "error_number" in refusal else StorageError
    assert [type(each) for each in answers] == [kind, kind]
    assert [each.error_code for each in answers] == [56, 56]
    assert (content(node), replica.bounds.log_end_offset, replica.error) == (before, 1, None)
    assert node.replicas.budget.held_bytes == 0
    # The same numbers again: nothing of the producer is remembered.
    answers = appends_in_one_turn(node, a_batch(2, producer=(7, 0, 0)))
    node.settle()
    assert answers == [(1, 2)]
    appended = content(node)
    answers = appends_in_one_turn(node, a_batch(1))
    assert len(node.writes.syncs) == 1, "the partition is loaded again, and the loop may write"
    node.settle()
    assert answers == [(3, 3)]
    node.crash()
    again = reopened(tmp_path / "log")
    assert content(again).startswith(appended)
    assert offsets_read(again.replica()) == [0, 1, 2, 3]
    assert again.directory.access.read(T0, ReadablePartition.verify) == []
    again.crash()


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
def test_a_refused_group_is_absent_after_a_crash(node, tmp_path, refusal):
    before = content(node)
    node.fs.refuse(**refusal)
    answers = appends_in_one_turn(node, a_batch(2), a_batch(1))
    node.writes.run_all()
    assert node.fs.refused == 1
    assert [isinstance(each, StorageError) for each in answers] == [True, True]
    node.crash()
    again = reopened(tmp_path / "log")
    assert content(again) == before
    assert offsets_read(again.replica()) == [0]
    again.crash()


def test_a_failed_sync_is_rolled_back_in_a_job_before_it_is_answered(node):
    node.fs.refuse("sync", LOG)
    answers = appends_in_one_turn(node, a_batch(1))
    node.writes.syncs.run_next()
    assert node.fs.refused == 1
    node.append(into=answers)
    node.writes.end_turn()
    assert (answers, len(node.writes.syncs)) == ([], 1)
    node.writes.syncs.run_next()
    assert [type(each) for each in answers] == [StorageError]
    node.settle()
    assert answers[1:] == [(1, 1)]
    node.stop()


def test_a_failed_sync_of_one_partition_does_not_affect_others_of_the_turn(tmp_path):
    node = ReplicaNode(tmp_path / "log", writes=QueuedWrites())
    node.create()
    node.create("u")
    other = TopicPartition("u", 0)
    for partition in (T0, other):
        node.append(partition=partition)
        node.settle()
    node.fs.refuse("sync", LOG)
    answers = node.append()
    others = node.append(partition=other)
    node.writes.run_all()
    assert node.fs.refused == 1
    assert [type(each) for each in answers] == [StorageError]
    assert others == [(1, 1)]
    node.stop()


def test_a_bug_is_an_unknown_error_for_the_client_and_the_partition_stays_online(node, monkeypatch, caplog):
    answers = appends_in_one_turn(node, a_batch(1), a_batch(1))
    with monkeypatch.context() as patched:
        patched.setattr(WritablePartition, "written_bounds", lambda store: 1 // 0)
        node.writes.syncs.run_next()
    assert "ZeroDivisionError" in caplog.text
    assert [type(each) for each in answers] == [StreamlogError, StreamlogError]
    assert node.replicas.budget.held_bytes == 0
    node.append(into=answers)
    node.settle()
    assert type(answers[2]) is tuple
    node.stop()


# -- others who want the partition --


class Waiter:
    """A job in a thread of its own, for what waits for the partition's lock."""

    def __init__(self, work):
        self.done = []
        self._thread = threading.Thread(target=lambda: self.done.append(work()), daemon=True)
        self._thread.start()

    def is_waiting(self):
        """Whatever time it is given."""
        self._thread.join(0.05)
        return self._thread.is_alive() and not self.done

    def end(self):
        self._thread.join(60)
        assert self.done, "it still waits"


@pytest.mark.parametrize("refused", ["nothing", "sync"])
def test_every_change_of_files_holds_the_partition(node, monkeypatch, refused):
    """Until it is published, or rolled back: in between others would take the log for what they see of it."""
    changes, real = [], node.fs.on_call

    def on_call(kind, path):
        if "/t-0/" in path and kind != "open":
            other = PartitionLock(f"{node.directory.path}/t-0/.lock")
            is_free = other.acquire(LockMode.EXCLUSIVE, timeout_seconds=0)
            if is_free:
                other.release()
            other.close()
            changes.append((kind, path.removeprefix(f"{node.directory.path}/"), is_free))
        real(kind, path)

    monkeypatch.setattr(node.fs, "on_call", on_call)
    if refused == "sync":
        node.fs.refuse("sync", LOG)
    appends_in_one_turn(node, a_batch(2), a_batch(1))
    node.writes.run_all()
    assert node.fs.refused == (refused == "sync")
    last = ("truncate", LOG) if refused == "sync" else ("write", "t-0/partition.bounds")
    assert changes[-1][:2] == last
    assert changes[-1][:2] == (("truncate", LOG) if refused == "sync" else ("write", "t-0/partition.bounds"))
    assert [change for change in changes if change[2]] == []
    node.stop()


def test_maintenance_during_a_sync_continues_after_the_publish(node):
    answers = appends_in_one_turn(node, a_batch(2))
    maintenance = Waiter(lambda: node.directory.access.write(T0, lambda store: store.bounds().log_end_offset))
    assert maintenance.is_waiting()
    node.writes.syncs.do_next()
    assert maintenance.is_waiting()
    node.writes.syncs.finish()
    maintenance.end()
    assert (answers, maintenance.done) == ([(1, 2)], [3])
    node.stop()


def test_maintenance_during_a_failed_sync_continues_after_the_rollback(node):
    node.fs.refuse("sync", LOG)
    answers = appends_in_one_turn(node, a_batch(2))
    maintenance = Waiter(lambda: node.directory.access.write(T0, lambda store: store.bounds().log_end_offset))
    node.writes.syncs.run_next()
    assert node.fs.refused == 1
    assert maintenance.is_waiting()
    node.writes.syncs.run_next()
    maintenance.end()
    assert [type(each) for each in answers] == [StorageError]
    assert maintenance.done == [1]
    node.stop()


def test_a_deletion_during_a_sync_waits_for_the_publish_and_refuses_queued_appends(node):
    replica, told = node.replica(), []
    answers = appends_in_one_turn(node, a_batch(2))
    queued = node.append()
    node.topics.delete_topic("t", on_reply=lambda topic: told.append(topic.name), on_error=told.append)
    deletion = Waiter(node.jobs.do_next)
    assert deletion.is_waiting()
    assert Path(node.directory.path, LOG).exists()
    node.writes.syncs.run_next()
    deletion.end()
    assert answers == [(1, 2)], "the append came first"
    assert not Path(node.directory.path, LOG).exists()
    node.settle()
    assert told == ["t"]
    late = node.append(replica=replica)
    node.settle()
    assert [type(each) for each in (*queued, *late)] == [UnknownTopicError] * 2
    assert node.replicas.budget.held_bytes == 0
    node.create()
    node.append(into=late)
    node.settle()
    assert late[1:] == [(0, 0)]
    node.stop()


def test_the_loop_does_not_wait_for_a_lock_of_another_process(node):
    """Recovery for a reader and the making of folders lock the folder themselves, beside what is open."""
    with PartitionLock(f"{node.directory.path}/t-0/.lock").exclusive():
        answers = appends_in_one_turn(node, a_batch(1))
        assert (answers, len(node.writes.syncs), len(node.jobs)) == ([], 0, 1)
    node.settle()
    assert answers == [(1, 1)]
    node.stop()


# -- a node that goes down --


def test_after_an_abandon_during_a_sync_the_next_start_has_the_whole_tail(node, tmp_path):
    answers = appends_in_one_turn(node, a_batch(2), a_batch(1, producer=(7, 0, 0)))
    node.append(into=answers)
    node.replicas.abandon()
    Waiter(lambda: node.directory.close(is_clean=False)).end()
    assert answers == []
    again = reopened(tmp_path / "log")
    assert offsets_read(again.replica()) == [0, 1, 2, 3]
    retried = again.append(a_batch(1, producer=(7, 0, 0)))
    again.append(into=retried)
    again.settle()
    assert retried == [(3, 3), (4, 4)]
    again.crash()


def test_after_an_abandon_following_a_failed_sync_the_directory_can_be_closed(node, tmp_path):
    """The rolling back was a sync job of its own, and those that have not begun are dropped when the node goes down:
    nothing released the partition, and the close waited for ever."""
    node.fs.refuse("sync", LOG)
    answers = appends_in_one_turn(node, a_batch(2))
    node.writes.syncs.run_next()
    assert node.fs.refused == 1
    node.replicas.abandon()
    Waiter(lambda: node.directory.close(is_clean=False)).end()
    assert answers == []
    again = reopened(tmp_path / "log")
    # Never acknowledged, and whole: kept, as after any crash.
    assert offsets_read(again.replica()) == [0, 1, 2]
    again.crash()


def test_an_abandon_during_a_rollback_releases_the_partition_once(node):
    node.fs.refuse("sync", LOG)
    appends_in_one_turn(node, a_batch(2))
    node.writes.syncs.run_next()
    node.writes.syncs.do_next()  # rolled back, and the loop has not heard of it
    assert node.fs.refused == 1
    held = node.directory.access.write(T0, lambda store: store.bounds().log_end_offset)
    node.replicas.abandon()
    assert held == 1
    Waiter(lambda: node.directory.close(is_clean=False)).end()


def test_an_abandon_without_work_in_progress_is_an_ordinary_crash(node, tmp_path):
    node.append()
    node.replicas.abandon()
    node.directory.close(is_clean=False)
    again = reopened(tmp_path / "log")
    assert offsets_read(again.replica()) == [0]
    again.crash()


def test_a_kill_at_any_file_operation_of_a_turn_keeps_acknowledged_records(tmp_path):
    for call in range(200):
        path = tmp_path / str(call)
        node = ReplicaNode(path, writes=QueuedWrites())
        node.create(internal_segment_bytes="500")
        acknowledged = node.append(a_batch(3))
        node.settle()
        node.fs.die_after(call)
        try:
            for _ in range(3):
                for _ in range(2):
                    node.append(a_batch(2), into=acknowledged)
                node.settle()
            died = False
        except Killed:
            died = True
        node.crash()
        again = reopened(path)
        replica = again.replica()
        found = offsets_read(replica)
        assert found == list(range(replica.bounds.log_end_offset))
        assert len(found) >= max(last for _, last in acknowledged) + 1
        again.append()
        again.settle()
        assert replica.bounds.log_end_offset == len(found) + 1
        again.crash()
        if not died:
            assert call > 10
            return
    raise AssertionError("the turns have no end")
