import json
import shutil

import pytest
from support.builders.builders import SOME_TIME_MS, a_batch
from support.files.queued_jobs import QueuedJobs
from support.nodes.replica_builders import ReplicaNode, offsets_read

from broker_core.broker.node_directory import NodeDirectory
from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.log_directory.system_ports import SystemClock, SystemEntropy
from broker_core.model.exceptions import (
    CorruptDataError,
    DirectoryFormatError,
    DirectoryLockedError,
    DirectoryReadOnlyError,
)
from broker_core.model.identifiers import TopicPartition
from broker_core.storage.os_file_system import OsFileSystem


def open_directory(path):
    return NodeDirectory.open(OsFileSystem(), str(path), SystemClock(), SystemEntropy())


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log"


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr("broker_core.log_directory.directory._LOCK_WAIT_SECONDS", 0.05)


def test_a_missing_directory_is_created_and_needs_no_recovery(path):
    directory = open_directory(path / "below")
    assert directory.was_clean
    assert directory.properties.is_ours
    assert (path / "below" / "__cluster_metadata-0").is_dir()
    done = []
    directory.recover(QueuedJobs(), done.append)
    assert done == [{}]
    directory.close(is_clean=True)


def test_a_directory_in_use_by_a_broker_is_refused_with_advice(path, impatient):
    directory = open_directory(path)
    with pytest.raises(DirectoryLockedError, match=r"served by a broker.*kafka\.bootstrap\.servers"):
        open_embedded(str(path))
    with pytest.raises(DirectoryLockedError, match=r"open in another process.*log\.dirs"):
        open_directory(path)
    directory.close(is_clean=False)
    with open_embedded(str(path)) as cluster:
        assert cluster.describe_topics() == {}


def test_a_directory_that_is_in_use_without_a_broker_is_refused(path, impatient):
    with open_embedded(str(path), create=True) as cluster:
        cluster.create_topic("t", partition_count=1)
        with pytest.raises(DirectoryLockedError, match="open in another process"):
            open_directory(path)
    open_directory(path).close(is_clean=True)


def test_a_directory_of_a_real_kafka_is_refused_unchanged(path):
    path.mkdir()
    (path / "meta.properties").write_text("#\nversion=1\nnode.id=1\ncluster.id=abc\n")
    before = sorted(each.name for each in path.iterdir())
    with pytest.raises(DirectoryReadOnlyError, match=r"written by Apache Kafka.*log\.dirs"):
        open_directory(path)
    assert sorted(each.name for each in path.iterdir()) == before


def test_a_directory_that_is_not_a_log_is_refused(path):
    path.mkdir()
    (path / "letter.txt").write_text("Dear Jay")
    with pytest.raises(DirectoryFormatError):
        open_directory(path)


def test_a_clean_stop_writes_kafkas_marker_and_a_start_removes_it(path):
    open_directory(path).close(is_clean=True)
    mark = path / ".kafka_cleanshutdown"
    assert json.loads(mark.read_text()) == {"version": 0, "brokerEpoch": -1}
    directory = open_directory(path)
    assert directory.was_clean
    assert not mark.exists()
    directory.close(is_clean=False)
    assert not mark.exists()
    directory = open_directory(path)
    assert not directory.was_clean
    directory.close(is_clean=True)


def test_using_the_directory_without_a_broker_removes_the_marker(path):
    open_directory(path).close(is_clean=True)
    with open_embedded(str(path)) as cluster:
        cluster.create_topic("t", partition_count=1)
        cluster.append(TopicPartition("t", 0), a_batch(2))
    node = ReplicaNode(path)
    assert not node.directory.was_clean
    assert offsets_read(node.replica()) == [0, 1]
    node.crash()


def recovered(path, caplog):
    """What a start says of how it found the directory: level and words."""
    caplog.clear()
    node = ReplicaNode(path)
    node.directory.recover(node.jobs, lambda errors: None)
    node.jobs.run_all()
    said = [(record.levelname, record.message) for record in caplog.records if str(path) in record.message]
    return node, said


