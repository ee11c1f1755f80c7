"""Changes of a dynamic quorum's voters at the leader, beside Kafka 4.3.1's checks and errors."""

from dataclasses import replace
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from support.quorum.driven_voter import EPOCH, LAST_EPOCH, LISTENER, LOG_END, DrivenVoter

from broker_core.model.client_settings import BrokerAddress
from broker_core.raft.observer_events import FetchAnswer, QuorumAnswer
from broker_core.raft.quorum_control_records import read_control_record, voters_of
from broker_core.raft.quorum_values import ElectionState
from broker_core.raft.voter_events import (
    AddVoterRequest,
    BeginEpochRequest,
    ChangeAnswer,
    EndEpochRequest,
    RecordsAccepted,
    RecordsProposed,
    RemoveVoterRequest,
    ReplicaFetchRequest,
    SendRecords,
    UpdateVoterRequest,
    VersionsAnswer,
    VersionsRequest,
    VoteRequest,
    VotersAppended,
)
from broker_core.raft.voter_set import ReplicaKey, VoterNode, VoterSet
from broker_core.raft.voter_table import Role
from broker_core.record.batch_builder import build_batch
from broker_core.record.batch_reader import Record, records_of
from broker_core.record.control_records import ControlType


def a_node(node_id, *, directory=None, port=9093):
    place = BrokerAddress(host=f"node-{node_id}", port=port)
    return VoterNode(node_id=node_id, directory_id=UUID(int=directory or node_id), endpoints={LISTENER: place})


THREE = VoterSet.of([a_node(1), a_node(2), a_node(3)])
NEW = a_node(4)


def a_leader(voters=THREE, *, is_committed=True, **others):
    """Node 1; with a record of its epoch committed, if it has to."""
    driven = DrivenVoter(election=ElectionState(leader_epoch=EPOCH, voted_id=1), voters=voters, **others)
    if driven.voter.role is not Role.LEADER:
        for node_id in sorted(set(voters.nodes) - {1})[: len(voters.nodes) // 2]:
            driven.grant(driven.newest(node_id, VoteRequest))
    if is_committed:
        for node_id in sorted(set(voters.nodes) - {1}):
            fetch(driven, voters.nodes[node_id].key)
    return driven


def fetch(driven, key, *, offset=None):
    end = driven.voter.log.end if offset is None else offset
    request = ReplicaFetchRequest(
        epoch=driven.voter.election.leader_epoch, replica_id=key.node_id, directory_id=key.directory_id,
        fetch_offset=end, last_fetched_epoch=driven.voter.log.last_epoch, high_watermark=-1, max_wait_ms=0,
        max_bytes=1000,
    )  # fmt: skip
    driven.receive(request, request_id=900 + key.node_id)


def asked(driven, request, *, request_id=1):
    """The answer's error; None while it waits."""
    answer = driven.receive(request, request_id=request_id)
    assert answer is None or isinstance(answer, ChangeAnswer)
    return None if answer is None else answer.error


def tell_versions(driven, node_id=4, **fields):
    driven.answer(driven.newest(node_id, VersionsRequest), VersionsAnswer, leader_epoch=-1, **fields)


def written_sets(driven):
    """The voters of every record that was appended, by id and directory."""
    records = [record for each in driven.appended() for record in records_of(each.records)]
    found = [read_control_record(record) for record in records if record.key is not None]
    return [set(voters_of(message).nodes) for kind, message in found if kind is ControlType.KRAFT_VOTERS]


def add(driven, **fields):
    """Until the new voter's record is in the log."""
    fetch(driven, NEW.key)
    assert asked(driven, AddVoterRequest(voter=NEW, **fields)) is None
    tell_versions(driven)


def test_an_observer_is_added_when_its_record_is_committed_by_the_new_set():
    driven = a_leader()
    add(driven)
    assert written_sets(driven)[-1] == {1, 2, 3, 4} and 1 not in driven.replies
    assert set(driven.voter.voters.nodes) == {1, 2, 3, 4}, "they count from the append on"
    fetch(driven, ReplicaKey(2, UUID(int=2)))
    assert 1 not in driven.replies, "two of four are no majority"
    fetch(driven, NEW.key)
    assert driven.replies[1].error is ErrorCode.none
    assert set(driven.voter.leading.progress.voters) == {1, 2, 3, 4} and driven.voter.leading.progress.observers == {}


def test_a_leader_that_was_alone_for_long_has_time_to_hear_from_its_second_voter():
    driven = a_leader(VoterSet.of([a_node(1)])).pass_time(60_000)
    add(driven)
    driven.pass_time(2900)
    assert driven.voter.role is Role.LEADER
    driven.pass_time(200)
    assert driven.voter.role is Role.RESIGNED


def test_who_joins_by_itself_is_answered_when_the_record_is_in_the_log():
    driven = a_leader()
    add(driven, is_answered_when_committed=False)
    assert driven.replies[1].error is ErrorCode.none
    assert asked(driven, RemoveVoterRequest(voter=NEW.key), request_id=2) is ErrorCode.request_timed_out


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (AddVoterRequest(voter=replace(NEW, node_id=-1)), "invalid_request"),
        (AddVoterRequest(voter=replace(NEW, directory_id=None)), "invalid_request"),
        (AddVoterRequest(voter=replace(NEW, endpoints={"OTHER": NEW.endpoints[LISTENER]})), "invalid_request"),
        (AddVoterRequest(voter=a_node(2)), "duplicate_voter"),
        (AddVoterRequest(voter=a_node(2, directory=77)), "duplicate_voter"),
        (RemoveVoterRequest(voter=ReplicaKey(3)), "invalid_request"),
        (RemoveVoterRequest(voter=ReplicaKey(-1, UUID(int=3))), "invalid_request"),
        (RemoveVoterRequest(voter=ReplicaKey(3, UUID(int=4))), "voter_not_found"),
        (RemoveVoterRequest(voter=ReplicaKey(4, UUID(int=4))), "voter_not_found"),
    ],
)
def test_a_change_that_makes_no_sense_is_refused(request_, error):
    driven = a_leader()
    assert asked(driven, request_) is ErrorCode[error]
    assert written_sets(driven) == []


