"""Every state of a follower with everything that it can hear, beside Kafka 4.3.1's rules."""

import itertools

import pytest
from kio.schema.errors import ErrorCode
from support.replication.driven_replica import BACKOFF_MS, EPOCH, OTHER, DrivenReplica, a_log, an_assignment, batches

from broker_core.log.leader_epochs import EpochEnd
from broker_core.replication.follower_table import TABLE, FollowerState, Heard, heard_error
from broker_core.replication.replication_values import ReplicaFetchAnswer

END = 9
BOUNDS = {"log_start_offset": 0, "log_end_offset": END}


def a_follower():
    driven = DrivenReplica(a_log((2, 0), end=END))
    driven.assign(an_assignment(OTHER))
    return driven


def answer(driven, **given):
    driven.do(driven.replica.on_answer(driven.replica.follower._position(), ReplicaFetchAnswer(**given), driven.now_ms))


def in_state(state):
    driven = a_follower()
    match state:
        case FollowerState.ASKING_BOUNDS:
            answer(driven, error=ErrorCode.offset_out_of_range)
        case FollowerState.WRITING:
            answer(driven, records=batches(1, base_offset=END), high_watermark=END)
        case FollowerState.PAUSED:
            answer(driven, error=ErrorCode.not_leader_or_follower)
        case FollowerState.FENCED:
            answer(driven, error=ErrorCode.fenced_leader_epoch)
        case FollowerState.FAILED:
            driven.replica.on_write_failed()
    assert driven.replica.follower.state is state
    driven.effects.clear()
    return driven


def hear(driven, heard):
    match heard:
        case Heard.RECORDS:
            answer(driven, records=batches(2, base_offset=driven.log.log_end_offset), high_watermark=END)
        case Heard.NOTHING_NEW:
            answer(driven, high_watermark=END)
        case Heard.DIVERGENCE:
            answer(driven, diverging=EpochEnd(leader_epoch=2, end_offset=6))
        case Heard.OUT_OF_RANGE:
            answer(driven, error=ErrorCode.offset_out_of_range)
        case Heard.NEWER_EPOCH:
            answer(driven, error=ErrorCode.fenced_leader_epoch)
        case Heard.ERROR:
            answer(driven, error=ErrorCode.unknown_leader_epoch)
        case Heard.BOUNDS:
            driven.do(driven.replica.on_bounds(EPOCH, **BOUNDS, now_ms=driven.now_ms))
        case Heard.NO_ANSWER:
            driven.replica.on_no_answer(driven.now_ms)
        case Heard.WRITTEN:
            driven.do(driven.replica.on_written(driven.now_ms))
        case Heard.WRITE_FAILED:
            driven.replica.on_write_failed()
        case Heard.PAUSE_OVER:
            driven.pass_time(BACKOFF_MS)


def outcome(driven):
    names = ", ".join(type(effect).__name__ for effect in driven.effects)
    return f"{names}: {driven.replica.follower.state.name.lower()}"


FETCHING = {
    Heard.RECORDS: "AppendFetched: writing",
    Heard.NOTHING_NEW: "WatermarkAdvanced: fetching",
    Heard.DIVERGENCE: "TruncatePartition: writing",
    Heard.OUT_OF_RANGE: "AskLeaderBounds: asking_bounds",
    Heard.NEWER_EPOCH: ": fenced",
    Heard.ERROR: ": paused",
    Heard.NO_ANSWER: ": paused",
}
OTHERS = {
    (FollowerState.ASKING_BOUNDS, Heard.BOUNDS): ": paused",
    (FollowerState.ASKING_BOUNDS, Heard.NO_ANSWER): ": paused",
    (FollowerState.WRITING, Heard.WRITTEN): "WatermarkAdvanced: fetching",
    (FollowerState.PAUSED, Heard.PAUSE_OVER): ": fetching",
}
CELLS = [
    (state, heard) for state, heard in itertools.product(FollowerState, Heard)
    if heard is not Heard.WRITTEN or state is FollowerState.WRITING
]  # fmt: skip


@pytest.mark.parametrize(("state", "heard"), CELLS, ids=lambda each: each.name)
def test_a_cell_of_the_table(state, heard):
    driven = in_state(state)
    hear(driven, heard)
    expected = f": {state.name.lower()}"
    if heard is Heard.WRITE_FAILED:
        expected = ": failed"
    elif state is FollowerState.FETCHING:
        expected = FETCHING.get(heard, expected)
    assert outcome(driven) == OTHERS.get((state, heard), expected)


def test_the_table_has_every_cell():
    assert {(state, heard) for state, row in TABLE.items() for heard in row} == set(CELLS)


@pytest.mark.parametrize("state", FollowerState, ids=lambda state: state.name)
def test_a_new_leader_epoch_leads_to_fetching_except_after_a_failed_write(state):
    driven = in_state(state)
    driven.assign(an_assignment(3, epoch=EPOCH + 1, partition_epoch=11))
    if state is FollowerState.WRITING:
        assert driven.replica.follower.leader_epoch == EPOCH, "the write comes first"
        hear(driven, Heard.WRITTEN)
    is_failed = state is FollowerState.FAILED
    assert driven.replica.follower.state is (state if is_failed else FollowerState.FETCHING)
    assert driven.replica.follower.leader_epoch == (EPOCH if is_failed else EPOCH + 1)


def test_errors_of_fetches():
    expected = {
        ErrorCode.offset_out_of_range: Heard.OUT_OF_RANGE, ErrorCode.fenced_leader_epoch: Heard.NEWER_EPOCH,
    }  # fmt: skip
    for error in filter(None, ErrorCode):
        assert heard_error(error) is expected.get(error, Heard.ERROR), error
