import pytest

from broker_core.log.leader_epochs import EpochEntry, LeaderEpochs
from broker_core.raft.log_comparison import Comparison, Verdict, common_end, compare_replica
from broker_core.raft.quorum_values import LogReach, SnapshotId

PREFIX, SNAPSHOT = Comparison(Verdict.IS_PREFIX), Comparison(Verdict.NEEDS_SNAPSHOT)


def a_log(*entries, end, start=0, start_epoch=0):
    epochs = LeaderEpochs(EpochEntry(leader_epoch=epoch, start_offset=offset) for epoch, offset in entries)
    return LogReach(log_start_offset=start, log_end_offset=end, epochs=epochs, start_epoch=start_epoch)


LOG = a_log((1, 0), (3, 10), (5, 20), end=30)
CUT = a_log((5, 20), end=30, start=20, start_epoch=3)
SNAPSHOT_ID = SnapshotId(end_offset=20, epoch=3)


@pytest.mark.parametrize(
    ("fetch_offset", "last_epoch", "expected"),
    [
        (0, 0, PREFIX),
        (30, 5, PREFIX),
        (15, 3, PREFIX),
        (20, 3, PREFIX),
        (31, 5, Comparison(Verdict.DIVERGES, (5, 30))),
        (21, 3, Comparison(Verdict.DIVERGES, (3, 20))),
        (25, 4, Comparison(Verdict.DIVERGES, (3, 20))),
        (5, 0, Comparison(Verdict.DIVERGES, (0, 0))),
        (5, 9, Comparison(Verdict.DIVERGES, (0, 0))),
    ],
)
def test_a_replica_is_told_where_its_log_parts(fetch_offset, last_epoch, expected):
    assert compare_replica(LOG, None, fetch_offset=fetch_offset, last_fetched_epoch=last_epoch) == expected


@pytest.mark.parametrize(
    ("fetch_offset", "last_epoch", "expected"),
    [
        (0, 0, SNAPSHOT),
        (19, 3, SNAPSHOT),
        (20, 3, PREFIX),
        (20, 2, SNAPSHOT),
        (25, 2, SNAPSHOT),
        (25, 5, PREFIX),
        (25, 3, Comparison(Verdict.DIVERGES, (3, 20))),
    ],
)
def test_a_replica_behind_the_logs_start_needs_a_snapshot(fetch_offset, last_epoch, expected):
    assert compare_replica(CUT, SNAPSHOT_ID, fetch_offset=fetch_offset, last_fetched_epoch=last_epoch) == expected


@pytest.mark.parametrize(
    ("diverging", "end"),
    [
        ((5, 25), 25),  # the leader has less of the epoch
        ((5, 99), 30),  # the own log has less of it
        ((4, 15), 20),  # an epoch that the own log lacks: everything behind the one before goes
        ((3, 12), 12),
        ((0, 0), 0),
    ],
)
def test_a_log_is_truncated_to_where_both_agree(diverging, end):
    assert common_end(LOG, diverging) == end