def test_the_last_voter_cannot_be_removed():
    driven = a_leader(VoterSet.of([a_node(1)]))
    assert asked(driven, RemoveVoterRequest(voter=a_node(1).key)) is ErrorCode.voter_not_found


@pytest.mark.parametrize("request_", [AddVoterRequest(voter=NEW), RemoveVoterRequest(voter=ReplicaKey(3, UUID(int=3)))])
def test_a_leader_changes_nothing_before_its_first_commit(request_):
    assert asked(a_leader(is_committed=False), request_) is ErrorCode.request_timed_out


@pytest.mark.parametrize("request_", [AddVoterRequest(voter=NEW), RemoveVoterRequest(voter=ReplicaKey(3, UUID(int=3)))])
def test_static_voters_cannot_be_changed(request_):
    driven = DrivenVoter(election=ElectionState(leader_epoch=EPOCH, voted_id=1))
    driven.grant(driven.newest(2, VoteRequest))
    fetch(driven, ReplicaKey(2))
    assert asked(driven, request_) is ErrorCode.unsupported_version


def test_one_change_waits_for_the_other():
    driven = a_leader()
    fetch(driven, NEW.key)
    assert asked(driven, AddVoterRequest(voter=NEW)) is None
    remove = RemoveVoterRequest(voter=ReplicaKey(3, UUID(int=3)))
    assert asked(driven, remove, request_id=2) is ErrorCode.request_timed_out
    tell_versions(driven)
    assert asked(driven, remove, request_id=3) is ErrorCode.request_timed_out
    assert driven.pass_time(2000).replies[1].error is ErrorCode.request_timed_out, "nobody fetched meanwhile"
    assert asked(driven, remove, request_id=4) is ErrorCode.request_timed_out, "it may still be committed"
    fetch(driven, NEW.key)
    fetch(driven, ReplicaKey(2, UUID(int=2)))
    assert asked(driven, remove, request_id=5) is None
    assert written_sets(driven)[-1] == {1, 2, 4}


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"kraft_versions": (0, 0)}, "invalid_request"),
        ({"kraft_versions": None}, "invalid_request"),
        ({"kraft_versions": (2, 3)}, "invalid_request"),
        ({"error": 35}, "request_timed_out"),
    ],
)
def test_a_new_voter_must_know_the_kraft_version(fields, error):
    driven = a_leader()
    fetch(driven, NEW.key)
    assert asked(driven, AddVoterRequest(voter=NEW)) is None
    tell_versions(driven, **fields)
    assert driven.replies[1].error is ErrorCode[error] and written_sets(driven) == []


