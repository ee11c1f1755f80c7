import pickle

import pyarrow as pa
import pytest
from support.builders.append_records import append_values
from support.builders.builders import a_batch
from support.objects.object_builders import SOME_MS

from broker_core.cluster import GroupOffset, OffsetAndTimestamp, TransactionalProducer
from broker_core.model.exceptions import (
    CorruptObjectError,
    InvalidConfigError,
    InvalidGroupError,
    InvalidTopicNameError,
    NotAvailableOnObjectsError,
    ObjectLogFormatError,
    OffsetOutOfRangeError,
    PolicyViolationError,
    RecordTooLargeError,
    StorageError,
    TopicExistsError,
    UnknownGroupError,
    UnknownPartitionError,
    UnknownTopicError,
    UploadExpiredError,
)
from broker_core.model.group_state import GroupState
from broker_core.model.identifiers import OffsetSpec, TopicPartition
from broker_core.record.batch_reader import iter_headers, records_of
from broker_core.staged_writes import AppVersion
from broker_core.topic_producer import TopicProducer

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def append(cluster, *values, partition=0, at_ms=SOME_MS):
    return append_values(cluster, "t", *values, partition=partition, timestamps_ms=[at_ms] * len(values))


def read(cluster, partition=T0, position=0, max_bytes=150):
    found = []
    while True:
        fetched = cluster.fetch(partition, position, max_bytes=max_bytes)
        data = bytes(fetched.buffer)
        for place, _ in iter_headers(data):
            found += [(r.offset, r.value.decode()) for r in records_of(data, place) if r.offset >= position]
        if fetched.next_offset == position:
            return found
        position = fetched.next_offset


def staged(cluster, *rows):
    """One task's data: (partition, how many records) pairs."""
    upload = cluster.stage()
    for partition, count in rows:
        upload.append(partition, a_batch(count))
    return upload.finish()


class TestTopics:
    def test_a_created_topic_is_visible_to_all_processes(self, log, cluster):
        made = cluster.create_topic("a.b", configs={"retention.ms": "5"})
        assert log.open().describe_topics(["a.b", "x"]) == {"a.b": made}
        assert (made.partition_count, made.configs) == (1, {"retention.ms": "5"})

    def test_refusals_match_the_other_clusters(self, cluster):
        with pytest.raises(TopicExistsError):
            cluster.create_topic("t")
        with pytest.raises(InvalidTopicNameError):
            cluster.create_topic("a/b")
        with pytest.raises(InvalidConfigError):
            cluster.create_topic("u", configs={"retention.ms": "x"})
        with pytest.raises(InvalidTopicNameError):
            cluster.create_topic("__consumer_offsets")
        with pytest.raises(UnknownTopicError):
            cluster.delete_topic("u")
        cluster.create_topic("a.b")
        with pytest.raises(InvalidTopicNameError, match="collides"):
            cluster.create_topic("a_b")

    def test_a_refused_request_creates_no_log(self, log):
        with pytest.raises(InvalidTopicNameError):
            log.open().create_topic("a/b")
        assert log.store.objects == {}

    def test_settings_and_partitions_change(self, log, cluster):
        cluster.alter_topic_configs("t", {"retention.ms": "7"})
        cluster.create_partitions("t", 3)
        found = log.open().describe_topics()["t"]
        assert (found.partition_count, found.configs) == (3, {"retention.ms": "7"})
        cluster.alter_topic_configs("t", {"retention.ms": None})
        assert log.open().describe_topics()["t"].configs == {}

    def test_a_recreated_topic_has_a_new_id(self, log, cluster):
        append(cluster, "old")
        first = cluster.describe_topics()["t"]
        cluster.delete_topic("t")
        second = log.open().create_topic("t", partition_count=2)
        assert second.topic_id != first.topic_id
        assert read(cluster) == []
        with pytest.raises(UnknownTopicError):
            cluster.fetch(T0, 0, max_bytes=100, topic_id=first.topic_id)


