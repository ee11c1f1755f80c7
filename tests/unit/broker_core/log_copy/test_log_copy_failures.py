"""Topics that cannot be copied: what is said of them, and that others are copied."""

import time

import pytest
from support.builders.builders import SOME_TIME_MS, a_batch, a_record
from support.builders.committed_rows import committed_rows
from support.builders.copied_topics import copy_topic, copy_topics, damage
from support.builders.copy_places import KEEPS, KINDS, a_name, bounds_of, fill_densely, opened
from support.objects.object_builders import MemoryLog

from broker_core.cluster import GroupOffset
from broker_core.embedded.embedded_cluster import EmbeddedCluster
from broker_core.log_copy.group_copy import copy_groups
from broker_core.model.exceptions import (
    CopyRefusedError,
    CorruptBatchError,
    DiskFullError,
    GroupNotEmptyError,
    InvalidRecordError,
    InvalidTimestampError,
    RecordTooLargeError,
)
from broker_core.model.identifiers import TopicPartition


@pytest.mark.parametrize("kind", KINDS)
def test_a_log_is_not_copied_onto_itself(places, kind):
    topic, place = a_name(), places.place(kind)
    with opened(place, place) as (source, target):
        fill_densely(source, topic)
        before = source.list_groups()
        with pytest.raises(CopyRefusedError, match=f"are the same log: topic '{topic}' has the id"):
            copy_topic(source, target, topic)
        assert source.list_groups() == before


@pytest.mark.parametrize("to_kind", KINDS)
def test_a_topic_that_is_refused_or_fails_stops_no_other_topic(places, tmp_path, to_kind):
    refused, damaged, whole = (f"{a_name()}-{letter}" for letter in "abc")
    with EmbeddedCluster(tmp_path / "source", create=True) as source, opened(places.place(to_kind)) as (target,):
        for topic in (refused, damaged, whole):
            source.create_topic(topic, configs=KEEPS)
            source.append(TopicPartition(topic, 0), a_batch(3))
        damage(tmp_path / "source", damaged)
        target.create_topic(refused, partition_count=2)
        result = copy_topics(source, target, refused, damaged, whole)
        assert [(one.topic, type(one.error), one.is_begun) for one in result.failures] == [
            (refused, CopyRefusedError, False),
            (damaged, CorruptBatchError, True),
        ]
        assert [one.copy.partition.topic for one in result.partitions] == [whole]
        assert committed_rows(target, whole) == committed_rows(source, whole)


def test_an_error_that_is_not_about_one_topic_ends_the_copy(places):
    topics = [a_name(), a_name()]
    with opened(places.place("directory"), places.place("objects")) as (source, target):
        for topic in topics:
            fill_densely(source, topic)
        asked = []

        def append_placed(appends):
            asked.append(appends)
            raise DiskFullError("no space left")

        target.append_placed = append_placed
        with pytest.raises(DiskFullError):
            copy_topics(source, target, *topics)
        assert len(asked) == 1


def test_a_group_that_the_target_refuses_stops_no_other_group(places):
    topic = a_name()
    with opened(places.place("directory"), places.place("directory")) as (source, target):
        fill_densely(source, topic)
        for group in ("a", "b", "c"):
            source.commit_offsets(group, {TopicPartition(topic, 0): GroupOffset(offset=1)})
        commit_offsets = target.commit_offsets

        def refuse(group, offsets):
            if group == "b":
                raise GroupNotEmptyError("group b has members")
            commit_offsets(group, offsets)

        copied = copy_topic(source, target, topic)
        target.commit_offsets = refuse
        found = copy_groups(source, target, copied)
        assert found.groups == ("a", "c")
        assert [(group, str(error)) for group, error in found.failures] == [("b", "group b has members")]


@pytest.mark.parametrize(
    ("settings", "key", "kind", "advice"),
    [
        ({"max.message.bytes": "600"}, b"k", RecordTooLargeError, "max.message.bytes of the topic there"),
        ({"message.timestamp.before.max.ms": "1000"}, b"k", InvalidTimestampError, "message.timestamp.before.max.ms"),
        ({"cleanup.policy": "compact"}, None, InvalidRecordError, "cleanup.policy=compact"),
    ],
)
def test_a_refused_record_is_named_with_its_partition_its_offset_and_the_setting(places, settings, key, kind, advice):
    topic = a_name()
    partition = TopicPartition(topic, 0)
    now_ms = time.time_ns() // 1_000_000
    with opened(places.place("directory"), places.place("broker")) as (source, target):
        source.create_topic(topic, configs=KEEPS)
        for _ in range(3):
            source.append(partition, a_batch([a_record(1, timestamp_ms=now_ms), a_record(2, timestamp_ms=now_ms)]))
        source.append(partition, a_batch([a_record(3, key=key, value=bytes(1000), timestamp_ms=SOME_TIME_MS)]))
        target.create_topic(topic, configs={**KEEPS, **settings})
        with pytest.raises(
            kind, match=rf"^{partition}: the target refuses the record at offset 6 of the source"
        ) as met:
            copy_topic(source, target, topic)
        assert advice in met.value.message
        assert (met.value.partition, met.value.offset) == (partition, 6)
        assert bounds_of(target, topic) == [(0, 6)]


def test_a_damaged_batch_is_not_copied(places, tmp_path):
    topic = a_name()
    with EmbeddedCluster(tmp_path / "damaged", create=True) as source, places.place("objects")() as target:
        source.create_topic(topic, configs=KEEPS)
        producer_id = source.init_producer().producer_id
        source.append(TopicPartition(topic, 0), a_batch(3, producer=(producer_id, 0, 0)))
        damage(tmp_path / "damaged", topic)
        with pytest.raises(CorruptBatchError, match=f"checksum of the content .*{topic}-0"):
            copy_topic(source, target, topic)
        assert bounds_of(target, topic) == [(0, 0)]


def test_a_damaged_object_is_named_with_partition_and_offset(places):
    topic, log = a_name(), MemoryLog()
    with opened(log.open, places.place("directory")) as (source, target):
        source.create_topic(topic, configs=KEEPS)
        source.append(TopicPartition(topic, 0), a_batch(3))
        (path,) = (path for path in log.store.objects if path.startswith("data/"))
        data = bytearray(log.store.objects[path])
        data[-3] ^= 1
        log.store.put(path, data)
        with pytest.raises(CorruptBatchError, match=rf"^{topic}-0, offset 0 or later: .*{path}"):
            copy_topic(source, target, topic)
