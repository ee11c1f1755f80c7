import pytest

from broker_core.model.exceptions import CorruptDataError
from broker_core.raft.quorum_files import (
    decode_quorum_state,
    encode_quorum_state,
    parse_snapshot_name,
    snapshot_name,
)
from broker_core.raft.quorum_values import ElectionState, SnapshotId

# As Kafka 4.3.1 wrote them, with static and with dynamic voters.
STATIC = (
    b'{"clusterId":"","leaderId":1,"leaderEpoch":3,"votedId":-1,"appliedOffset":0,"currentVoters":[{"voterId":1}],'
    b'"data_version":0}'
)
VOTED = b'{"leaderId":2,"leaderEpoch":6,"votedId":2,"votedDirectoryId":"U-CJSKBl35kNmKhl_8m3Bg","data_version":1}'
DYNAMIC = b'{"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'


def test_kafkas_quorum_states_are_read():
    assert decode_quorum_state(STATIC) == ElectionState(leader_epoch=3, leader_id=1)
    assert decode_quorum_state(DYNAMIC) == ElectionState(leader_epoch=1, leader_id=1)


def test_a_quorum_state_is_written_as_kafka_writes_it():
    assert encode_quorum_state(ElectionState(leader_epoch=1, leader_id=1)) == DYNAMIC
    assert encode_quorum_state(ElectionState(leader_epoch=3, leader_id=1), static_voters=(1,)) == STATIC


def test_a_vote_is_kept_with_the_directory_that_it_was_given_to():
    assert encode_quorum_state(decode_quorum_state(VOTED)) == VOTED
    directory = decode_quorum_state(VOTED).voted_directory_id
    election = ElectionState(leader_epoch=6, leader_id=2, voted_id=2, voted_directory_id=directory)
    assert decode_quorum_state(VOTED) == election
    static = encode_quorum_state(election, static_voters=(3, 2, 1))
    assert b'"currentVoters":[{"voterId":1},{"voterId":2},{"voterId":3}]' in static
    assert decode_quorum_state(static) == ElectionState(leader_epoch=6, leader_id=2, voted_id=2)


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"[]", DYNAMIC[:-1], DYNAMIC.replace(b'n":1}', b'n":2}'), DYNAMIC.replace(b'Epoch":1', b'Epoch":"1"')],
)
def test_anything_else_is_corrupt(data):
    with pytest.raises(CorruptDataError, match="quorum-state"):
        decode_quorum_state(data)


def test_a_snapshots_name_has_its_end_and_epoch():
    snapshot_id = SnapshotId(end_offset=274, epoch=3)
    assert snapshot_name(snapshot_id) == "00000000000000000274-0000000003.checkpoint"
    assert parse_snapshot_name(snapshot_name(snapshot_id)) == snapshot_id


@pytest.mark.parametrize("suffix", [".part", ".deleted", "x"])
def test_a_file_that_is_no_snapshot_in_use_is_none(suffix):
    assert parse_snapshot_name("00000000000000000274-0000000003.checkpoint" + suffix) is None