class TestReading:
    def test_records_round_trip(self, log, cluster):
        for number in range(5):
            append(cluster, f"a{number}", f"b{number}")
        expected = [(2 * number + half, f"{'ab'[half]}{number}") for number in range(5) for half in (0, 1)]
        assert read(cluster) == read(log.open()) == expected
        assert read(log.open(), position=5) == expected[5:]
        assert read(log.open(), max_bytes=10**6) == expected

    def test_an_append_sets_its_offsets_in_result_and_batch(self, cluster):
        append(cluster, "x")
        batch = a_batch(3)
        result = cluster.append(T0, batch)
        assert (result.base_offset, result.last_offset) == (1, 3)
        assert [header.base_offset for _, header in iter_headers(batch)] == [1]

    def test_records_of_other_writers_are_visible_immediately(self, log, cluster):
        other = log.open()
        append(other, "x")
        assert read(cluster) == [(0, "x")]
        assert cluster.bounds(T0).log_end_offset == 1

    def test_offsets_out_of_range_are_refused(self, cluster):
        append(cluster, "a", "b")
        cluster.delete_records(T0, 1)
        with pytest.raises(OffsetOutOfRangeError, match=r"\[1, 2\)"):
            cluster.fetch(T0, 0, max_bytes=100)
        with pytest.raises(OffsetOutOfRangeError):
            cluster.fetch(T0, 3, max_bytes=100)
        with pytest.raises(UnknownPartitionError):
            cluster.fetch(TopicPartition("t", 2), 0, max_bytes=100)

    def test_known_offsets_are_read_with_one_request(self, log, cluster):
        append(cluster, "a")
        append(cluster, "b")
        before = log.store.requests.copy()
        cluster.fetch(T0, 0, max_bytes=70)
        assert log.store.requests - before == {"get_ranges": 1}

    def test_adjoining_ranges_of_one_object_are_read_together(self, log, cluster, monkeypatch):
        monkeypatch.setattr("broker_core.object_cluster.staged_upload.MAX_RANGE_BYTES", 1)
        upload = cluster.stage()
        for _ in range(4):
            upload.append(T0, a_batch(2))
        cluster.commit_staged([upload.finish()])
        assert len(cluster.describe_segments(T0)) == 4
        before = log.store.requests.copy()
        assert cluster.fetch(T0, 0, max_bytes=10**6).next_offset == 8
        assert log.store.requests - before == {"get_ranges": 1}

    def test_an_idle_refresh_is_one_request(self, log, cluster):
        append(cluster, "a")
        before = log.store.requests.copy()
        cluster.list_offsets({T0: OffsetSpec.LATEST, T1: OffsetSpec.LATEST})
        assert log.store.requests - before == {"get": 1}

    def test_one_refresh_serves_several_lookups_consistently(self, log, cluster):
        append(cluster, "a")
        other = log.open()
        before = log.store.requests.copy()
        with cluster.one_look():
            ends = cluster.list_offsets({T0: OffsetSpec.LATEST})
            append(other, "b")
            spent = log.store.requests.copy()
            assert cluster.list_offsets({T0: OffsetSpec.LATEST}) == ends
            assert cluster.describe_topics().keys() == {"t"} and cluster.bounds(T0).log_end_offset == 1
            assert log.store.requests == spent
        assert before["get"] + 1 <= spent["get"]
        assert cluster.bounds(T0).log_end_offset == 2

    def test_offsets_are_found_by_spec_and_by_timestamp(self, cluster):
        for number in range(4):
            append(cluster, "a", "b", at_ms=SOME_MS + 10 * number)
        find = {
            OffsetSpec.EARLIEST: (0, -1),
            OffsetSpec.LATEST: (8, -1),
            OffsetSpec.MAX_TIMESTAMP: (6, SOME_MS + 30),
            0: (0, SOME_MS),
            SOME_MS + 1: (2, SOME_MS + 10),
            SOME_MS + 30: (6, SOME_MS + 30),
        }
        for spec, (offset, timestamp_ms) in find.items():
            found = cluster.list_offsets({T0: spec})[T0]
            assert found == OffsetAndTimestamp(offset=offset, timestamp_ms=timestamp_ms), spec
        assert cluster.list_offsets({T0: SOME_MS + 31, T1: 0}) == {T0: None, T1: None}
        cluster.delete_records(T0, 3)
        assert cluster.list_offsets({T0: 0})[T0].offset == 3

    def test_byte_limits_end_at_batch_boundaries(self, cluster):
        sizes = []
        for number in range(3):
            batch = a_batch(number + 1)
            sizes.append(len(batch))
            cluster.append(T0, batch)
        ends = [1, 3, 6]
        assert cluster.find_offset_within_bytes(T0, 0, 6, 1) == ends[0]
        assert cluster.find_offset_within_bytes(T0, 0, 6, sum(sizes[:2])) == ends[1]
        assert cluster.find_offset_within_bytes(T0, 0, 6, sum(sizes)) == ends[2]
        assert cluster.find_offset_within_bytes(T0, 0, 2, 10**6) == 2
        assert cluster.bytes_between(T0, 1, 6) == sum(sizes[1:])

    def test_a_large_range_is_split_at_batch_boundaries(self, cluster):
        upload = cluster.stage()
        for _ in range(4):
            upload.append(T0, a_batch(5))
        cluster.commit_staged([upload.finish()])
        size = len(a_batch(5))
        assert cluster.find_offset_within_bytes(T0, 0, 20, 2 * size) == 10
        assert cluster.find_offset_within_bytes(T0, 7, 20, 1) == 10

    def test_a_missing_object_is_named(self, log, cluster):
        append(cluster, "a")
        (path,) = [path for path in log.store.objects if path.startswith("data/")]
        del log.store.objects[path]
        with pytest.raises(CorruptObjectError, match=path):
            cluster.fetch(T0, 0, max_bytes=100)


