import shutil

import pytest
from support.builders.builders import a_batch
from support.clients.transacting import SetClock
from support.files.filled_disk import FilledDisk
from support.files.queued_jobs import QueuedJobs
from support.nodes.whole_node import LISTENER, a_node, ask, begin, fetch, make_topic, pass_time, produce, stop

from broker_core.broker.broker_node import BrokerNode, NodePorts
from broker_core.broker.settings.broker_config import parse_broker_config
from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.log_directory.system_ports import SystemEntropy
from broker_core.model.exceptions import DirectoryLockedError, DirectoryReadOnlyError, InvalidConfigError
from broker_core.protocol.api_table import ApiKey
from broker_core.storage.os_file_system import OsFileSystem

CLEAN_MARK = ".kafka_cleanshutdown"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log"


def names(node):
    return sorted(node.topics.image.topics)


def waits_for_records(node):
    return begin(node, ApiKey.FETCH, 12, max_wait=500, min_bytes=1, max_bytes=2**20, isolation_level=0,
                 session_epoch=-1, topics=[{"topic": "t", "partitions": [
                     {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 2**20}]}])  # fmt: skip


def test_a_new_directory_is_created_with_everything_a_node_needs(path):
    node = a_node(path)
    assert (path / "meta.properties").exists()
    assert len(node.cluster.cluster_id) == 22
    assert (node.cluster.node_id, node.directory_path, names(node)) == (1, str(path), [])
    assert node.cluster.endpoint_of(1, LISTENER).port == 9092
    assert not node.is_full


def test_the_node_is_ready_only_after_its_jobs(path):
    config = parse_broker_config({"listeners": f"{LISTENER}://127.0.0.1:9092", "log.dirs": str(path)})
    jobs = QueuedJobs()
    ports = NodePorts(jobs=jobs, clock=SetClock(), entropy=SystemEntropy(), file_system=OsFileSystem())
    ready = []
    BrokerNode(config, ports).start(lambda: ready.append(True), ready.append)
    assert (ready, path.exists()) == ([], False)
    jobs.run_all()
    assert ready == [True]


def test_a_restart_keeps_everything(path):
    node = a_node(path)
    topic_id, cluster_id = make_topic(node, "t", 2, retention_ms=5000), node.cluster.cluster_id
    produce(node, "t", a_batch(3), partition=1)
    stop(node)
    again = a_node(path)
    topic = again.topics.topic("t")
    assert (again.cluster.cluster_id, topic.topic_id, topic.partition_count) == (cluster_id, topic_id, 2)
    assert topic.configs == {"retention.ms": "5000"}
    assert fetch(again, "t", partition=1).high_watermark == 3
    assert produce(again, "t", a_batch(1), partition=1).base_offset == 3


def test_a_stop_writes_the_clean_marker_and_the_next_start_removes_it(path):
    node = a_node(path)
    make_topic(node, "t")
    produce(node, "t", a_batch(3))
    assert not (path / CLEAN_MARK).exists()
    assert not node.is_closed_cleanly
    stop(node)
    assert node.is_closed_cleanly
    assert (path / CLEAN_MARK).exists()
    a_node(path)
    assert not (path / CLEAN_MARK).exists()


def test_a_stop_that_cannot_write_the_marker_is_not_clean(path, caplog):
    node = a_node(path)
    make_topic(node, "t")
    produce(node, "t", a_batch(3))
    (path / CLEAN_MARK).mkdir()
    stop(node)
    assert not node.is_closed_cleanly
    assert "was not closed cleanly" in caplog.text
    (path / CLEAN_MARK).rmdir()
    assert fetch(a_node(path), "t").high_watermark == 3


def test_a_node_that_never_started_stops(path):
    config = parse_broker_config({"listeners": f"{LISTENER}://127.0.0.1:9092", "log.dirs": str(path)})
    ports = NodePorts(jobs=QueuedJobs(), clock=SetClock(), entropy=SystemEntropy(), file_system=OsFileSystem())
    node = BrokerNode(config, ports)
    stop(node)
    assert node.is_closed_cleanly
    assert not path.exists()


def test_queued_appends_are_written_before_the_stop_completes(path):
    node = a_node(path)
    make_topic(node, "t")
    waiting = produce(node, "t", a_batch(3), run=False)
    stopped = []
    node.stop(lambda: stopped.append(waiting.answer is not None))
    node.jobs.run_all()
    assert stopped == [True]
    assert fetch(a_node(path), "t").high_watermark == 3


def test_a_node_that_is_abandoned_recovers_at_its_next_start(path):
    node = a_node(path)
    make_topic(node, "t")
    produce(node, "t", a_batch(3))
    node.abandon()
    assert not (path / CLEAN_MARK).exists()
    log = path / "t-0" / f"{0:020}.log"
    torn = log.read_bytes() + bytes(a_batch(2))[:70]
    log.write_bytes(torn)
    again = a_node(path)
    assert fetch(again, "t").high_watermark == 3
    assert produce(again, "t", a_batch(1)).base_offset == 3


def test_a_directory_is_served_by_only_one_node(path):
    node = a_node(path)
    with pytest.raises(DirectoryLockedError):
        a_node(path)
    stop(node)
    a_node(path)


def test_a_directory_that_is_open_embedded_is_refused(path):
    with open_embedded(str(path), create=True) as cluster:
        cluster.create_topic("t", partition_count=1)
        with pytest.raises(DirectoryLockedError):
            a_node(path)
    assert names(a_node(path)) == ["t"]