def test_a_new_voter_that_does_not_answer_is_not_added():
    driven = a_leader()
    fetch(driven, NEW.key)
    assert asked(driven, AddVoterRequest(voter=NEW)) is None
    sent = driven.newest(4, VersionsRequest)
    assert sent.address == NEW.endpoints[LISTENER]
    driven.fail(sent)
    assert driven.replies[1].error is ErrorCode.request_timed_out
    assert asked(driven, AddVoterRequest(voter=NEW), request_id=2) is ErrorCode.request_timed_out, "a pause first"


@pytest.mark.parametrize("is_behind", [True, False])
def test_a_new_voter_must_be_at_the_end_of_the_log(is_behind):
    driven = a_leader()
    if is_behind:
        fetch(driven, NEW.key, offset=LOG_END)
        driven.step(RecordsProposed(proposal_id=1, records=bytes(build_batch([Record(value=b"x", timestamp_ms=0)]))))
    assert asked(driven, AddVoterRequest(voter=NEW)) is None
    tell_versions(driven)
    assert driven.replies[1].error is ErrorCode.request_timed_out and written_sets(driven) == []


def test_a_removed_voter_becomes_an_observer_and_does_not_count():
    driven = a_leader()
    assert asked(driven, RemoveVoterRequest(voter=ReplicaKey(3, UUID(int=3)))) is None
    fetch(driven, ReplicaKey(3, UUID(int=3)))
    assert 1 not in driven.replies
    fetch(driven, ReplicaKey(2, UUID(int=2)))
    assert driven.replies[1].error is ErrorCode.none
    progress = driven.voter.leading.progress
    assert set(progress.voters) == {1, 2} and list(progress.observers) == [(3, UUID(int=3))]


def test_a_leader_that_removes_itself_leads_until_that_is_committed():
    driven = a_leader()
    assert asked(driven, RemoveVoterRequest(voter=ReplicaKey(1, UUID(int=1)))) is None
    fetch(driven, ReplicaKey(2, UUID(int=2)))
    assert driven.voter.role is Role.LEADER and 1 not in driven.replies, "it does not count itself: one of two"
    fetch(driven, ReplicaKey(3, UUID(int=3)))
    assert driven.replies[1].error is ErrorCode.none and driven.voter.role is Role.RESIGNED
    preferred = driven.newest(2, EndEpochRequest).request.preferred
    assert preferred == (ReplicaKey(2, UUID(int=2)), ReplicaKey(3, UUID(int=3)))
    driven.pass_time(1500)
    assert (driven.voter.role, driven.voter.election.leader_epoch) == (Role.UNATTACHED, EPOCH + 1)
    driven.pass_time(60_000)
    assert driven.voter.role is Role.UNATTACHED, "it has no vote any more"


def test_a_leader_that_is_none_any_more_tells_who_waits():
    driven = a_leader()
    add(driven)
    driven.receive(BeginEpochRequest(epoch=EPOCH + 1, leader_id=2), request_id=2)
    assert driven.replies[1].error is ErrorCode.not_leader_or_follower and driven.voter.role is Role.FOLLOWER


def test_the_first_leader_of_a_new_quorum_copies_the_voters_into_the_log():
    driven = a_leader(voters_at=-1)
    (batch,) = driven.appended()
    kinds = [read_control_record(record)[0] for record in records_of(batch.records)]
    assert kinds == [ControlType.LEADER_CHANGE, ControlType.KRAFT_VERSION, ControlType.KRAFT_VOTERS]
    assert written_sets(driven) == [{1, 2, 3}] and driven.voter.history.latest_offset == LOG_END + 2


def test_a_leader_whose_address_is_new_writes_it_down():
    moved = VoterSet.of([a_node(1, port=1), a_node(2), a_node(3)])
    driven = a_leader(moved)
    assert written_sets(driven) == [{1, 2, 3}] and driven.voter.voters == THREE


def test_a_voter_whose_address_is_new_tells_the_leader_after_a_fetch_timeout():
    moved = VoterSet.of([a_node(1, port=1), a_node(2), a_node(3)])
    driven = DrivenVoter(election=ElectionState(leader_epoch=EPOCH, leader_id=2), voters=moved)
    driven.now_ms += 2000
    driven.answer(driven.newest(2, ReplicaFetchRequest), FetchAnswer, leader_id=2, high_watermark=1)
    sent = driven.sent[-1]
    assert sent.request == UpdateVoterRequest(epoch=EPOCH, voter=a_node(1))
    driven.answer(sent, QuorumAnswer, leader_id=2, error=ErrorCode.request_timed_out)
    assert driven.stopped is None and driven.voter.role is Role.FOLLOWER