class TestStagedWrites:
    def test_all_rows_of_all_tasks_become_readable_together(self, log, cluster):
        tasks = [staged(cluster, (T0, 3), (T1, 1)), staged(cluster, (T0, 2))]
        assert read(log.open()) == []
        outcome = cluster.commit_staged(pickle.loads(pickle.dumps(tasks)), app=AppVersion(app_id="q", version=1))
        assert outcome.is_new and outcome.last == AppVersion(app_id="q", version=1)
        assert [offset for offset, _ in read(log.open())] == [0, 1, 2, 3, 4]
        assert [offset for offset, _ in read(log.open(), T1)] == [0]

    def test_a_version_is_committed_once_by_any_process(self, log, cluster):
        first = AppVersion(app_id="q", version=4, note="mine")
        cluster.commit_staged([staged(cluster, (T0, 1))], app=first)
        other = log.open()
        again = other.commit_staged([staged(other, (T0, 1))], app=AppVersion(app_id="q", version=4, note="other"))
        assert (again.is_new, again.last) == (False, first)
        older = other.commit_staged([], app=AppVersion(app_id="q", version=2))
        assert (older.is_new, older.last) == (False, first)
        assert other.last_version("q") == first and other.last_version("x") is None
        assert len(read(other)) == 1

    def test_a_version_without_rows_is_recorded(self, log, cluster):
        assert cluster.commit_staged([], app=AppVersion(app_id="q", version=1)).is_new
        assert log.open().last_version("q").version == 1

    def test_without_data_and_version_there_is_no_commit(self, log, cluster):
        before = dict(log.store.objects)
        cluster.commit_staged([cluster.stage().finish()])
        assert log.store.objects == before

    def test_an_upload_is_committed_once_even_without_a_version(self, cluster):
        one = staged(cluster, (T0, 2))
        assert cluster.commit_staged([one]).is_new
        assert not cluster.commit_staged([one]).is_new
        assert len(read(cluster)) == 2

    def test_a_micro_batch_needs_its_uploads_and_one_request(self, log, cluster):
        tasks = [cluster.stage() for _ in range(3)]
        before = log.store.requests.copy()
        for task in tasks:
            task.append(T0, a_batch(1))
        cluster.commit_staged([task.finish() for task in tasks], app=AppVersion(app_id="q", version=1))
        spent = log.store.requests - before
        assert spent == {"upload": 3, "upload_part": 3, "put_if_absent": 1}

    def test_an_aborted_upload_leaves_nothing(self, log, cluster):
        before = dict(log.store.objects)
        upload = cluster.stage()
        upload.append(T0, a_batch(1))
        upload.abort()
        assert log.store.objects == before

    def test_a_topic_deleted_meanwhile_refuses_the_commit(self, log, cluster):
        one = staged(cluster, (T0, 1))
        log.open().delete_topic("t")
        with pytest.raises(UnknownTopicError, match="deleted during the write"):
            cluster.commit_staged([one], app=AppVersion(app_id="q", version=1))
        assert cluster.last_version("q") is None

    def test_records_that_a_topic_refuses_fail_in_the_task(self, cluster):
        cluster.alter_topic_configs("t", {"max.message.bytes": "70"})
        with pytest.raises(RecordTooLargeError):
            cluster.stage().append(T0, a_batch(3))
        with pytest.raises(UnknownPartitionError):
            cluster.stage().append(TopicPartition("t", 9), a_batch(1))

    def test_an_upload_older_than_the_grace_time_is_refused_after_garbage_collection(self, log, cluster):
        slow, abandoned = staged(cluster, (T0, 1)), staged(cluster, (T0, 1))
        log.clock.milliseconds += 10_000
        append(cluster, "x", at_ms=log.clock.milliseconds)
        report = cluster.maintain(grace_ms=5_000)
        assert report.removed_object_count == 2 and not report.errors
        with pytest.raises(UploadExpiredError):
            cluster.commit_staged([slow, abandoned])

    def test_planned_reads_need_no_image(self, log, cluster):
        cluster.commit_staged([staged(cluster, (T0, 3)), staged(cluster, (T0, 2))])
        plan = pickle.loads(pickle.dumps(cluster.plan_fetches(T0, 1, 4)))
        task = log.open()
        before = log.store.requests.copy()
        fetched = task.fetch_planned(plan, 1, max_bytes=10**6)
        assert fetched.next_offset == 3 and fetched.bounds.log_end_offset == 5
        assert task.fetch_planned(plan, 3, max_bytes=10**6).next_offset == 5
        assert log.store.requests - before == {"get_ranges": 2}
        assert task.fetch_planned(plan, 5, max_bytes=100).next_offset == 5

    def test_a_read_plan_with_replaced_objects_is_repeated(self, log, cluster):
        for number in range(8):
            append(cluster, f"a{number}", at_ms=log.clock.milliseconds)
        plan = cluster.plan_fetches(T0, 0, 8)
        cluster.maintain(grace_ms=1000)
        log.clock.milliseconds += 10_000
        append(cluster, "x", at_ms=log.clock.milliseconds)
        assert cluster.maintain(grace_ms=1000).removed_object_count == 8
        assert log.open().fetch_planned(plan, 0, max_bytes=10**6).next_offset == 8

    def test_a_read_plan_below_the_log_start_raises_out_of_range(self, log, cluster):
        append(cluster, "a", "b")
        plan = cluster.plan_fetches(T0, 0, 2)
        cluster.delete_records(T0, 2)
        log.clock.milliseconds += 10_000
        append(cluster, "x", at_ms=log.clock.milliseconds)
        cluster.maintain(grace_ms=1000)
        with pytest.raises(OffsetOutOfRangeError) as caught:
            log.open().fetch_planned(plan, 0, max_bytes=100)
        assert caught.value.log_start_offset == 2

    def test_topic_producer_writes_to_an_upload_like_to_a_cluster(self, log, cluster):
        upload = cluster.stage()
        producer = TopicProducer(
            upload, find_topic=lambda name: cluster.describe_topics()[name], now_ms=lambda: SOME_MS, first_partition=0
        )
        producer.add("t", pa.record_batch({"value": [b"a", b"b"], "partition": pa.array([0, 1], pa.int32())}))
        producer.flush()
        assert read(log.open()) == []
        cluster.commit_staged([upload.finish()])
        assert (read(log.open()), read(log.open(), T1)) == ([(0, "a")], [(0, "b")])


