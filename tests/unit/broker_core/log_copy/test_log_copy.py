"""Copies between directories, object storage and brokers, all nine pairs."""

import pytest
from support.builders.builders import SOME_TIME_MS, a_batch, a_record
from support.builders.committed_rows import committed_rows
from support.builders.copied_topics import copy_topic
from support.builders.copy_places import (
    KEEPS,
    KINDS,
    a_name,
    bounds_of,
    fill_densely,
    fill_with_gaps,
    opened,
    some_batches,
)
from support.clients.transacting import begin, write
from support.objects.object_builders import MemoryLog

from broker_core.cluster import GroupOffset
from broker_core.log_copy import copy_sinks, log_copy
from broker_core.log_copy.copy_marker import COPY_GROUP
from broker_core.log_copy.group_copy import CopiedGroups, copy_groups
from broker_core.log_copy.log_copy import LogCopy
from broker_core.model.exceptions import (
    CopyRefusedError,
    UnexpectedLogEndError,
)
from broker_core.model.identifiers import CompressionType, TimestampType, TopicPartition
from broker_core.record.batch_reader import iter_headers

PLACED = ("directory", "objects")


def without_offsets(rows):
    return [{name: value for name, value in row.items() if name != "offset"} for row in rows]


def codecs_of(cluster, topic, partition=0):
    fetched = cluster.fetch(TopicPartition(topic, partition), 0, max_bytes=10**6)
    return [header.compression_type for _, header in iter_headers(fetched.buffer)]


@pytest.mark.parametrize("from_kind", KINDS)
@pytest.mark.parametrize("to_kind", KINDS)
def test_a_topic_without_gaps_has_the_same_records_at_the_same_offsets(places, from_kind, to_kind):
    # A broker as source and target is the same one; so it is copied over a directory.
    topic = a_name()
    with opened(places.place(from_kind), places.place("directory"), places.place(to_kind)) as (source, middle, target):
        if from_kind == to_kind == "broker":
            source, target = middle, source
        fill_densely(source, topic)
        copied = copy_topic(source, target, topic)
        assert committed_rows(target, topic) == committed_rows(source, topic)
        assert bounds_of(target, topic) == bounds_of(source, topic)
        assert codecs_of(target, topic, 1) == codecs_of(source, topic, 1)
        assert target.describe_topics([topic])[topic].configs == KEEPS
        assert sum(one.record_count for one in copied) == len(committed_rows(source, topic)) == 21


@pytest.mark.parametrize("from_kind", KINDS)
@pytest.mark.parametrize("to_kind", PLACED)
def test_gaps_and_log_starts_are_kept(places, from_kind, to_kind):
    topic = a_name()
    with opened(places.place(from_kind), places.place(to_kind)) as (source, target):
        fill_with_gaps(source, topic)
        rows = committed_rows(source, topic)
        offsets = [row["offset"] for row in rows if row["partition"] == 0]
        assert offsets[-1] - offsets[0] + 1 > len(offsets) and offsets[0] > 0
        copy_topic(source, target, topic)
        assert committed_rows(target, topic) == rows
        assert bounds_of(target, topic) == bounds_of(source, topic)


@pytest.mark.parametrize("from_kind", KINDS)
def test_brokers_refuse_gaps_by_name_before_anything_is_written(places, from_kind):
    topic, other = a_name(), a_name()
    with opened(places.place(from_kind), places.place("directory"), places.place("broker")) as (source, middle, target):
        if from_kind == "broker":
            source, target, other = middle, source, other
        fill_with_gaps(source, topic)
        with pytest.raises(CopyRefusedError, match=rf"{topic}-0 has gaps between offsets 0 and .*--renumber"):
            copy_topic(source, target, topic)
        assert topic not in target.describe_topics()


