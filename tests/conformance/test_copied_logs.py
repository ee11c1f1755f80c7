"""Copies from and to a real Kafka: a consumer sees the same records on both sides, Kafka's tools accept the files."""

from __future__ import annotations

import pytest
from conformance.dumped_segments import data_files, dump
from support.brokers.either_broker import running_broker
from support.builders.builders import a_batch
from support.builders.committed_rows import committed_rows
from support.builders.copy_places import KEEPS, bounds_of, fill_densely, fill_with_gaps
from support.clients.confluent_clients import read_all
from support.clients.transacting import begin, write
from support.objects.object_builders import MemoryLog

from broker_core.cluster import GroupOffset
from broker_core.embedded.embedded_cluster import EmbeddedCluster
from broker_core.log_copy.copy_marker import COPY_GROUP
from broker_core.log_copy.group_copy import copy_groups
from broker_core.log_copy.log_copy import LogCopy
from broker_core.model.exceptions import CopyRefusedError
from broker_core.model.identifiers import TopicPartition

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def kafka(tmp_path_factory):
    with running_broker("real", tmp_path_factory.mktemp("kafka") / "node") as broker:
        yield broker


@pytest.fixture(scope="module")
def client(kafka):
    with kafka.client() as shared:
        yield shared


@pytest.fixture
def directory(tmp_path):
    with EmbeddedCluster(tmp_path / "log", create=True) as cluster:
        yield cluster


def copy_topic(source, target, topic, **how):
    job = LogCopy(source, target, **how)
    return job.run(job.plan([source.describe_topics([topic])[topic]]), lambda partition, done, total: None)


def consumed(kafka, topic):
    """(partition, offset, time, key, value, headers) of each record that a read-committed consumer gets from Kafka."""
    return sorted(
        (
            message.partition(),
            message.offset(),
            message.timestamp()[1],
            message.key(),
            message.value(),
            tuple(message.headers() or ()),
        )
        for message in read_all(kafka, topic)
    )


def shown(rows):
    """Our rows in the same form."""
    return sorted(
        (
            row["partition"],
            row["offset"],
            round(row["timestamp"].timestamp() * 1000),
            row["key"],
            row["value"],
            tuple((header["key"], header["value"]) for header in row["headers"] or ()),
        )
        for row in rows
    )


def test_a_kafka_topic_is_copied_to_a_directory_to_objects_and_back_with_every_gap(kafka, client, directory, tmp_path):
    topic = kafka.name()
    fill_with_gaps(client, topic)
    client.commit_offsets("moved", {TopicPartition(topic, 0): GroupOffset(offset=7)})
    copied = copy_topic(client, directory, topic)
    copy_groups(client, directory, copied)
    seen = consumed(kafka, topic)
    assert len({offset for partition, offset, *_ in seen if partition == 0}) > 10
    with MemoryLog().open() as objects, EmbeddedCluster(tmp_path / "back", create=True) as back:
        copy_topic(directory, objects, topic)
        copy_topic(objects, back, topic)
        for cluster in (directory, objects, back):
            assert shown(committed_rows(cluster, topic)) == seen
            assert bounds_of(cluster, topic) == bounds_of(client, topic)
    assert directory.fetch_offsets("moved")[TopicPartition(topic, 0)].offset == 7


def test_kafkas_dump_accepts_the_copied_directory(kafka, client, directory, tmp_path):
    topic = kafka.name()
    fill_with_gaps(client, topic)
    copy_topic(client, directory, topic)
    folder = tmp_path / "log"
    files = [path for path in data_files(folder) if path.parent.name.startswith(topic)]
    dumped = dump(files, "--print-data-log")
    for number in range(4):
        lines = dumped.records(folder / f"{topic}-{number}")
        offsets = [int(line.split("offset: ")[1].split(" ")[0]) for line in lines]
        rows = [row["offset"] for row in committed_rows(directory, topic) if row["partition"] == number]
        start = directory.bounds(TopicPartition(topic, number)).log_start_offset
        assert [offset for offset in offsets if offset >= start] == rows
    assert (folder / f"{topic}-2" / f"{7:020}.log").exists()


def test_a_consumer_sees_the_records_of_a_directory_at_their_offsets(kafka, client, directory):
    topic = kafka.name()
    fill_densely(directory, topic)
    copy_topic(directory, client, topic)
    assert consumed(kafka, topic) == shown(committed_rows(directory, topic))
    directory.append(TopicPartition(topic, 1), a_batch(3))
    # As when the group has expired: the records themselves show how far the copy got.
    client.delete_group(COPY_GROUP)
    assert [one.record_count for one in copy_topic(directory, client, topic)] == [0, 3]
    assert consumed(kafka, topic) == shown(committed_rows(directory, topic))


def test_a_gap_is_refused_and_renumbered_records_come_once(kafka, client, directory):
    topic = kafka.name()
    partition = TopicPartition(topic, 0)
    directory.create_topic(topic, configs=KEEPS)
    directory.append(partition, a_batch(4))
    producer = begin(directory, "x", partition)
    write(directory, producer, partition, "aborted")
    directory.end_transaction(producer, commit=False)
    directory.append(partition, a_batch(2))
    with pytest.raises(CopyRefusedError, match="between offsets 4 and 6"):
        copy_topic(directory, client, topic)
    for _ in range(2):
        copy_topic(directory, client, topic, renumbers=True)
    rows = shown(committed_rows(directory, topic))
    assert consumed(kafka, topic) == [(0, offset, *rest) for offset, (_, _, *rest) in enumerate(rows)]


def test_log_append_times_are_kept_and_the_setting_is_copied_last(kafka, client, directory):
    topic = kafka.name()
    settings = {**KEEPS, "message.timestamp.type": "LogAppendTime", "flush.policy": "os"}
    directory.create_topic(topic, configs=settings)
    directory.append(TopicPartition(topic, 0), a_batch(3))
    copy_topic(directory, client, topic)
    assert consumed(kafka, topic) == shown(committed_rows(directory, topic))
    configs = client.describe_topics([topic])[topic].configs
    assert configs == {**KEEPS, "message.timestamp.type": "LogAppendTime"}
