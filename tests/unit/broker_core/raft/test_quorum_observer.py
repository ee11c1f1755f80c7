"""The table of `quorum_observer`, row by row, and what content does."""

from dataclasses import replace

import pytest
from kio.schema.errors import ErrorCode
from support.builders.builders import a_record

from broker_core.log.leader_epochs import LeaderEpochs
from broker_core.model.client_settings import BrokerAddress
from broker_core.model.limits import MAX_SNAPSHOT_BYTES
from broker_core.raft.observer_events import (
    AppendBatches,
    BatchesAppended,
    ElectionSaved,
    FetchAnswer,
    HighWatermarkAdvanced,
    InstallSnapshot,
    LogTruncated,
    QuorumAnswered,
    QuorumLeaderChanged,
    QuorumRequestFailed,
    SaveElection,
    SendFetch,
    SendFetchSnapshot,
    SnapshotAnswer,
    SnapshotChunkWritten,
    SnapshotInstalled,
    SnapshotRefused,
    StopObserver,
    TimePassed,
    TruncateLog,
    WriteSnapshotChunk,
)
from broker_core.raft.quorum_observer import FATAL_ERRORS, QuorumObserver, Waiting
from broker_core.raft.quorum_values import ElectionState, LogReach, SnapshotId
from broker_core.record.batch_builder import build_batch

FIRST, SECOND = BrokerAddress(host="a", port=1), BrokerAddress(host="b", port=2)
LEADER, OTHER = BrokerAddress(host="leader", port=7), BrokerAddress(host="other", port=8)
ENDPOINTS = {7: LEADER, 8: OTHER}
E = 5


def batches(*sizes, base_offset=0, epoch=E):
    log = b""
    for size in sizes:
        log += build_batch([a_record(value=b"x") for _ in range(size)], base_offset=base_offset, leader_epoch=epoch)
        base_offset += size
    return bytes(log)


class ObserverRunner:
    """An observer in epoch 5 whose effects on the disk are done at once; `sent` is the request under way."""

    def __init__(self, *, leader_id=-1, end_offset=0, epochs=(), start_offset=0, start_epoch=0):
        table = LeaderEpochs()
        for epoch, offset in epochs:
            table.assign(epoch, offset)
        self.log = LogReach(
            log_start_offset=start_offset, log_end_offset=end_offset, epochs=table, start_epoch=start_epoch
        )
        self.observer = QuorumObserver(
            bootstrap=[FIRST, SECOND], election=ElectionState(leader_epoch=E, leader_id=leader_id), log=self.log
        )
        self.now_ms = 1000
        self.done, self.sent = [], None
        self.step(TimePassed())
        if leader_id >= 0:
            self.answer(leader_id=leader_id, leader_epoch=E)

    def step(self, event):
        self.done = []
        events = [event]
        while events:
            for effect in self.observer.step(events.pop(0), self.now_ms):
                self.done.append(effect)
                if isinstance(effect, SendFetch | SendFetchSnapshot):
                    self.sent = effect
                else:
                    events += self.completion(effect)
        return self.done

    def completion(self, effect):
        done = {SaveElection: ElectionSaved, AppendBatches: BatchesAppended, TruncateLog: LogTruncated,
                WriteSnapshotChunk: SnapshotChunkWritten, InstallSnapshot: SnapshotInstalled}  # fmt: skip
        return [done[type(effect)]()] if type(effect) in done else []

    def answer(self, kind=FetchAnswer, **fields):
        given = {"leader_id": 7, "leader_epoch": E, "endpoints": ENDPOINTS} | fields
        return self.step(QuorumAnswered(request_id=self.sent.request_id, answer=kind(**given)))

    def later(self, ms=5000):
        self.now_ms += ms
        return self.step(TimePassed())

    @property
    def election(self):
        return self.observer.election.leader_epoch, self.observer.election.leader_id


