"""Planned reads of an object log; a task is a cluster that has not loaded anything."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builders.append_records import append_values
from support.builders.builders import a_batch
from support.objects.object_builders import SOME_MS, MemoryLog

from broker_core.model.exceptions import CorruptBatchError, OffsetOutOfRangeError, UnknownTopicError
from broker_core.model.identifiers import OffsetSpec, TopicPartition
from broker_core.object_log import read_plan
from broker_core.record.batch_reader import iter_headers, records_of

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
LARGE = 10**6


def append(cluster, *values, partition=0):
    return append_values(cluster, "t", *values, partition=partition, timestamps_ms=[SOME_MS] * len(values))


def several(cluster, *partitions):
    """One object with a range of two records for each partition, in this order."""
    upload = cluster.stage()
    for partition in partitions:
        upload.append(TopicPartition("t", partition), bytearray(a_batch(2)))
    cluster.commit_staged([upload.finish()])


def offsets_of(fetched):
    data = bytes(fetched.buffer)
    return [record.offset for place, _ in iter_headers(data) for record in records_of(data, place)]


def sent(plan):
    return pickle.loads(pickle.dumps(plan))


def remove_replaced(log, cluster):
    """Merges the small ranges, and removes their objects after the grace time."""
    cluster.maintain(grace_ms=1000)
    log.clock.milliseconds += 10_000
    append_values(cluster, "t", "x", partition=1, timestamps_ms=[log.clock.milliseconds])
    assert cluster.maintain(grace_ms=1000).removed_object_count


def test_ranges_of_several_partitions_that_adjoin_are_one_request(log, cluster):
    several(cluster, 0, 1)
    plans = [sent(cluster.plan_fetches(partition, 0, 2)) for partition in (T0, T1)]
    task = log.open()
    before = log.store.requests.copy()
    answers = task.fetch_several_planned(plans, max_bytes=LARGE)
    assert [offsets_of(one) for one in answers] == [[0, 1], [0, 1]]
    assert [one.next_offset for one in answers] == [2, 2]
    assert log.store.requests - before == {"get_ranges": 1}


def test_several_plans_get_what_fits_from_where_they_begin(log, cluster):
    several(cluster, 0, 0, 1)
    size = cluster.bytes_between(T0, 0, 4)
    first, second = cluster.plan_fetches(T0, 3, 4), cluster.plan_fetches(T1, 0, 2)
    empty = cluster.plan_fetches(T1, 2, 2)
    answers = log.open().fetch_several_planned([first, second, empty], max_bytes=size + size // 2 - 1)
    assert offsets_of(answers[0]) == [2, 3] and answers[1] is None
    assert len(answers[2].buffer) == 0 and answers[2].next_offset == 2


def test_several_plans_with_a_missing_object_are_left_to_be_fetched_one_by_one(log, cluster):
    append(cluster, "a")
    append(cluster, "b", partition=1)
    plans = [cluster.plan_fetches(partition, 0, 1) for partition in (T0, T1)]
    del log.store.objects[next(name for name in log.store.objects if name.startswith("data/"))]
    assert log.open().fetch_several_planned(plans, max_bytes=LARGE) == [None, None]


def test_damage_is_named_by_object_and_position(log, cluster):
    several(cluster, 0, 1)
    plans = [cluster.plan_fetches(partition, 0, 2) for partition in (T0, T1)]
    (name,) = [name for name in log.store.objects if name.startswith("data/")]
    damaged = bytearray(log.store.objects[name])
    damaged[-1] ^= 1
    log.store.objects[name] = bytes(damaged)
    for read in (
        lambda: log.open().fetch_several_planned(plans, max_bytes=LARGE),
        lambda: log.open().fetch_planned(plans[1], 0, max_bytes=LARGE),
    ):
        with pytest.raises(CorruptBatchError) as caught:
            read()
        assert caught.value.file == f"{log.store.url}/{name}"
        assert caught.value.position == len(damaged) // 2


def test_a_plan_is_current_until_the_next_commit(log, cluster):
    append(cluster, "a")
    plan = sent(cluster.plan_fetches(T0, 0, 1))
    task = log.open()
    before = log.store.requests.copy()
    assert task.is_current(plan)
    assert log.store.requests - before == {"get": 1}
    append(cluster, "b", partition=1)
    assert not task.is_current(plan)
    assert not cluster.is_current(plan), "who knows the commit need not ask"
    assert log.store.requests["get"] == before["get"] + 2


def test_in_a_known_state_nothing_is_asked_for(log, cluster):
    append(cluster, "a")
    append(log.open(), "b")
    before = log.store.requests.copy()
    with cluster.known_state():
        assert cluster.list_offsets({T0: OffsetSpec.LATEST})[T0].offset == 1
        assert cluster.plan_fetches(T0, 0, 2).until_offset == 1
    assert log.store.requests == before
    assert cluster.bounds(T0).log_end_offset == 2


def test_where_objects_are_missing_the_log_is_asked_once(log, cluster):
    for number in range(8):
        append(cluster, f"a{number}")
    plan = sent(cluster.plan_fetches(T0, 0, 8))
    remove_replaced(log, cluster)
    task = log.open()
    least = cluster.bytes_between(T0, 0, 1)
    first = task.fetch_planned(plan, 0, max_bytes=least)
    before = log.store.requests.copy()
    assert first.next_offset == 1
    assert task.fetch_planned(plan, 1, max_bytes=least).next_offset == 2
    assert log.store.requests - before == {"get_ranges": 1}


def test_a_task_that_runs_again_begins_where_it_began(log, cluster):
    """Its process had found the objects missing in the middle of the plan, and began there."""
    for number in range(8):
        append(cluster, f"a{number}")
    plan = sent(cluster.plan_fetches(T0, 0, 8))
    remove_replaced(log, cluster)
    task = log.open()
    assert offsets_of(task.fetch_planned(plan, 2, max_bytes=LARGE))[-1] == 7
    assert offsets_of(task.fetch_planned(plan, 0, max_bytes=LARGE))[0] == 0


def test_lost_data_is_told_apart_by_the_log(log, cluster):
    append(cluster, "a", "b")
    kept, plan = cluster.plan_fetches(T1, 0, 0), cluster.plan_fetches(T0, 0, 2)
    cluster.delete_records(T0, 2)
    log.clock.milliseconds += 10_000
    append(cluster, "c", partition=1)
    cluster.maintain(grace_ms=1000)
    with pytest.raises(OffsetOutOfRangeError):
        log.open().fetch_planned(plan, 0, max_bytes=LARGE)
    cluster.delete_topic("t")
    with pytest.raises(UnknownTopicError):
        log.open().fetch_planned(plan, 0, max_bytes=LARGE)
    assert log.open().fetch_planned(kept, 0, max_bytes=LARGE).next_offset == 0


def test_a_plan_of_very_many_ranges_ends_before_the_asked_offset(log, cluster, monkeypatch):
    monkeypatch.setattr("broker_core.object_cluster.object_reads.MAX_PLANNED_READ_COUNT", 2)
    for number in range(3):
        append(cluster, f"a{number}", f"b{number}")
    plan = cluster.plan_fetches(T0, 1, 6)
    assert (plan.from_offset, plan.until_offset) == (1, 4)
    assert len(read_plan.decode_reads(plan.reads)) == 2
    assert cluster.plan_fetches(T0, 1, 3).until_offset == 3


def test_a_range_that_was_read_from_its_start_is_not_read_again(log, cluster):
    upload = cluster.stage()
    for _ in range(4):
        upload.append(T0, bytearray(a_batch(2)))
    cluster.commit_staged([upload.finish()])
    plan = sent(cluster.plan_fetches(T0, 3, 8))
    task = log.open()
    before = log.store.requests.copy()
    fetched = task.fetch_planned(plan, 3, max_bytes=1)
    assert offsets_of(fetched) == [2, 3, 4, 5, 6, 7] and fetched.next_offset == 8
    assert log.store.requests - before == {"get_ranges": 1}


@given(
    batches=st.lists(st.integers(1, 6), min_size=1, max_size=12),
    start=st.integers(0, 11),
    max_batches=st.integers(1, 8),
)
def test_the_fetches_of_a_plan_are_those_that_its_steps_tell(batches, start, max_batches):
    """`batches`: of each range, one record each."""
    log = MemoryLog()
    with log.open() as cluster:
        cluster.create_topic("t", partition_count=1)
        for count in batches:
            upload = cluster.stage()
            for _ in range(count):
                upload.append(T0, bytearray(a_batch(1)))
            cluster.commit_staged([upload.finish()])
        end = sum(batches)
        plan = sent(cluster.plan_fetches(T0, min(start, end - 1), end))
        max_bytes = max_batches * cluster.bytes_between(T0, 0, 1)
        task = log.open()
        offset = plan.from_offset
        for step in task.fetch_steps(plan, offset, end, max_bytes=max_bytes, ahead_bytes=LARGE):
            fetched = task.fetch_planned(plan, step.from_offset, max_bytes=max_bytes)
            assert step.from_offset == offset
            if step.next_offset > offset:
                assert fetched.next_offset == step.next_offset
                assert len(fetched.buffer) <= step.size_bytes
            offset = fetched.next_offset
        assert offset == end or step.next_offset == step.from_offset
