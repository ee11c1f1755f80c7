from uuid import UUID

import pytest

from broker_core.model.client_settings import BrokerAddress
from broker_core.model.exceptions import UnsupportedFormatError
from broker_core.raft.bootstrap_voters import BOOTSTRAP_SNAPSHOT, build_bootstrap_snapshot, parse_bootstrap_voters
from broker_core.raft.quorum_control_records import leader_change_batch, snapshot_footer_batch, voters_batch
from broker_core.raft.quorum_values import SnapshotId
from broker_core.raft.voter_set import VoterNode, VoterSet
from broker_core.raft.voter_set_history import QuorumControls, VoterSetHistory, controls_of_snapshot
from broker_core.record.batch_header import placed_header, read_header, write_placement

STATIC = VoterSet.of_static({1: BrokerAddress(host="node-1", port=9093)}, "CONTROLLER")


def a_set(*node_ids):
    return VoterSet.of([VoterNode(node_id=node_id, directory_id=UUID(int=node_id)) for node_id in node_ids])


def append(history, offset, batch):
    write_placement(batch, 0, base_offset=offset, leader_epoch=1)
    header = placed_header(read_header(batch), base_offset=offset, leader_epoch=1)
    return history.on_batches(bytes(batch), [header])


def a_history():
    """One, then two, then three voters, at 2, 10 and 20; a leader change is at 0."""
    history = VoterSetHistory(STATIC)
    one = {"leader_id": 1, "voters": [1], "granting_voters": [1], "timestamp_ms": 0}
    append(history, 0, leader_change_batch(**one, dynamic=(1, a_set(1))))
    append(history, 10, voters_batch(a_set(1, 2), timestamp_ms=0))
    append(history, 20, voters_batch(a_set(1, 2, 3), timestamp_ms=0))
    return history


def test_the_latest_record_counts_and_a_truncation_takes_it_back():
    history = a_history()
    assert (history.latest, history.latest_offset, history.is_dynamic) == (a_set(1, 2, 3), 20, True)
    history.truncate(21)
    assert history.latest_offset == 20
    history.truncate(20)
    assert (history.latest, history.latest_offset) == (a_set(1, 2), 10)
    history.truncate(2)
    assert (history.latest, history.latest_offset, history.kraft_version) == (STATIC, None, 1)
    history.truncate(1)
    assert not history.is_dynamic


@pytest.mark.parametrize(
    ("end_offset", "found"),
    [(1, None), (2, None), (3, (1, a_set(1))), (10, (1, a_set(1))), (11, (1, a_set(1, 2))), (99, (1, a_set(1, 2, 3)))],
)
def test_a_snapshot_has_the_voters_at_its_end(end_offset, found):
    assert a_history().controls_before(end_offset) == found


def test_what_is_before_the_logs_start_is_forgotten_but_for_the_last():
    history = a_history()
    history.forget_before(15)
    assert history.controls_before(15) == (1, a_set(1, 2)) and history.controls_before(10) is None
    history.truncate(15)
    assert history.latest == a_set(1, 2)


@pytest.mark.parametrize(
    ("high_watermark", "found"),
    [(99, [(1, 2, 3)]), (21, [(1, 2, 3)]), (20, [(1, 2), (1, 2, 3)]), (2, [(1,), (1, 2), (1, 2, 3)])],
)
def test_every_set_that_may_be_the_committed_one_is_in_force(high_watermark, found):
    assert a_history().maybe_in_force(high_watermark) == [a_set(*ids) for ids in found]


def test_a_snapshot_replaces_what_was_known():
    history = a_history()
    history.on_snapshot(SnapshotId(end_offset=50, epoch=3), QuorumControls(voters=a_set(7), kraft_version=1))
    assert (history.latest, history.latest_offset) == (a_set(7), 49)
    history.on_snapshot(SnapshotId(end_offset=60, epoch=3), QuorumControls())
    assert (history.latest, history.kraft_version) == (STATIC, 0)


def test_the_first_voters_stand_before_the_log():
    text = "2@node-2:9093:MvDxzVmcRsaTz33bUuRU6A,1@node-1:9093:JEXY6aqzQY-32P5TStzaFg"
    content = build_bootstrap_snapshot(parse_bootstrap_voters(text), listener="CONTROLLER", now_ms=5)
    history = VoterSetHistory()
    history.on_snapshot(BOOTSTRAP_SNAPSHOT, controls_of_snapshot(content))
    assert list(history.latest.nodes) == [1, 2] and history.latest_offset == -1 and history.is_dynamic
    assert history.latest.address_of(2, "CONTROLLER") == BrokerAddress(host="node-2", port=9093)


def test_other_control_records_and_data_change_nothing():
    history = VoterSetHistory(STATIC)
    assert not append(history, 0, snapshot_footer_batch(base_offset=0, leader_epoch=1, timestamp_ms=0))
    assert history.latest_offset is None


def test_a_kraft_version_of_the_future_is_refused():
    with pytest.raises(UnsupportedFormatError, match=r"kraft\.version is 2"):
        append(VoterSetHistory(), 0, voters_batch(a_set(1), timestamp_ms=0, kraft_version=2))


def test_of_static_voters_the_id_is_enough():
    assert STATIC.is_voter(VoterNode(node_id=1, directory_id=UUID(int=9)).key)
    told = STATIC.with_told(VoterNode(node_id=1, directory_id=UUID(int=9)))
    assert told is not None and not told.is_voter(VoterNode(node_id=1, directory_id=UUID(int=8)).key)
    assert STATIC.with_told(VoterNode(node_id=2)) is None