class TestGroups:
    def test_committed_offsets_are_stored_and_visible_to_all_processes(self, log, cluster):
        cluster.commit_offsets("g", {T0: GroupOffset(offset=5, metadata="m")})
        log.open().commit_offsets("g", {T1: GroupOffset(offset=6)})
        found = cluster.fetch_offsets("g")
        assert {partition: (one.offset, one.metadata) for partition, one in found.items()} == {
            T0: (5, "m"),
            T1: (6, ""),
        }
        assert found[T0].commit_time_ms == SOME_MS
        assert cluster.fetch_offsets("g", [T1]).keys() == {T1}
        assert cluster.list_groups() == ("g",)
        assert cluster.describe_group("g").state is GroupState.EMPTY

    def test_foreign_objects_beside_the_groups_are_left_alone(self, log, cluster):
        cluster.commit_offsets("g", {T0: GroupOffset(offset=5)})
        log.store.put("groups/.DS_Store", b"x")
        assert cluster.list_groups() == ("g",)

    def test_a_deleted_group_can_be_recreated(self, cluster):
        cluster.commit_offsets("g", {T0: GroupOffset(offset=5)})
        cluster.delete_group("g")
        assert (cluster.list_groups(), cluster.fetch_offsets("g")) == ((), {})
        assert cluster.describe_group("g").state is GroupState.DEAD
        with pytest.raises(UnknownGroupError):
            cluster.delete_group("g")
        cluster.commit_offsets("g", {T1: GroupOffset(offset=1)})
        assert cluster.fetch_offsets("g").keys() == {T1}

    def test_an_offset_in_the_topic_of_the_groups_is_deleted_with_no_topic(self, log, cluster):
        kept = TopicPartition("__consumer_offsets", 0)
        cluster.commit_offsets("g", {T0: GroupOffset(offset=5), kept: GroupOffset(offset=7, metadata="m")})
        cluster.delete_topic("t")
        ((partition, one),) = log.open().fetch_offsets("g").items()
        assert (partition, one.offset, one.metadata) == (kept, 7, "m")
        assert "__consumer_offsets" not in cluster.describe_topics()

    def test_offsets_of_a_deleted_topic_do_not_apply_to_a_recreated_one(self, cluster):
        cluster.commit_offsets("g", {T0: GroupOffset(offset=5)})
        cluster.delete_topic("t")
        cluster.create_topic("t", partition_count=2)
        assert cluster.fetch_offsets("g") == {}

    def test_invalid_offset_commits_are_refused(self, cluster):
        with pytest.raises(InvalidGroupError):
            cluster.commit_offsets("", {T0: GroupOffset(offset=5)})