ANSWERS = [
    # own leader, answer's epoch and leader, error -> (epoch, leader) afterwards, saved?
    (-1, E - 1, 7, ErrorCode.none, (E, -1), False),
    (-1, E - 1, -1, ErrorCode.unknown_leader_epoch, (E, -1), False),
    (-1, E, -1, ErrorCode.not_leader_or_follower, (E, -1), False),
    (-1, E, 7, ErrorCode.none, (E, 7), True),
    (-1, E, 8, ErrorCode.not_leader_or_follower, (E, 8), True),
    (-1, E + 1, -1, ErrorCode.fenced_leader_epoch, (E + 1, -1), True),
    (-1, E + 3, 8, ErrorCode.fenced_leader_epoch, (E + 3, 8), True),
    (7, E - 1, 8, ErrorCode.none, (E, 7), False),
    (7, E - 1, -1, ErrorCode.unknown_leader_epoch, (E, 7), False),
    (7, E, -1, ErrorCode.not_leader_or_follower, (E, 7), False),
    (7, E, 7, ErrorCode.none, (E, 7), False),
    (7, E, 7, ErrorCode.not_leader_or_follower, (E, 7), False),
    (7, E + 1, -1, ErrorCode.fenced_leader_epoch, (E + 1, -1), True),
    (7, E + 1, 8, ErrorCode.fenced_leader_epoch, (E + 1, 8), True),
    (7, E + 1, 7, ErrorCode.none, (E + 1, 7), True),
]


@pytest.mark.parametrize(("own", "epoch", "leader", "error", "afterwards", "is_saved"), ANSWERS)
def test_an_answer_changes_the_state_as_the_table_says(own, epoch, leader, error, afterwards, is_saved):
    runner = ObserverRunner(leader_id=own)
    done = runner.answer(leader_id=leader, leader_epoch=epoch, error=error, records=batches(1), high_watermark=1)
    assert runner.election == afterwards
    assert [type(effect) is SaveElection for effect in done].count(True) == is_saved
    is_content = (own, epoch, leader, error) == (7, E, 7, ErrorCode.none)
    assert runner.observer.log_end_offset == (1 if is_content else 0)


def test_two_leaders_of_one_epoch_stop_it():
    runner = ObserverRunner(leader_id=7)
    (effect,) = runner.answer(leader_id=8, error=ErrorCode.not_leader_or_follower)
    assert effect == StopObserver(reason="epoch 5 has two leaders, 7 and 8")
    assert runner.observer.waiting is Waiting.STOPPED
    assert runner.later() == []


@pytest.mark.parametrize("error", FATAL_ERRORS)
def test_what_asking_again_cannot_change_stops_it(error):
    (effect,) = ObserverRunner().answer(error=error, leader_epoch=-1, leader_id=-1)
    assert isinstance(effect, StopObserver)
    assert error.name in effect.reason


def test_nothing_is_sent_before_the_election_is_saved():
    runner = ObserverRunner()
    answer = QuorumAnswered(
        request_id=runner.sent.request_id, answer=FetchAnswer(leader_id=7, leader_epoch=E, endpoints=ENDPOINTS)
    )
    effects = runner.observer.step(answer, runner.now_ms)
    assert effects == [SaveElection(election=ElectionState(leader_epoch=E, leader_id=7))]
    assert runner.observer.step(TimePassed(), runner.now_ms + 10_000) == []
    changed, sent = runner.observer.step(ElectionSaved(), runner.now_ms)
    assert changed == QuorumLeaderChanged(leader_id=7, leader_epoch=E)
    assert sent.to == LEADER


def test_without_a_leader_the_bootstrap_servers_are_asked_in_turn_with_growing_pauses():
    runner = ObserverRunner()
    asked, pauses = [runner.sent.to], []
    for _ in range(9):
        runner.step(QuorumRequestFailed(request_id=runner.sent.request_id))
        pauses.append(runner.observer.next_timer_ms - runner.now_ms)
        runner.now_ms = runner.observer.next_timer_ms
        runner.step(TimePassed())
        asked.append(runner.sent.to)
    assert asked == [SECOND, FIRST] * 5
    assert pauses == [20, 40, 80, 160, 320, 640, 1000, 1000, 1000]


def test_a_leader_that_does_not_answer_in_time_is_left_for_the_others_until_one_names_it_again():
    runner = ObserverRunner(leader_id=7)
    assert runner.sent.to == LEADER
    runner.now_ms = runner.observer.next_timer_ms
    runner.step(TimePassed())
    runner.later()
    assert runner.sent.to == FIRST
    runner.answer(error=ErrorCode.not_leader_or_follower)
    runner.later()
    assert runner.sent.to == LEADER


