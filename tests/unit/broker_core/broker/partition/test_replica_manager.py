import errno
import logging
import os
from pathlib import Path

import pytest
from support.builders.builders import SOME_TIME_MS, a_batch, a_record
from support.nodes.replica_builders import INTERVAL_MS, T0, RefusingFileSystem, ReplicaNode, offsets_read

from broker_core.model.exceptions import (
    StorageError,
    TooManyOpenFilesError,
    UnknownPartitionError,
    UnknownTopicError,
)
from broker_core.model.identifiers import IsolationLevel, TopicPartition

DAY_MS = 86_400_000


@pytest.fixture
def node(tmp_path):
    node = ReplicaNode(tmp_path / "log")
    yield node
    node.crash()


def test_a_partition_is_opened_once_and_an_unknown_one_is_refused_by_name(node):
    node.create(partition_count=2)
    assert node.replica() is node.replica()
    with pytest.raises(UnknownTopicError, match="'x'"):
        node.replica(TopicPartition("x", 0))
    with pytest.raises(UnknownPartitionError, match="partitions 0 to 1, not 2"):
        node.replica(TopicPartition("t", 2))
    assert [str(replica.topic_partition) for replica in node.replicas.all()] == ["t-0", "t-1"]


def test_a_start_opens_no_partition(tmp_path):
    node = ReplicaNode(tmp_path / "log")
    node.create(partition_count=50)
    node.stop()
    node = ReplicaNode(tmp_path / "log")
    assert node.fs.calls == [] or all("t-" not in path for _, path in node.fs.calls)
    assert node.replicas._replicas == {}
    assert node.replica(TopicPartition("t", 49)).bounds.log_end_offset == 0
    node.crash()


def test_a_partition_without_its_folder_is_empty_and_created_by_the_first_append(node, tmp_path):
    node.fs.refuse("make_directory", "t-0", count=1)
    node.create()
    assert not (tmp_path / "log" / "t-0").exists()
    replica = node.replica()
    assert offsets_read(replica) == []
    assert node.replicas.sizes()() == {T0: 0}
    answers = node.append(a_batch(2))
    node.jobs.run_all()
    assert answers == [(0, 1)]
    assert offsets_read(replica) == [0, 1]


def test_a_new_partition_count_applies_immediately(node):
    node.create()
    node.replica()
    node._change(node.topics.create_partitions, "t", 3)
    answers = node.append(partition=TopicPartition("t", 2))
    node.jobs.run_all()
    assert answers == [(0, 0)]