def test_a_leader_writes_what_a_voter_tells_of_itself():
    driven = a_leader()
    told = replace(a_node(2, port=7), kraft_versions=(0, 2))
    assert driven.receive(UpdateVoterRequest(epoch=EPOCH, voter=told)).error is ErrorCode.none
    assert driven.voter.voters.nodes[2] == told and len(written_sets(driven)) == 1
    fetch(driven, ReplicaKey(3, UUID(int=3)))
    fetch(driven, ReplicaKey(2, UUID(int=2)))
    assert driven.receive(UpdateVoterRequest(epoch=EPOCH, voter=told), request_id=2).error is ErrorCode.none
    assert len(written_sets(driven)) == 1, "nothing is new"


@pytest.mark.parametrize(
    ("voter", "error"),
    [
        (a_node(2, directory=9), "voter_not_found"),
        (NEW, "voter_not_found"),
        (replace(a_node(2), kraft_versions=(0, 0)), "invalid_request"),
        (replace(a_node(2), kraft_versions=(1, 0)), "invalid_request"),
        (replace(a_node(2), endpoints={}), "invalid_request"),
        (replace(a_node(2), directory_id=None), "invalid_request"),
    ],
)
def test_a_voter_that_tells_nonsense_is_refused(voter, error):
    driven = a_leader()
    assert driven.receive(UpdateVoterRequest(epoch=EPOCH, voter=voter)).error is ErrorCode[error]
    assert written_sets(driven) == [] and driven.stopped is None


def test_proposals_go_on_behind_the_record_of_a_change():
    driven = a_leader()
    assert asked(driven, RemoveVoterRequest(voter=ReplicaKey(3, UUID(int=3)))) is None
    appended = [each for each in driven.effects if isinstance(each, VotersAppended)]
    assert [each.until_offset for each in appended] == [LOG_END + 2]
    driven.step(RecordsProposed(proposal_id=1, records=bytes(build_batch([Record(value=b"x", timestamp_ms=0)]))))
    (accepted,) = [each for each in driven.effects if isinstance(each, RecordsAccepted)]
    assert accepted.from_offset == LOG_END + 2


# Who stands for election, and who is asked


def test_a_voter_that_leads_no_majority_of_its_latest_set_is_not_elected():
    driven = DrivenVoter(election=ElectionState(leader_epoch=EPOCH, voted_id=1), voters=THREE)
    sent = driven.newest(2, VoteRequest)
    assert (sent.request.voter_id, sent.request.voter_directory_id) == (2, UUID(int=2))
    driven.answer(sent, ChangeAnswer, leader_epoch=EPOCH, error=ErrorCode.invalid_voter_key)
    assert driven.voter.role is Role.CANDIDATE


def test_who_is_asked_as_the_node_that_it_was_before_its_disk_was_lost_does_not_vote():
    driven = DrivenVoter(voters=THREE)
    request = VoteRequest(
        epoch=EPOCH, candidate_id=2, last_epoch=LAST_EPOCH, last_offset=LOG_END, is_pre_vote=False, voter_id=1,
        voter_directory_id=UUID(int=99),
    )  # fmt: skip
    assert driven.receive(request).error is ErrorCode.invalid_voter_key
    assert driven.receive(replace(request, voter_directory_id=UUID(int=1)), request_id=2).is_granted


def test_a_replica_with_another_directory_has_no_vote_and_never_stands():
    wiped = VoterSet.of([a_node(1, directory=55), a_node(2), a_node(3)])
    driven = DrivenVoter(voters=wiped)
    driven.pass_time(60_000)
    assert driven.voter.role is Role.UNATTACHED
    assert all(each.to != 1 for each in driven.sent), "its own id is that of the voter it was"


