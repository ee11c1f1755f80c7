import os

from support.builders.builders import a_batch
from support.nodes.replica_builders import INTERVAL_MS, ReplicaNode

from broker_core.model.identifiers import TopicPartition


def test_a_maintenance_round_runs_one_partition_at_a_time(tmp_path):
    node = ReplicaNode(tmp_path / "log")
    node.create(partition_count=5)
    before = node.jobs.count
    node.clock.ms += INTERVAL_MS
    node.timers.fire(node.clock.ms)
    for _ in range(1 + 5):
        assert len(node.jobs) == 1
        node.jobs.run_next()
    assert node.jobs.count == before + 1 + 5, "one looks which folders are there"
    assert node.timers.next_ms() == node.clock.ms + INTERVAL_MS
    node.crash()


def test_a_round_without_work_opens_no_partition_for_writing(tmp_path):
    node = ReplicaNode(tmp_path / "log")
    node.create(partition_count=3)
    before = len(node.fs.calls)
    node.fire_timers()
    assert node.fs.calls[before:] == []
    assert node.jobs.count > 3
    node.crash()


def test_a_round_has_no_job_for_a_partition_that_was_never_written(tmp_path):
    node = ReplicaNode(tmp_path / "log")
    node.create(partition_count=200)
    node.append(a_batch(1), partition=TopicPartition("t", 199))
    node.jobs.run_all()
    before = node.jobs.count
    node.fire_timers()
    with_folders = len([name for name in os.listdir(tmp_path / "log") if name.startswith("t-")])
    assert with_folders == 51
    assert node.jobs.count == before + 1 + with_folders
    node.crash()


def test_a_topic_that_is_deleted_during_a_round_is_skipped(tmp_path):
    node = ReplicaNode(tmp_path / "log")
    node.create(partition_count=2)
    node.create("u")
    node.clock.ms += INTERVAL_MS
    node.timers.fire(node.clock.ms)
    node.topics.delete_topic("t", on_reply=lambda topic: None, on_error=lambda error: None)
    node.jobs.run_all()
    answers = node.append(a_batch(1), partition=TopicPartition("u", 0))
    node.jobs.run_all()
    assert answers == [(0, 0)]
    node.crash()


def test_a_stop_finishes_the_current_job_and_starts_no_other(tmp_path):
    node = ReplicaNode(tmp_path / "log")
    node.create(partition_count=5)
    node.clock.ms += INTERVAL_MS
    node.timers.fire(node.clock.ms)
    ended = []
    node.replicas.stop(lambda: ended.append(True))
    assert not ended
    assert node.jobs.run_all() == 1
    assert ended
    assert node.timers.next_ms() is None
    node.crash()
