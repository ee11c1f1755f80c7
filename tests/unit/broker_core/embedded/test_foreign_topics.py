import os
import shutil
from uuid import UUID

import pytest
from golden_data import fingerprint, unpack

from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.embedded.foreign_topics import ForeignTopics
from broker_core.metadata.metadata_records import ConfigRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from broker_core.metadata.metadata_replay import build_metadata_batch
from broker_core.model.identifiers import TopicPartition
from broker_core.record.batch_reader import iter_headers
from broker_core.storage.checkpoints import write_partition_metadata
from broker_core.storage.os_file_system import OsFileSystem

CODECS_ID = UUID("291e4921-5607-4044-97ce-45e464a231ba")


@pytest.fixture
def golden(tmp_path):
    return unpack(tmp_path) / "log"


def topics_of(path):
    catalog = ForeignTopics(OsFileSystem(), str(path))
    catalog.refresh()
    return catalog.topics()


def test_topics_have_the_ids_counts_and_settings_of_the_metadata_log(golden):
    before = fingerprint(golden)
    topics = topics_of(golden)
    assert "__cluster_metadata" not in topics
    assert topics["codecs"].topic_id == CODECS_ID
    assert topics["keyed"].partition_count == 5
    assert topics["log-append"].configs["message.timestamp.type"] == "LogAppendTime"
    assert topics["__consumer_offsets"].is_internal
    assert fingerprint(golden) == before


def test_without_a_metadata_log_topics_come_from_folders_without_settings(golden):
    shutil.rmtree(golden / "__cluster_metadata-0")
    topics = topics_of(golden)
    assert topics["codecs"].topic_id == CODECS_ID
    assert topics["keyed"].partition_count == 5
    assert topics["log-append"].configs == {}


def test_with_an_unreadable_metadata_log_topics_come_from_folders(golden, caplog):
    log = golden / "__cluster_metadata-0" / "00000000000000000000.log"
    data = bytearray(log.read_bytes())
    data[200] ^= 1
    log.write_bytes(data)
    assert topics_of(golden)["keyed"].partition_count == 5
    assert "listing topics by their folders" in caplog.text


def test_a_topic_with_some_local_partitions_lists_them_all(golden):
    for number in (1, 2, 4):
        shutil.rmtree(golden / f"keyed-{number}")
    assert topics_of(golden)["keyed"].partition_count == 5


def test_a_topic_without_a_local_folder_is_not_listed(golden):
    shutil.rmtree(golden / "trimmed-0")
    assert "trimmed" not in topics_of(golden)


def test_the_newest_snapshot_and_later_records_apply(golden):
    folder = golden / "__cluster_metadata-0"
    topic_id = UUID(int=12345)
    partition = PartitionRecord(partition_id=2, topic_id=topic_id, replicas=(1,), isr=(1,), leader=1)
    new_setting = ConfigRecord(resource_type=2, resource_name="new", name="retention.ms", value="9")
    snapshot = build_metadata_batch([TopicRecord(name="new", topic_id=topic_id), partition, new_setting], now_ms=1)
    (folder / "00000000000000000176-0000000001.checkpoint").write_bytes(snapshot)
    older = build_metadata_batch([RemoveTopicRecord(topic_id=topic_id)], now_ms=1)
    (folder / "00000000000000000042-0000000001.checkpoint").write_bytes(older)
    (golden / "new-0").mkdir()
    write_partition_metadata(OsFileSystem(), str(golden / "new-0"), topic_id)
    topics = topics_of(golden)
    assert (topics["new"].partition_count, topics["new"].configs) == (3, {"retention.ms": "9"})
    assert topics["codecs"].configs == {}  # its records are all below the snapshot's offset


def test_a_leftover_folder_of_an_earlier_topic_is_described_separately(golden):
    write_partition_metadata(OsFileSystem(), str(golden / "log-append-0"), UUID(int=7))
    topic = topics_of(golden)["log-append"]
    assert (topic.topic_id, topic.configs) == (UUID(int=7), {})


def test_a_folder_that_appears_is_found_at_the_next_refresh(golden):
    catalog = ForeignTopics(OsFileSystem(), str(golden))
    catalog.refresh()
    assert catalog.topic("later") is None
    (golden / "later-0").mkdir()
    os.utime(golden, ns=(1, 1))
    catalog.refresh()
    assert catalog.topic("later").topic_id.int == 0


def test_a_topic_with_damaged_partition_metadata_is_still_listed(golden, caplog):
    # A Kafka that lost its machine leaves the file empty: the topic was said not to exist.
    (golden / "codecs-0" / "partition.metadata").write_bytes(b"")
    (golden / "codecs-1" / "partition.metadata").write_bytes(b"")
    assert topics_of(golden)["codecs"].partition_count == 2
    assert "codecs-0/partition.metadata" in caplog.text


def test_records_that_a_running_kafka_appends_to_a_preallocated_segment_are_read(golden):
    log = golden / "codecs-0" / "00000000000000000000.log"
    data = log.read_bytes()
    _, last = list(iter_headers(data))[-1]
    whole = data.ljust(1 << 20, b"\0")
    log.write_bytes(data[: -last.size_bytes].ljust(1 << 20, b"\0"))
    os.utime(log, (1, 1))
    with open_embedded(golden) as cluster:
        assert cluster.bounds(TopicPartition("codecs", 0)).log_end_offset == last.base_offset
        log.write_bytes(whole)
        assert cluster.bounds(TopicPartition("codecs", 0)).log_end_offset == last.next_offset