def test_a_removed_voter_stands_while_its_removal_may_not_be_committed():
    """Two voters, of which the leader removes itself, and crashes with the only copy of that: the other one lacks it,
    and needs the vote of this node, which has the longer log and refuses."""
    driven = a_leader(VoterSet.of([a_node(1), a_node(2)]))
    assert asked(driven, RemoveVoterRequest(voter=a_node(1).key)) is None
    driven.pass_time(3000)  # nobody fetches
    assert driven.voter.role is Role.RESIGNED
    driven.pass_time(1500).pass_time(1500)
    sent = driven.newest(2, VoteRequest)
    assert sent.request.is_pre_vote and driven.voter.role is Role.PROSPECTIVE
    driven.grant(sent)
    driven.grant(driven.newest(2, VoteRequest))
    assert driven.voter.role is Role.LEADER, "by the one voter of its latest set"
    fetch(driven, a_node(2).key)
    assert driven.voter.role is Role.RESIGNED, "now it is committed"


# Observers that join


def test_a_node_without_any_voters_asks_its_bootstrap_servers_for_the_leader():
    places = (BrokerAddress(host="node-2", port=9093), BrokerAddress(host="node-3", port=9093))
    driven = DrivenVoter(voters=VoterSet(), bootstrap=places, is_written=False, election=ElectionState())
    first = driven.sent[-1]
    assert first.address == places[0] and first.to < -1
    driven.answer(first, FetchAnswer, error=ErrorCode.not_leader_or_follower, leader_id=3, leader_epoch=7)
    assert driven.voter.role is Role.UNATTACHED and driven.voter.election.leader_epoch == 7, "it is unknown where 3 is"
    second = driven.sent[-1]
    assert second.address == places[1]
    driven.answer(second, FetchAnswer, leader_id=3, leader_epoch=7, endpoints={3: places[1]})
    assert driven.voter.role is Role.FOLLOWER and driven.sent[-1].to == 3 and driven.sent[-1].address == places[1]


def an_observer(voters, **others):
    driven = DrivenVoter(voters=voters, node_id=4, election=ElectionState(leader_epoch=EPOCH, leader_id=2), **others)
    driven.now_ms += 2000
    driven.answer(driven.newest(2, ReplicaFetchRequest), FetchAnswer, leader_id=2, high_watermark=LOG_END)
    return driven


def test_an_observer_may_ask_for_its_vote_by_itself():
    driven = an_observer(THREE, joins_by_itself=True)
    sent = driven.sent[-1]
    assert sent.to == 2 and sent.request == AddVoterRequest(voter=a_node(4), is_answered_when_committed=False)
    driven.answer(sent, ChangeAnswer, leader_epoch=-1, error=ErrorCode.request_timed_out)
    assert driven.voter.role is Role.FOLLOWER and driven.stopped is None
    driven.now_ms += 20
    driven.step(RecordsProposed(proposal_id=1, records=b""))
    assert isinstance(driven.sent[-1].request, ReplicaFetchRequest), "it fetches on, and asks again later"
    assert not [each for each in an_observer(THREE).sent if isinstance(each.request, AddVoterRequest)]


def test_a_node_that_joins_by_itself_first_removes_the_replica_that_it_was():
    driven = an_observer(VoterSet.of([a_node(1), a_node(2), a_node(4, directory=44)]), joins_by_itself=True)
    assert driven.sent[-1].request == RemoveVoterRequest(voter=ReplicaKey(4, UUID(int=44)))


def test_an_observer_gives_pre_votes_once_its_leader_is_silent():
    """It may be a voter by a record that it lacks: the leader that wrote it is gone, and others need this vote."""
    driven = an_observer(THREE)
    asks = VoteRequest(epoch=EPOCH, candidate_id=3, last_epoch=LAST_EPOCH, last_offset=LOG_END, is_pre_vote=True)
    assert not driven.receive(asks).is_granted
    driven.pass_time(2300)
    assert driven.receive(asks, request_id=2).is_granted and driven.voter.role is Role.FOLLOWER


def test_an_observer_becomes_a_voter_by_the_record_that_it_fetches():
    leader = a_leader()
    add(leader)
    fetch(leader, NEW.key, offset=LOG_END + 1)
    (sent,) = [each for each in leader.effects if isinstance(each, SendRecords) and each.request_id == 904]
    assert sent.from_offset == LOG_END + 1
    driven = an_observer(THREE)
    leader_change, voters = (each.records for each in leader.appended())
    fetched = driven.newest(2, ReplicaFetchRequest)
    driven.answer(fetched, FetchAnswer, leader_id=2, high_watermark=LOG_END, records=leader_change + voters)
    assert set(driven.voter.voters.nodes) == {1, 2, 3, 4}
    driven.pass_time(2000).pass_time(2300)
    assert driven.voter.role is Role.PROSPECTIVE, "now it misses the leader"