@pytest.mark.parametrize("from_kind", PLACED)
def test_brokers_number_the_records_anew_if_they_are_asked_to(places, from_kind):
    topic = a_name()
    with opened(places.place(from_kind), places.place("broker")) as (source, target):
        fill_with_gaps(source, topic)
        copied = copy_topic(source, target, topic, renumbers=True)
        rows = committed_rows(target, topic)
        assert without_offsets(rows) == without_offsets(committed_rows(source, topic))
        ends = dict.fromkeys(range(4), 0)
        for row in rows:
            assert row["offset"] == ends[row["partition"]]
            ends[row["partition"]] += 1
        assert [one.target_end_offset for one in copied] == list(ends.values())


def test_what_comes_before_the_first_gap_is_copied_to_a_broker_and_the_gap_is_named(places):
    topic = a_name()
    partition = TopicPartition(topic, 0)
    with opened(places.place("directory"), places.place("broker")) as (source, target):
        source.create_topic(topic, configs=KEEPS)
        source.append(partition, a_batch(4))
        producer = begin(source, topic, partition)
        write(source, producer, partition, "aborted", "too")
        source.end_transaction(producer, commit=False)
        source.append(partition, a_batch(1))
        with pytest.raises(CopyRefusedError, match="between offsets 4 and 7"):
            copy_topic(source, target, topic)
        assert [row["offset"] for row in committed_rows(target, topic)] == [0, 1, 2, 3]
        copy_topic(source, target, topic, renumbers=True)
        assert without_offsets(committed_rows(target, topic)) == without_offsets(committed_rows(source, topic))


@pytest.mark.parametrize("to_kind", PLACED)
def test_a_copy_ends_before_an_open_transaction_and_goes_on_when_it_has_ended(places, to_kind):
    topic = a_name()
    partition = TopicPartition(topic, 0)
    with opened(places.place("directory"), places.place(to_kind)) as (source, target):
        source.create_topic(topic, configs=KEEPS)
        source.append(partition, a_batch(4))
        producer = begin(source, topic, partition)
        write(source, producer, partition, "open")
        source.append(partition, a_batch(2))
        (copied,) = copy_topic(source, target, topic)
        assert (copied.copy.until_offset, copied.copy.blocked_offset_count) == (4, 3)
        assert bounds_of(target, topic) == [(0, 4)]
        source.end_transaction(producer, commit=True)
        (copied,) = copy_topic(source, target, topic)
        assert (copied.copy.from_offset, copied.copy.goes_on, copied.record_count) == (4, True, 3)
        assert committed_rows(target, topic) == committed_rows(source, topic)
        assert bounds_of(target, topic) == bounds_of(source, topic)


@pytest.mark.parametrize("to_kind", KINDS)
def test_a_second_run_copies_what_was_appended_and_new_partitions(places, to_kind):
    topic = a_name()
    with opened(places.place("directory"), places.place(to_kind)) as (source, target):
        fill_densely(source, topic)
        copy_topic(source, target, topic)
        assert [one.record_count for one in copy_topic(source, target, topic)] == [0, 0]
        source.append(TopicPartition(topic, 1), a_batch(3))
        source.create_partitions(topic, 3)
        source.append(TopicPartition(topic, 2), a_batch(2))
        assert [one.record_count for one in copy_topic(source, target, topic)] == [0, 3, 2]
        assert committed_rows(target, topic) == committed_rows(source, topic)


@pytest.mark.parametrize("to_kind", KINDS)
def test_log_append_times_stay(places, to_kind):
    topic = a_name()
    settings = {**KEEPS, "message.timestamp.type": "LogAppendTime"}
    with opened(places.place("directory"), places.place(to_kind)) as (source, target):
        source.create_topic(topic, configs=settings)
        source.append(TopicPartition(topic, 0), a_batch(3, compression=CompressionType.ZSTD))
        source.append(TopicPartition(topic, 0), a_batch(2))
        for _ in range(2):
            copy_topic(source, target, topic)
        rows, expected = committed_rows(target, topic), committed_rows(source, topic)
        assert [row["timestamp"] for row in rows] == [row["timestamp"] for row in expected]
        assert rows[0]["timestamp"].timestamp() * 1000 > SOME_TIME_MS + 10**9
        if to_kind == "broker":
            # Only the broker itself may set that type.
            assert {row["timestampType"] for row in rows} == {TimestampType.CREATE_TIME}
        else:
            assert rows == expected
        assert target.describe_topics([topic])[topic].configs == settings