def test_an_answer_to_an_older_request_is_ignored():
    runner = ObserverRunner(leader_id=7)
    old = runner.sent.request_id
    runner.step(QuorumRequestFailed(request_id=old))
    runner.later()
    answer = FetchAnswer(leader_id=7, leader_epoch=E, endpoints=ENDPOINTS, records=batches(3))
    assert runner.step(QuorumAnswered(request_id=old, answer=answer)) == []
    assert runner.observer.log_end_offset == 0


def test_a_quorum_state_older_than_the_log_is_not_believed():
    log = LogReach(log_end_offset=4, epochs=LeaderEpochs())
    log.epochs.assign(9, 0)
    observer = QuorumObserver(bootstrap=[FIRST], election=ElectionState(leader_epoch=E, leader_id=7), log=log)
    assert observer.election == ElectionState(leader_epoch=9, leader_id=-1)


# Records and the high watermark


def test_records_are_appended_and_the_next_fetch_acknowledges_them():
    runner = ObserverRunner(leader_id=7)
    done = runner.answer(records=batches(2, 3), high_watermark=2)
    assert done[0] == AppendBatches(records=batches(2, 3), from_offset=0, until_offset=5)
    assert done[1] == HighWatermarkAdvanced(high_watermark=2)
    assert (runner.sent.fetch_offset, runner.sent.last_fetched_epoch, runner.sent.high_watermark) == (5, E, 2)


def test_the_high_watermark_is_at_most_the_own_log_end_and_never_falls():
    runner = ObserverRunner(leader_id=7)
    runner.answer(records=batches(2), high_watermark=100)
    assert runner.observer.high_watermark == 2
    assert runner.answer(high_watermark=1)[:-1] == []
    assert runner.observer.high_watermark == 2


def test_the_first_fetch_does_not_know_the_high_watermark():
    runner = ObserverRunner(leader_id=7)
    assert runner.sent.high_watermark == -1


@pytest.mark.parametrize(
    ("records", "appended"),
    [
        (batches(2) + batches(1, base_offset=3), 2),
        (batches(2) + batches(1, base_offset=2, epoch=E + 1), 2),
        (batches(2) + batches(1, base_offset=2, epoch=E - 1), 2),
        (batches(2) + batches(1, base_offset=2)[:-1], 2),
        (batches(2) + b"\0" * 70, 2),
        (batches(1, base_offset=1), 0),
    ],
    ids=["a gap", "an epoch above the leader's", "an epoch that falls", "cut off", "no batch", "not the log's end"],
)
def test_batches_are_taken_up_to_the_first_that_cannot_follow(records, appended):
    runner = ObserverRunner(leader_id=7)
    runner.answer(records=records, high_watermark=0)
    assert runner.observer.log_end_offset == appended


def test_a_damaged_batch_is_fetched_again_after_a_pause():
    runner = ObserverRunner(leader_id=7)
    damaged = bytearray(batches(1))
    damaged[-1] ^= 1
    assert runner.answer(records=bytes(damaged)) == []
    runner.later()
    assert (runner.sent.to, runner.sent.fetch_offset) == (LEADER, 0)


# Divergence


@pytest.mark.parametrize(
    ("diverging", "end_offset"),
    [((3, 12), 10), ((3, 7), 7), ((2, 8), 5), ((4, 17), 17), ((1, 3), 3)],
    ids=["own end of it is lower", "the leader's is lower", "own epoch is older", "the newest", "below the first"],
)
def test_a_log_is_truncated_to_where_both_agree(diverging, end_offset):
    runner = ObserverRunner(leader_id=7, end_offset=20, epochs=[(1, 0), (3, 5), (4, 10)])
    done = runner.answer(diverging=diverging)
    assert done[0] == TruncateLog(end_offset=end_offset)
    assert runner.sent.fetch_offset == end_offset
    assert runner.sent.last_fetched_epoch == (4 if end_offset > 10 else 3 if end_offset > 5 else 1)


