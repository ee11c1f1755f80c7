import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.runs.examples import examples

from broker_core.log.leader_epochs import EpochEntry, LeaderEpochs
from broker_core.log.partition_log import PartitionLog
from broker_core.log.producer_state import AppendOrigin, ProducerState
from broker_core.log.segment_index_feed import SegmentIndexFeed
from broker_core.log.segment_table import Segment, SegmentTable
from broker_core.model.exceptions import (
    CorruptBatchError,
    OffsetOutOfRangeError,
    OutOfOrderSequenceError,
    RecordTooLargeError,
)
from broker_core.model.topic_config import TopicConfig
from broker_core.record.batch_builder import build_batch
from broker_core.record.batch_reader import Record, iter_headers
from broker_core.record.control_records import EndTransactionMarker, build_end_transaction_marker

NOW_MS = 1_700_000_000_000


def a_log(*, base_offset: int = 0, high_watermark: int | None = None, **configs) -> PartitionLog:
    config = TopicConfig(**configs)
    return PartitionLog(
        name="t-0",
        config=config,
        segments=SegmentTable([Segment(base_offset=base_offset, next_offset=base_offset, size_bytes=0)]),
        feed=SegmentIndexFeed(
            base_offset=base_offset, index_interval_bytes=config.index_interval_bytes, created_ms=NOW_MS
        ),
        producers=ProducerState("t-0", end_offset=base_offset),
        leader_epochs=LeaderEpochs(),
        log_start_offset=base_offset,
        high_watermark=high_watermark,
    )


def a_batch(records: int = 2, *, value: bytes = b"v", sequence: int | None = None, **more) -> bytearray:
    producer = {} if sequence is None else {"producer_id": 7, "producer_epoch": 0, "base_sequence": sequence}
    rows = [Record(key=b"k", value=value, timestamp_ms=NOW_MS) for _ in range(records)]
    return build_batch(rows, **producer, **more)


def a_marker_batch(*, is_commit: bool) -> bytearray:
    return build_end_transaction_marker(
        EndTransactionMarker(is_commit=is_commit, coordinator_epoch=0),
        producer_id=7,
        producer_epoch=0,
        timestamp_ms=NOW_MS,
    )


def append(log: PartitionLog, batches: bytearray, **more):
    plan = log.plan_append(batches, now_ms=NOW_MS, **more)
    log.on_appended(plan)
    return plan


def end(log: PartitionLog, *, is_commit: bool):
    return append(log, a_marker_batch(is_commit=is_commit), origin=AppendOrigin.COORDINATOR)


def test_appended_batches_get_the_next_offsets():
    log = a_log(base_offset=5)
    plan = append(log, a_batch(2) + a_batch(3))
    assert (plan.result.base_offset, plan.result.last_offset, plan.log_end_offset) == (5, 9, 10)
    assert [header.base_offset for _, header in iter_headers(plan.buffer)] == [5, 7]
    assert log.log_end_offset == log.high_watermark == log.last_stable_offset == 10


def test_a_plan_changes_nothing_until_it_is_carried_out():
    log = a_log()
    plan = log.plan_append(a_batch(2), now_ms=NOW_MS)
    assert log.log_end_offset == 0
    assert log.plan_append(a_batch(2), now_ms=NOW_MS).result == plan.result
    log.on_appended(plan)
    assert log.log_end_offset == 2


def test_an_append_may_roll_several_segments():
    batch = a_batch(1, value=bytes(400_000))
    log = a_log(segment_bytes=1_000_000)
    plan = append(log, batch * 5)
    assert plan.has_roll
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4]
    assert [segment.next_offset for segment in log.segments] == [2, 4, 5]
    assert log.segments.active.size_bytes == len(batch)
    assert [run.file_position for run in plan.runs] == [0, 0, 0]


def test_a_batch_larger_than_a_segment_is_refused():
    with pytest.raises(RecordTooLargeError, match=r"segment\.bytes"):
        a_log(segment_bytes=100).plan_append(a_batch(2, value=bytes(100)), now_ms=NOW_MS)


def test_the_leader_epoch_is_stamped_and_recorded_once():
    log = a_log()
    plan = append(log, a_batch())
    assert plan.is_new_leader_epoch
    assert log.leader_epochs.entries == (EpochEntry(leader_epoch=0, start_offset=0),)
    assert not append(log, a_batch()).is_new_leader_epoch
    assert append(log, a_batch(), leader_epoch=4).is_new_leader_epoch
    (_, header), *_ = iter_headers(append(log, a_batch()).buffer)
    assert header.partition_leader_epoch == 4