@pytest.mark.parametrize("to_kind", KINDS)
def test_a_topic_with_other_records_is_refused_by_name_and_stays(places, to_kind):
    topic = a_name()
    with opened(places.place("directory"), places.place(to_kind)) as (source, target):
        fill_densely(source, topic)
        target.create_topic(topic, partition_count=2, configs=KEEPS)
        target.append(TopicPartition(topic, 0), a_batch([a_record(99)]))
        before = committed_rows(target, topic)
        with pytest.raises(CopyRefusedError, match=rf"{topic}-0 exists in the target with other records"):
            copy_topic(source, target, topic)
        assert committed_rows(target, topic) == before


@pytest.mark.parametrize("to_kind", KINDS)
def test_a_copy_that_somebody_else_has_appended_to_is_refused(places, to_kind):
    topic = a_name()
    with opened(places.place("directory"), places.place(to_kind)) as (source, target):
        fill_densely(source, topic)
        copy_topic(source, target, topic)
        target.append(TopicPartition(topic, 1), a_batch([a_record(99)]))
        source.append(TopicPartition(topic, 1), a_batch([a_record(98)]))
        with pytest.raises(CopyRefusedError, match=rf"{topic}-1 exists in the target with other records"):
            copy_topic(source, target, topic)


@pytest.mark.parametrize("to_kind", PLACED)
def test_a_writer_beside_the_copy_stops_it(places, to_kind):
    topic = a_name()
    partition = TopicPartition(topic, 0)
    with opened(places.place("directory"), places.place(to_kind)) as (source, target):
        fill_densely(source, topic)
        job = LogCopy(source, target)
        plan = job.plan([source.describe_topics([topic])[topic]])
        met = []

        def meddle(where, done, total):
            if not met:
                met.append(target.append(partition, a_batch(1)))

        (failure,) = job.run(plan, meddle).failures
        assert met and failure.is_begun
        assert isinstance(failure.error, UnexpectedLogEndError)
        assert "ends at offset 1, not at 0: somebody else writes" in failure.error.message


def test_fewer_partitions_in_the_source_are_refused(places):
    topic = a_name()
    with opened(places.place("directory"), places.place("objects")) as (source, target):
        source.create_topic(topic, partition_count=2)
        target.create_topic(topic, partition_count=3)
        with pytest.raises(CopyRefusedError, match="has 3 partitions in the target and 2 in the source"):
            copy_topic(source, target, topic)


@pytest.mark.parametrize("to_kind", PLACED)
def test_the_marker_decides_where_no_record_is_left_to_compare(places, to_kind):
    topic = a_name()
    partition = TopicPartition(topic, 0)
    with opened(places.place("directory"), places.place(to_kind)) as (source, target):
        source.create_topic(topic, configs=KEEPS)
        source.append(partition, a_batch(4))
        copy_topic(source, target, topic)
        target.delete_records(partition, -1)
        source.append(partition, a_batch(2))
        copy_topic(source, target, topic)
        assert [row["offset"] for row in committed_rows(target, topic)] == [4, 5]
        target.delete_records(partition, -1)
        target.delete_group(COPY_GROUP)
        with pytest.raises(CopyRefusedError, match="none of its records can be compared"):
            copy_topic(source, target, topic)


@pytest.mark.parametrize("to_kind", PLACED)
def test_records_that_the_source_has_deleted_between_two_runs_become_a_gap(places, to_kind):
    topic = a_name()
    partition = TopicPartition(topic, 0)
    with opened(places.place("directory"), places.place(to_kind)) as (source, target):
        source.create_topic(topic, configs=KEEPS)
        source.append(partition, a_batch(4))
        copy_topic(source, target, topic)
        source.append(partition, a_batch(3))
        source.append(partition, a_batch(2))
        source.delete_records(partition, 7)
        copy_topic(source, target, topic)
        assert [row["offset"] for row in committed_rows(target, topic)] == [0, 1, 2, 3, 7, 8]
        assert bounds_of(target, topic) == [(0, 9)]


