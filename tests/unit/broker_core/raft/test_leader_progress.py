import pytest

from broker_core.model.limits import MAX_QUORUM_OBSERVERS
from broker_core.raft.leader_progress import OBSERVER_TIMEOUT_MS, LeaderProgress
from broker_core.raft.quorum_values import QuorumTimings
from broker_core.raft.voter_set import ReplicaKey, VoterNode, VoterSet

OWN = 1


def a_progress(voter_count=3, *, epoch_start=0):
    return LeaderProgress(
        own=ReplicaKey(OWN),
        voters=VoterSet.of([VoterNode(node_id=node_id) for node_id in range(1, voter_count + 1)]),
        epoch_start=epoch_start,
        timings=QuorumTimings(),
        now_ms=0,
    )


def fetched(progress, *ends, now_ms=0, leader_end=100):
    for replica_id, end in enumerate(ends, OWN + 1):
        progress.on_fetch(ReplicaKey(replica_id), fetch_offset=end, leader_end=leader_end, now_ms=now_ms)
    return progress


@pytest.mark.parametrize(
    ("own_end", "ends", "committed"),
    [
        (10, (), 10),
        (10, (7,), 7),
        (10, (7, 4), 7),
        (5, (7, 9), 7),
        (10, (7, 6, 5), 6),
        (10, (9, 8, 2, 1), 8),
    ],
)
def test_a_majority_commits(own_end, ends, committed):
    progress = fetched(a_progress(len(ends) + 1), *ends)
    assert progress.maybe_advance(own_end) and progress.high_watermark == committed


def test_silent_voters_count_as_if_they_had_nothing():
    progress = fetched(a_progress(5), 50)
    assert not progress.maybe_advance(60) and progress.high_watermark is None


def test_nothing_is_committed_before_a_record_of_the_own_epoch_is():
    progress = fetched(a_progress(epoch_start=50), 50, 50)
    assert not progress.maybe_advance(51)
    fetched(progress, 51)
    assert progress.maybe_advance(51) and progress.high_watermark == 51


def test_the_high_watermark_does_not_fall_when_a_voter_comes_back_with_less():
    progress = fetched(a_progress(), 20, 20)
    assert progress.maybe_advance(20)
    fetched(progress, 5, 5)
    assert not progress.maybe_advance(20) and progress.high_watermark == 20


def test_a_majority_must_fetch_within_the_time():
    progress = a_progress(5)
    fetched(progress, 1, now_ms=2900)
    assert progress.has_lost_quorum(3000), "one of four is no majority with the leader"
    progress = fetched(a_progress(5), 1, 1, now_ms=2900)
    assert not progress.has_lost_quorum(5899) and progress.has_lost_quorum(5900)
    assert not a_progress(1).has_lost_quorum(10**9)


def test_voters_that_did_not_fetch_for_a_period_are_silent():
    progress = fetched(a_progress(), 1, now_ms=500)
    assert progress.silent_voters(1000) == [3]
    assert progress.silent_voters(1500) == [2, 3]


def test_the_longest_log_is_preferred_and_equal_ones_by_id():
    assert fetched(a_progress(4), 5, 9, 5).preferred_successors() == ((3, None), (2, None), (4, None))


def test_an_observer_is_forgotten_and_so_many_are_known():
    progress = a_progress()
    progress.on_fetch(ReplicaKey(99), fetch_offset=1, leader_end=1, now_ms=0)
    progress.on_fetch(ReplicaKey(98), fetch_offset=1, leader_end=1, now_ms=OBSERVER_TIMEOUT_MS)
    assert [node_id for node_id, _ in progress.observers] == [98]
    for node_id in range(1000, 1000 + MAX_QUORUM_OBSERVERS):
        progress.on_fetch(ReplicaKey(node_id), fetch_offset=1, leader_end=1, now_ms=OBSERVER_TIMEOUT_MS)
    assert len(progress.observers) == MAX_QUORUM_OBSERVERS
    progress.on_fetch(ReplicaKey(98), fetch_offset=7, leader_end=7, now_ms=OBSERVER_TIMEOUT_MS + 1)
    assert progress.observers[ReplicaKey(98)].log_end_offset == 7


def test_who_was_at_the_end_at_its_last_fetch_was_caught_up_then():
    progress = fetched(a_progress(), 10, now_ms=5, leader_end=10)
    assert progress.voters[2].last_caught_up_ms == 5
    fetched(progress, 12, now_ms=20, leader_end=20)
    assert progress.voters[2].last_caught_up_ms == 5
    fetched(progress, 20, now_ms=30, leader_end=25)
    assert progress.voters[2].last_caught_up_ms == 20