# -- producers --


def test_a_retry_gets_the_first_offsets_and_writes_nothing():
    log = a_log()
    first = append(log, a_batch(2, sequence=0)).result
    append(log, a_batch(1, sequence=2))
    again = append(log, a_batch(2, sequence=0))
    assert again.runs == ()
    assert again.result.is_duplicate
    assert (again.result.base_offset, again.result.last_offset) == (first.base_offset, first.last_offset)
    assert again.log_end_offset == log.log_end_offset == 3


def test_a_retry_of_a_torn_append_appends_only_the_missing_batches():
    log = a_log()
    append(log, a_batch(2, sequence=0))
    whole = a_batch(2, sequence=0) + a_batch(1, sequence=2)
    plan = append(log, whole)
    assert (plan.result.base_offset, plan.result.last_offset, plan.result.is_duplicate) == (0, 2, False)
    (run,) = plan.runs
    assert bytes(plan.buffer[run.from_position : run.until_position])[:8] == (2).to_bytes(8, "big")
    assert log.log_end_offset == 3


def test_a_gap_in_the_sequence_is_refused_and_nothing_changes():
    log = a_log()
    append(log, a_batch(2, sequence=0))
    with pytest.raises(OutOfOrderSequenceError):
        log.plan_append(a_batch(1, sequence=3), now_ms=NOW_MS)
    assert log.log_end_offset == 2
    append(log, a_batch(1, sequence=2))


# -- transactions --


def test_an_open_transaction_bounds_the_last_stable_offset():
    log = a_log()
    append(log, a_batch(1))
    append(log, a_batch(2, sequence=0, is_transactional=True))
    append(log, a_batch(1))
    assert (log.last_stable_offset, log.high_watermark) == (1, 4)
    end(log, is_commit=True)
    assert log.last_stable_offset == log.high_watermark == 5


def test_an_abort_adds_an_entry_to_the_transaction_index():
    log = a_log()
    append(log, a_batch(2, sequence=0, is_transactional=True))
    (run,) = end(log, is_commit=False).runs
    (entry,) = run.aborted_transactions
    assert (entry.producer_id, entry.first_offset, entry.last_offset, entry.last_stable_offset) == (7, 0, 2, 3)
    append(log, a_batch(2, sequence=2, is_transactional=True))
    (run,) = end(log, is_commit=True).runs
    assert run.aborted_transactions == ()


def test_the_last_stable_offset_never_falls_below_the_log_start():
    log = a_log()
    append(log, a_batch(3, sequence=0, is_transactional=True))
    log.advance_log_start_offset(2)
    assert log.bounds().last_stable_offset == 2


# -- bounds --


def test_with_replicas_the_high_watermark_advances_only_explicitly():
    log = a_log(high_watermark=0)
    append(log, a_batch(3))
    assert (log.high_watermark, log.last_stable_offset, log.log_end_offset) == (0, 0, 3)
    assert log.advance_high_watermark(2)
    assert not log.advance_high_watermark(1)
    assert log.advance_high_watermark(99)
    assert log.high_watermark == 3


def test_the_log_start_can_advance_to_the_high_watermark():
    log = a_log()
    append(log, a_batch(3))
    assert log.advance_log_start_offset(2)
    assert not log.advance_log_start_offset(1)
    assert log.leader_epochs.entries == (EpochEntry(leader_epoch=0, start_offset=2),)
    with pytest.raises(OffsetOutOfRangeError, match="high watermark 3"):
        log.advance_log_start_offset(4)


# -- rolling and truncation --