@pytest.mark.parametrize("to_kind", PLACED)
def test_committed_offsets_of_groups_come_with_the_topics(places, to_kind):
    topic, left_out = a_name(), a_name()
    partition = TopicPartition(topic, 0)
    with opened(places.place("directory"), places.place(to_kind)) as (source, target):
        for name in (topic, left_out):
            fill_densely(source, name)
        source.commit_offsets("g", {partition: GroupOffset(offset=3, metadata="m", leader_epoch=4)})
        source.commit_offsets("far", {partition: GroupOffset(offset=10**6)})
        source.commit_offsets("elsewhere", {TopicPartition(left_out, 0): GroupOffset(offset=1)})
        copied = copy_topic(source, target, topic)
        assert copy_groups(source, target, copied) == CopiedGroups(groups=("far", "g"), failures=())
        found = target.fetch_offsets("g")[partition]
        assert (found.offset, found.metadata, found.leader_epoch) == (3, "m", -1)
        assert target.fetch_offsets("far")[partition].offset == bounds_of(source, topic)[0][1]
        assert "elsewhere" not in target.list_groups()


def test_producers_are_left_behind(places):
    """Their ids could be another producer's in the target."""
    topic = a_name()
    with opened(places.place("directory"), places.place("directory")) as (source, target):
        fill_densely(source, topic)
        copy_topic(source, target, topic)
        fetched = target.fetch(TopicPartition(topic, 0), 0, max_bytes=10**6)
        assert {header.producer_id for _, header in iter_headers(fetched.buffer)} == {-1}
        producer_id = target.init_producer().producer_id
        target.append(TopicPartition(topic, 0), a_batch(1, producer=(producer_id, 0, 0)))


def test_progress_counts_offsets_up_to_the_total(places):
    topic = a_name()
    with opened(places.place("directory"), places.place("objects")) as (source, target):
        fill_with_gaps(source, topic)
        job = LogCopy(source, target)
        told = []
        plan = job.plan([source.describe_topics([topic])[topic]])
        job.run(plan, lambda partition, done, total: told.append((done, total)))
        total = sum(end - start for start, end in bounds_of(source, topic))
        assert told[0] == (0, total) and told[-1] == (total, total)
        assert told == sorted(told)


@pytest.mark.parametrize("batch_bytes", [300, 1000, 4000])
def test_the_objects_of_a_copy_are_no_larger_than_what_is_gathered_or_one_batch(places, monkeypatch, batch_bytes):
    """Fetches were added to what was below the bound, and ended up to a fetch above it."""
    gathered_bytes, fetch_bytes = 3000, 1500
    monkeypatch.setattr(copy_sinks, "GATHERED_BYTES", gathered_bytes)
    monkeypatch.setattr(log_copy, "FETCH_BYTES", fetch_bytes)
    topic, log = a_name(), MemoryLog()
    with opened(places.place("directory"), log.open) as (source, target):
        source.create_topic(topic, partition_count=2, configs=KEEPS)
        for number in range(20):
            source.append(TopicPartition(topic, number % 2), a_batch([a_record(0, key=b"", value=bytes(batch_bytes))]))
        copy_topic(source, target, topic)
        sizes = [len(data) for path, data in log.store.objects.items() if path.startswith("data/")]
        assert max(sizes) <= max(gathered_bytes, batch_bytes + 100)
        assert max(sizes) > min(gathered_bytes, batch_bytes) / 2
        assert committed_rows(target, topic) == committed_rows(source, topic)


def test_a_fetch_fits_what_is_gathered():
    assert log_copy.FETCH_BYTES <= copy_sinks.GATHERED_BYTES


def test_all_codecs_are_among_the_batches():
    assert len(some_batches()) == len(CompressionType)