def test_below_the_high_watermark_nothing_is_truncated():
    runner = ObserverRunner(leader_id=7)
    runner.answer(records=batches(5), high_watermark=4)
    (effect,) = runner.answer(diverging=(E, 3))
    assert effect == StopObserver(reason="the leader's epoch 5 ends at 3, below the high watermark 4")


# Snapshots

SNAPSHOT = SnapshotId(end_offset=40, epoch=4)


def chunk(runner, position, content, size=6):
    return runner.answer(SnapshotAnswer, size_bytes=size, position=position, chunk=content)


def test_a_snapshot_is_fetched_piece_by_piece_and_installed_when_it_is_whole():
    runner = ObserverRunner(leader_id=7, end_offset=3, epochs=[(1, 0)])
    runner.answer(snapshot_id=SNAPSHOT)
    assert (runner.sent.snapshot_id, runner.sent.position) == (SNAPSHOT, 0)
    done = chunk(runner, 0, b"abcd")
    assert done[0] == WriteSnapshotChunk(snapshot_id=SNAPSHOT, position=0, chunk=b"abcd")
    assert runner.sent.position == 4
    done = chunk(runner, 4, b"ef")
    assert done[1:3] == [InstallSnapshot(snapshot_id=SNAPSHOT), HighWatermarkAdvanced(high_watermark=40)]
    assert (runner.sent.fetch_offset, runner.sent.last_fetched_epoch, runner.sent.high_watermark) == (40, 4, 40)


@pytest.mark.parametrize(
    ("position", "content", "size"),
    [(2, b"cd", 6), (4, b"cd", 7), (4, b"efg", 6), (4, b"", 6)],
    ids=["another position", "another size", "more than its size", "nothing"],
)
def test_pieces_that_do_not_fit_together_restart_the_snapshot(position, content, size):
    runner = ObserverRunner(leader_id=7)
    runner.answer(snapshot_id=SNAPSHOT)
    chunk(runner, 0, b"abcd")
    assert chunk(runner, position, content, size) == []
    runner.later()
    assert isinstance(runner.sent, SendFetch)


@pytest.mark.parametrize(("size", "is_taken"), [(MAX_SNAPSHOT_BYTES, True), (MAX_SNAPSHOT_BYTES + 1, False)])
def test_a_snapshot_above_the_limit_is_not_fetched(size, is_taken):
    runner = ObserverRunner(leader_id=7)
    runner.answer(snapshot_id=SNAPSHOT)
    assert bool(chunk(runner, 0, b"abcd", size)) == is_taken


def test_a_snapshot_that_is_gone_is_not_requested_again():
    runner = ObserverRunner(leader_id=7)
    runner.answer(snapshot_id=SNAPSHOT)
    runner.answer(SnapshotAnswer, error=ErrorCode.snapshot_not_found)
    runner.later()
    assert isinstance(runner.sent, SendFetch)


def test_a_new_leader_ends_the_fetch_of_the_old_ones_snapshot():
    runner = ObserverRunner(leader_id=7)
    runner.answer(snapshot_id=SNAPSHOT)
    chunk(runner, 0, b"abcd")
    runner.answer(SnapshotAnswer, error=ErrorCode.fenced_leader_epoch, leader_id=8, leader_epoch=E + 1)
    assert (type(runner.sent), runner.sent.to) == (SendFetch, OTHER)


def test_a_snapshot_that_was_refused_leaves_the_log_as_it_was():
    runner = ObserverRunner(leader_id=7, end_offset=3, epochs=[(1, 0)])
    runner.completion = lambda effect: (
        [SnapshotRefused()] if isinstance(effect, InstallSnapshot) else ObserverRunner.completion(runner, effect)
    )
    runner.answer(snapshot_id=SNAPSHOT)
    chunk(runner, 0, b"abcdef")
    assert (runner.observer.log_end_offset, runner.observer.high_watermark) == (3, 0)
    runner.later()
    assert (type(runner.sent), runner.sent.fetch_offset) == (SendFetch, 3)


def test_a_snapshot_below_the_high_watermark_stops_it():
    runner = ObserverRunner(leader_id=7)
    runner.answer(records=batches(5), high_watermark=5)
    (effect,) = runner.answer(snapshot_id=replace(SNAPSHOT, end_offset=4))
    assert effect == StopObserver(reason="the leader's snapshot ends at 4, below the high watermark 5")