def test_a_directory_created_without_a_broker_is_served(path):
    with open_embedded(str(path), create=True) as cluster:
        topic = cluster.create_topic("t", partition_count=2)
    node = a_node(path)
    assert node.topics.topic("t").topic_id == topic.topic_id
    assert produce(node, "t", a_batch(2), partition=1).base_offset == 0


def test_the_directory_of_another_node_is_refused_unchanged(path):
    stop(a_node(path))
    with pytest.raises(InvalidConfigError, match=r"node\.id=7.*node 1"):
        a_node(path, node_id=7)
    assert (path / CLEAN_MARK).exists()
    assert a_node(path).cluster.node_id == 1


def test_a_new_directory_gets_the_configured_node_id(path):
    stop(a_node(path, node_id=7))
    assert "node.id=7" in (path / "meta.properties").read_text()
    assert a_node(path, node_id=7).cluster.node_id == 7


def test_the_directory_of_a_real_kafka_is_refused_unchanged(path):
    path.mkdir()
    written = "version=1\nnode.id=1\ncluster.id=w8WlDxYpRZiqz40hLUVc2Q\ndirectory.id=R1lVqVXbQ0eC0q9J0xZ1Bw\n"
    (path / "meta.properties").write_text(written)
    with pytest.raises(DirectoryReadOnlyError, match=r"log\.dirs"):
        a_node(path)
    assert (path / "meta.properties").read_text() == written
    shutil.rmtree(path)
    a_node(path)


def test_a_parked_fetch_is_completed_by_records_and_its_timer_is_cancelled(path):
    node = a_node(path)
    make_topic(node, "t")
    before = len(node.timers)
    waiting = waits_for_records(node)
    node.jobs.run_all()
    assert (waiting.answer, len(node.timers)) == (None, before + 1)
    produce(node, "t", a_batch(2))
    assert waiting.answer.responses[0].partitions[0].high_watermark == 2
    assert len(node.timers) == before


def test_a_parked_fetch_is_answered_without_records_at_its_timeout(path):
    node = a_node(path)
    make_topic(node, "t")
    waiting = waits_for_records(node)
    pass_time(node, 499)
    assert waiting.answer is None
    assert node.next_timer_ms() == node.clock.now_ms() + 1
    pass_time(node, 1)
    (partition,) = waiting.answer.responses[0].partitions
    assert (partition.error_code.name, len(partition.records)) == ("none", 0)
    # Nothing is left of it that a later append would wake.
    assert produce(node, "t", a_batch(1)).base_offset == 0


def test_a_topic_is_auto_created_once(path, caplog):
    node = a_node(path, num_partitions=3)
    for _ in range(3):
        node.make_topic_automatically("t")
    node.jobs.run_all()
    assert node.topics.topic("t").partition_count == 3
    assert "auto-creation failed" not in caplog.text


def test_a_failed_auto_creation_is_logged_and_can_be_retried(path, caplog):
    node = a_node(path)
    make_topic(node, "a.b")
    for _ in range(2):
        node.make_topic_automatically("a_b")
        node.jobs.run_all()
    assert caplog.text.count("topic=a_b: auto-creation failed") == 2


def test_session_ids_are_never_negative(path):
    node = a_node(path)
    make_topic(node, "t")
    for _ in range(5):
        answer = ask(node, ApiKey.FETCH, 12, max_wait=0, min_bytes=0, max_bytes=2**20, isolation_level=0, session_id=0,
                     session_epoch=0, topics=[{"topic": "t", "partitions": [
                         {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 2**20}]}])  # fmt: skip
        assert 0 < answer.session_id < 2**31


@pytest.mark.parametrize("has_folders", [False, True])
def test_a_topic_whose_folder_a_full_disk_refused_is_empty_and_usable_once_there_is_room(tmp_path, has_folders):
    disk = FilledDisk()
    node = a_node(tmp_path / "log", fs=disk)
    disk.is_full, disk.has_folders = True, has_folders
    make_topic(node, "t")
    assert disk.refused_count

    def bounds():
        partitions = [{"partition_index": 0, "timestamp": timestamp} for timestamp in (-2, -1)]
        found = [
            ask(node, ApiKey.LIST_OFFSETS, 5, replica_id=-1, topics=[{"name": "t", "partitions": [one]}])
            for one in partitions
        ]
        return [(one.topics[0].partitions[0].error_code.name, one.topics[0].partitions[0].offset) for one in found]

    for _ in range(2):
        assert ask(node, ApiKey.METADATA, 12, topics=[{"name": "t"}]).topics[0].error_code.name == "none"
        assert bounds() == [("none", 0), ("none", 0)]
        assert fetch(node, "t").error_code.name == "none"
        assert produce(node, "t", a_batch(1)).error_code.name == "kafka_storage_error"
    disk.is_full = False
    assert produce(node, "t", a_batch(1)).error_code.name == "none"
    assert bounds() == [("none", 0), ("none", 1)]
    stop(node)


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_topic_whose_folder_a_full_disk_refused_can_be_deleted(tmp_path, is_restarted):
    disk = FilledDisk()
    node = a_node(tmp_path / "log", fs=disk)
    disk.is_full = True
    make_topic(node, "t")
    produce(node, "t", a_batch(1))
    assert disk.refused_count
    if is_restarted:
        node.abandon()
        disk.is_full = False
        node = a_node(tmp_path / "log", fs=disk)
        disk.is_full = True
    answer = ask(node, ApiKey.DELETE_TOPICS, 6, topics=[{"name": "t"}], timeout=1000)
    assert answer.responses[0].error_code.name == "none"
    disk.is_full = False
    make_topic(node, "t")
    assert produce(node, "t", a_batch(1)).error_code.name == "none"
    stop(node)