def test_files_of_a_deleted_topic_are_closed(node, tmp_path):
    node.create()
    node.append()
    node.jobs.run_all()
    offsets_read(node.replica())
    node.delete()
    node.jobs.run_all()
    assert not (tmp_path / "log" / "t-0").exists()
    opened = [str(each.resolve()) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    assert not [each for each in opened if str(tmp_path) in each and "t-0" in each]


def test_a_recovery_error_takes_only_its_partition_offline(node, caplog):
    node.create(partition_count=2)
    with caplog.at_level(logging.ERROR):
        node.replicas.start(0, errors={T0: StorageError("no such device"), TopicPartition("gone", 0): StorageError("")})
    assert "partition=t-0 offline" in caplog.text
    assert [node.replicas.is_offline(TopicPartition("t", number)) for number in range(2)] == [True, False]
    with pytest.raises(StorageError, match="no such device"):
        node.replica()
    node.append(partition=TopicPartition("t", 1))
    node.fire_timers()
    assert node.replica().error is None


def test_old_records_are_removed_after_the_interval_and_listeners_are_notified(node):
    node.create(retention_ms=str(DAY_MS), internal_segment_bytes="200")
    told = []
    replica = node.replica()
    replica.on_advance(lambda: told.append(replica.bounds.log_start_offset))
    for _ in range(4):
        node.append(a_batch(1))
    node.jobs.run_all()
    told.clear()
    node.fire_timers(INTERVAL_MS - 1)
    assert told == []
    node.fire_timers(2 * DAY_MS)
    assert told == [4]
    assert replica.bounds.log_start_offset == replica.bounds.log_end_offset == 4
    node.append(a_batch([a_record(0, timestamp_ms=node.clock.ms)]))
    node.jobs.run_all()
    node.fire_timers()
    assert offsets_read(replica) == [4]


def test_pinned_records_are_kept_at_any_age(tmp_path):
    pinned = {T0: 2}
    node = ReplicaNode(tmp_path / "log", pinned=pinned.get)
    node.create(retention_ms=str(DAY_MS), internal_segment_bytes="100")
    for _ in range(4):
        node.append(a_batch(1))
    node.jobs.run_all()
    node.fire_timers(2 * DAY_MS)
    assert node.replica().bounds.log_start_offset == 2
    node.crash()


def test_retention_waits_for_the_next_check_and_is_logged(node, caplog):
    """In Kafka, too: what was produced with old timestamps can be read until then, though its segment was rolled."""
    node.create(retention_bytes="500", internal_segment_bytes="200")
    for _ in range(20):
        node.append(a_batch(1))
    node.jobs.run_all()
    replica = node.replica()
    assert replica.bounds.log_start_offset == 0
    with caplog.at_level("INFO"):
        node.fire_timers()
    assert replica.bounds.log_start_offset > 0
    assert "partition=t-0 retention deleted" in caplog.text
    assert f"the log starts at {replica.bounds.log_start_offset}" in caplog.text
    assert node.replicas.sizes([T0])()[T0] < 900
    assert offsets_read(replica)[0] == replica.bounds.log_start_offset


def test_a_compacted_partition_keeps_the_newest_of_each_key_soon_after_a_roll(node):
    node.create(cleanup_policy="compact", internal_segment_bytes="200", min_cleanable_dirty_ratio="0")
    for _ in range(8):
        node.append(a_batch([a_record(0, key=b"k")]))
    node.jobs.run_all()
    replica = node.replica()
    assert replica.bounds.log_end_offset == 8
    assert offsets_read(replica)[-1] == 7
    assert len(offsets_read(replica)) < 5


def test_the_nodes_defaults_apply_to_topics_without_a_value(tmp_path):
    node = ReplicaNode(tmp_path / "log", topic_defaults={"max.message.bytes": "100"})
    node.create()
    node.create("u", max_message_bytes="1000")
    answers = node.append(a_batch(3))
    node.append(a_batch(3), partition=TopicPartition("u", 0), into=answers)
    node.jobs.run_all()
    assert answers[0].error_code == 10
    assert answers[1] == (0, 2)
    node.crash()


def test_a_stop_waits_for_queued_appends_and_flushes_them(tmp_path):
    node = ReplicaNode(tmp_path / "log")
    node.create(flush_policy="os")
    answers = node.append()
    node.append(into=answers)
    ended = []
    node.replicas.stop(lambda: ended.append(list(answers)))
    assert ended == []
    begun = node.fs.count("sync", "t-0/00000000000000000000.log")
    node.jobs.run_all()
    assert ended == [[(0, 0), (1, 1)]]
    assert node.fs.count("sync", "t-0/00000000000000000000.log") == begun + 1
    assert node.replicas.is_flushed
    node.directory.close(is_clean=True)
    again = ReplicaNode(tmp_path / "log")
    assert again.directory.was_clean
    assert offsets_read(again.replica()) == [0, 1]
    again.crash()


def test_a_stop_that_cannot_flush_does_not_mark_the_directory_clean(tmp_path):
    node = ReplicaNode(tmp_path / "log")
    node.create(flush_policy="os")
    node.append()
    node.jobs.run_all()
    node.fs.refuse("sync", ".log")
    node.stop()
    assert node.fs.refused == 1
    assert not (tmp_path / "log" / ".kafka_cleanshutdown").exists()


def test_the_disk_space_is_reported(node):
    space = node.replicas.disk_space()
    assert space.total_bytes >= space.usable_bytes > 0


def test_reads_begin_at_the_new_log_start_after_another_process_removed_records(node):
    node.create(internal_segment_bytes="200")
    for _ in range(6):
        node.append(a_batch(2))
    node.jobs.run_all()
    replica = node.replica()
    replica.read(0, max_bytes=1, isolation=IsolationLevel.READ_UNCOMMITTED)
    replica.delete_records(6, lambda start: None, pytest.fail)
    node.jobs.run_all()
    assert offsets_read(replica) == list(range(6, 12))
    assert replica.find_offset(SOME_TIME_MS, IsolationLevel.READ_UNCOMMITTED)().offset == 6


@pytest.mark.parametrize("is_known", [True, False])
def test_too_many_open_files_take_no_partition_offline(tmp_path, is_known):
    """It was offline for everybody until the next round of maintenance, long after files were to be had again."""
    node = ReplicaNode(tmp_path / "log", fs=CrampedFileSystem())
    node.create()
    node.append()
    node.jobs.run_all()
    node.stop()
    node = ReplicaNode(tmp_path / "log", fs=CrampedFileSystem())
    if is_known:
        node.replica()
    node.fs.is_full = True
    if is_known:
        answers = node.append()
        node.jobs.run_all()
        assert isinstance(answers[0], TooManyOpenFilesError)
    else:
        with pytest.raises(TooManyOpenFilesError):
            node.replica()
    node.fs.is_full = False
    answers = node.append()
    node.jobs.run_all()
    assert answers == [(1, 1)]


class CrampedFileSystem(RefusingFileSystem):
    """No file can be opened while `is_full`."""

    is_full = False

    def open(self, path, **more):
        if self.is_full:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)
        return super().open(path, **more)