def test_an_explicit_roll_keeps_an_empty_segment():
    log = a_log()
    assert log.plan_roll() is None
    append(log, a_batch(2))
    plan = log.plan_roll()
    assert (plan.base_offset, plan.closing_time_entry.timestamp_ms) == (2, NOW_MS)
    log.on_rolled(plan.base_offset, now_ms=NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [0, 2]
    assert log.log_end_offset == 2


@pytest.mark.parametrize(
    ("until", "removed", "cut"),
    [(5, (), 4), (4, (), 4), (3, (4,), 2), (2, (4,), 2), (0, (2, 4), 0), (-1, (0, 2, 4), None)],
)
def test_a_truncation_plan_lists_removed_and_cut_segments(until, removed, cut):
    log = a_log(segment_bytes=1_000_000)
    append(log, a_batch(2, value=bytes(300_000)) * 3)
    assert log.log_end_offset == 6
    plan = log.plan_truncate(until)
    assert (plan.removed, plan.cut_base_offset) == (removed, cut)


def test_truncating_at_or_after_the_end_does_nothing():
    log = a_log()
    append(log, a_batch(2))
    assert log.plan_truncate(2) is None


# -- replicated batches --


def test_replicated_batches_keep_their_offsets_and_epochs():
    log = a_log()
    batch = a_batch(2, base_offset=40, leader_epoch=3)
    plan = append(log, batch, origin=AppendOrigin.REPLICATION)
    assert (plan.result.base_offset, log.log_end_offset) == (40, 42)
    assert log.leader_epochs.latest_epoch == 3
    with pytest.raises(CorruptBatchError, match="already ends at 42"):
        log.plan_append(a_batch(1, base_offset=41), now_ms=NOW_MS, origin=AppendOrigin.REPLICATION)


steps_of_a_log = st.lists(
    st.tuples(st.sampled_from(["plain", "transactional", "commit", "abort"]), st.integers(1, 3)), max_size=25
)


def carried_out(log, steps):
    """The plan of each step, once it is in the log."""
    sequence = 0
    for kind, records in steps:
        if kind == "plain":
            yield append(log, a_batch(records))
        elif kind == "transactional":
            yield append(log, a_batch(records, sequence=sequence, is_transactional=True))
            sequence += records
        else:
            yield end(log, is_commit=kind == "commit")


@examples(40)
@given(steps_of_a_log)
def test_replaying_appended_batches_gives_the_same_log(steps):
    log, twin = a_log(segment_bytes=700), a_log(segment_bytes=700)
    for plan in carried_out(log, steps):
        for run in plan.runs:
            if run.is_roll:
                twin.on_rolled(run.base_offset, now_ms=NOW_MS)
            for header, marker in zip(run.headers, run.markers, strict=True):
                twin.replay(header, marker=marker)
    assert twin.bounds() == log.bounds()
    assert list(twin.segments) == list(log.segments)
    assert dict(twin.producers.entries) == dict(log.producers.entries)
    assert vars(twin.feed) == vars(log.feed)


@pytest.mark.parametrize("records", [2, 3])
def test_a_stale_plan_is_refused(records):
    log = a_log()
    stale = log.plan_append(a_batch(records), now_ms=NOW_MS)
    append(log, a_batch(2))
    with pytest.raises(AssertionError, match="a plan for byte 0"):
        log.on_appended(stale)


def test_a_plan_can_be_carried_out_once():
    log = a_log()
    plan = log.plan_append(a_batch(2), now_ms=NOW_MS)
    log.on_appended(plan)
    with pytest.raises(AssertionError, match="a plan for byte 0"):
        log.on_appended(plan)


def test_a_retry_after_a_batch_without_a_sequence_is_recognized():
    log = a_log()
    first = append(log, a_batch(1, sequence=0, is_transactional=True))
    commit = build_batch(
        [Record(key=b"k", timestamp_ms=NOW_MS)], producer_id=7, producer_epoch=0, is_transactional=True
    )
    append(log, commit, origin=AppendOrigin.COORDINATOR)
    again = append(log, a_batch(1, sequence=0, is_transactional=True))
    assert again.result.is_duplicate and again.result.base_offset == first.result.base_offset


@given(steps_of_a_log.filter(bool), st.integers(0, 300))
def test_appending_batches_one_by_one_or_together_gives_the_same_log(steps, index_interval_bytes):
    """Of one batch a plan is made in a short way, of several in a long one."""
    placed = [bytes(plan.buffer) for plan in carried_out(a_log(), steps)]

    def log_of(appends):
        log = a_log(segment_bytes=700, index_interval_bytes=index_interval_bytes)
        segments, closing_entries = {}, []
        for batches in appends:
            plan = append(log, bytearray(batches), origin=AppendOrigin.REPLICATION)
            for run in plan.runs:
                into = segments.setdefault(run.base_offset, ([], [], [], [], bytearray()))
                if run.is_roll:
                    closing_entries.append(run.closing_time_entry)
                for found, more in zip(
                    into, (run.headers, run.offset_entries, run.time_entries, run.aborted_transactions), strict=False
                ):
                    found.extend(more)
                into[-1].extend(plan.buffer[run.from_position : run.until_position])
        return segments, closing_entries, vars(log.feed), list(log.segments), log.bounds(), dict(log.producers.entries)

    assert log_of(placed) == log_of([b"".join(placed)])