def test_a_directory_used_without_a_broker_is_not_reported_as_an_unclean_shutdown(path, caplog):
    caplog.set_level("INFO")
    with open_embedded(str(path), create=True) as cluster:
        cluster.create_topic("t", partition_count=2)
    node, said = recovered(path, caplog)
    words = f"directory={path} was last used without a broker: checking the ends of its 2 partitions"
    assert said == [("INFO", words)]
    node.directory.close(is_clean=True)
    with open_embedded(str(path)) as cluster:
        cluster.append(TopicPartition("t", 0), a_batch(2))
    node, said = recovered(path, caplog)
    assert said == [("INFO", words)]
    node.directory.close(is_clean=True)
    node, said = recovered(path, caplog)
    assert said == []
    node.crash()


def test_a_killed_broker_is_reported_even_if_the_directory_was_used_without_one_since(path, caplog):
    caplog.set_level("INFO")
    ReplicaNode(path).crash()
    with open_embedded(str(path)) as cluster:
        cluster.create_topic("t", partition_count=1)
    node, [(level, words)] = recovered(path, caplog)
    assert level == "WARNING"
    assert "power failed, or the disk was full): recovering its 1 partitions" in words
    node.crash()


def test_without_the_marker_every_folder_is_recovered_and_a_missing_one_is_an_empty_partition(path, caplog):
    node = ReplicaNode(path)
    node.create(partition_count=4)
    for number in range(4):
        node.append(a_batch(3), partition=TopicPartition("t", number))
    node.jobs.run_all()
    node.crash()
    # The power failed: the bounds on the device are older than what was acknowledged. And a folder is gone.
    (path / "t-1" / "partition.bounds").unlink()
    with (path / "t-2" / "00000000000000000000.log").open("ab") as file:
        file.write(bytes(a_batch(1))[:40])
    shutil.rmtree(path / "t-3")
    node = ReplicaNode(path)
    progress, done = [], []
    node.directory.recover(
        node.jobs, done.append, on_progress=lambda done_count, count: progress.append((done_count, count))
    )
    node.jobs.run_all()
    assert progress == [(1, 3), (2, 3), (3, 3)]
    assert done == [{}]
    assert "power failed, or the disk was full): recovering its 3 partitions" in caplog.text
    assert [node.replica(TopicPartition("t", number)).bounds.log_end_offset for number in range(4)] == [3, 3, 3, 0]
    assert (path / "t-2" / "00000000000000000000.log").stat().st_size == len(a_batch(3))
    node.crash()


def test_a_damaged_partition_is_reported_by_recovery_and_the_others_are_recovered(path):
    node = ReplicaNode(path)
    node.create(partition_count=2)
    for number in range(2):
        node.append(a_batch(3), partition=TopicPartition("t", number))
    node.jobs.run_all()
    node.crash()
    (path / "t-0" / "00000000000000000000.log").write_bytes(b"")
    node = ReplicaNode(path)
    (done,) = [[]]
    node.directory.recover(node.jobs, done.append)
    node.jobs.run_all()
    ((partition, error),) = done[0].items()
    assert (partition, isinstance(error, CorruptDataError)) == (TopicPartition("t", 0), True)
    node.replicas.start(SOME_TIME_MS, errors=done[0])
    assert node.replicas.is_offline(TopicPartition("t", 0))
    assert offsets_read(node.replica(TopicPartition("t", 1))) == [0, 1, 2]
    node.crash()


def test_a_start_removes_leftovers_of_deleted_topics(path):
    node = ReplicaNode(path)
    node.create()
    node.stop()
    (path / "t-0").rename(path / f"t-0.{'a' * 32}-delete")
    node = ReplicaNode(path)
    assert not (path / f"t-0.{'a' * 32}-delete").exists()
    node.crash()