class TestRefusals:
    def test_kafka_transactions_are_refused(self, cluster):
        producer = TransactionalProducer(transactional_id="x", producer_id=1, producer_epoch=0)
        for call in (
            lambda: cluster.init_producer("x"),
            lambda: cluster.add_partitions_to_transaction(producer, [T0]),
            lambda: cluster.end_transaction(producer, commit=True),
            lambda: cluster.commit_offsets_in_transaction(producer, "g", {}),
        ):
            with pytest.raises(NotAvailableOnObjectsError, match="no Kafka transactions"):
                call()
        assert (cluster.list_transactions(), cluster.describe_transactions(["x"])) == ((), {})
        assert cluster.init_producer().producer_id != cluster.init_producer().producer_id

    def test_reading_a_missing_log_does_not_create_it(self, log):
        cluster = log.open(create=False)
        assert not cluster.exists()
        with pytest.raises(ObjectLogFormatError, match="There is no log at memory://bucket/log"):
            cluster.describe_topics()
        assert log.store.objects == {}

    def test_a_log_that_can_be_created_is_empty_until_then(self, log):
        cluster = log.open()
        assert cluster.exists() and cluster.describe_topics() == {}
        assert log.store.objects == {}

    def test_records_of_a_compacted_topic_are_not_deleted(self, cluster):
        cluster.create_topic("k", configs={"cleanup.policy": "compact"})
        with pytest.raises(PolicyViolationError):
            cluster.delete_records(TopicPartition("k", 0), 0)

    def test_a_closed_cluster_raises(self, cluster):
        cluster.close()
        with pytest.raises(StorageError, match="was closed"):
            cluster.describe_topics()
