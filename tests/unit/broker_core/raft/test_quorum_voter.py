import pytest
from support.quorum.driven_voter import EPOCH, LAST_EPOCH, LOG_END, VOTERS, DrivenVoter

from broker_core.model.client_settings import BrokerAddress
from broker_core.model.limits import MAX_PARKED_QUORUM_FETCHES, MAX_WAITING_QUORUM_EVENTS
from broker_core.raft.observer_events import (
    AppendBatches,
    ElectionSaved,
    FetchAnswer,
    HighWatermarkAdvanced,
    QuorumAnswer,
    QuorumLeaderChanged,
    SaveElection,
    SnapshotAnswer,
    TruncateLog,
)
from broker_core.raft.quorum_control_records import read_control_record
from broker_core.raft.quorum_values import ElectionState, SnapshotId
from broker_core.raft.quorum_voter import QuorumVoter
from broker_core.raft.voter_events import (
    BeginEpochRequest,
    EndEpochRequest,
    LogFlushed,
    RecordsAccepted,
    RecordsProposed,
    RecordsRefused,
    ReplicaFetchRequest,
    RequestReceived,
    ResignRequested,
    SendRecords,
    VoteAnswer,
    VoteRequest,
)
from broker_core.raft.voter_set import ReplicaKey
from broker_core.raft.voter_table import Role
from broker_core.record.batch_builder import build_batch
from broker_core.record.batch_header import read_header
from broker_core.record.batch_reader import Record, records_of
from broker_core.record.control_records import ControlType

FETCH_TIMEOUT_MS, ELECTION_MS = 2250, 1500


def a_leader(**arguments):
    driven = DrivenVoter(election=ElectionState(leader_epoch=EPOCH, voted_id=1), **arguments)
    return driven.grant(driven.newest(2, VoteRequest))


def a_follower(leader_id=2):
    return DrivenVoter(election=ElectionState(leader_epoch=EPOCH, leader_id=leader_id))


def a_fetch(offset, *, replica_id=2, epoch=EPOCH, last_epoch=EPOCH, high_watermark=-1, max_wait_ms=500):
    return ReplicaFetchRequest(
        epoch=epoch, replica_id=replica_id, fetch_offset=offset, last_fetched_epoch=last_epoch,
        high_watermark=high_watermark, max_wait_ms=max_wait_ms, max_bytes=1000,
    )  # fmt: skip


def a_vote(*, last_epoch, is_pre_vote):
    return VoteRequest(epoch=EPOCH, candidate_id=3, last_epoch=last_epoch, last_offset=9, is_pre_vote=is_pre_vote)


def a_batch(count=1, *, base_offset=0, epoch=-1):
    records = [Record(value=b"x", timestamp_ms=0)] * count
    return bytes(build_batch(records, base_offset=base_offset, leader_epoch=epoch))


def watermarks(driven):
    return [effect.high_watermark for effect in driven.effects if isinstance(effect, HighWatermarkAdvanced)]


def test_an_election_goes_from_pre_votes_to_votes_to_a_leader_change():
    driven = DrivenVoter().pass_time(ELECTION_MS)
    asked = driven.newest(2, VoteRequest)
    assert asked.request.is_pre_vote and asked.request.epoch == EPOCH and driven.saved == []
    driven.grant(asked)
    assert driven.saved == [
        ElectionState(leader_epoch=EPOCH + 1, voted_id=1, voted_directory_id=driven.saved[0].voted_directory_id)
    ]
    asked = driven.newest(3, VoteRequest)
    assert not asked.request.is_pre_vote and asked.request.epoch == EPOCH + 1
    assert (asked.request.last_epoch, asked.request.last_offset) == (LAST_EPOCH, LOG_END)
    driven.grant(asked)
    assert driven.voter.role is Role.LEADER
    assert driven.saved[-1] == ElectionState(leader_epoch=EPOCH + 1, leader_id=1)
    (appended,) = driven.appended()
    header = read_header(appended.records)
    assert (header.base_offset, header.partition_leader_epoch, header.is_control) == (LOG_END, EPOCH + 1, True)
    ((kind, message),) = map(read_control_record, records_of(appended.records))
    assert kind is ControlType.LEADER_CHANGE and message.leader_id == 1
    assert [each.voter_id for each in message.voters] == [1, 2, 3]
    assert [each.voter_id for each in message.granting_voters] == [1, 3]
    assert {each.to for each in driven.sent if isinstance(each.request, BeginEpochRequest)} == {2, 3}


def test_a_quorum_of_one_leads_at_once_and_commits_with_its_own_flush():
    driven = DrivenVoter(voters={1: VOTERS[1]})
    assert driven.voter.role is Role.LEADER
    assert watermarks(driven) == [LOG_END + 1]
    driven.step(RecordsProposed(proposal_id=1, records=a_batch(3)))
    assert watermarks(driven)[-1] == LOG_END + 4


def test_nothing_leaves_and_nothing_is_judged_while_an_election_is_being_saved():
    driven = DrivenVoter()
    vote = VoteRequest(epoch=EPOCH, candidate_id=3, last_epoch=LAST_EPOCH, last_offset=LOG_END, is_pre_vote=False)
    voter = driven.voter
    effects = voter.step(RequestReceived(request_id=1, request=vote), 10)
    assert [type(effect) for effect in effects] == [SaveElection]
    other = VoteRequest(epoch=EPOCH, candidate_id=2, last_epoch=LAST_EPOCH, last_offset=LOG_END, is_pre_vote=False)
    assert voter.step(RequestReceived(request_id=2, request=other), 20) == []
    assert voter.next_timer_ms is None
    answers = [effect for effect in voter.step(ElectionSaved(), 30) if hasattr(effect, "answer")]
    assert [(each.request_id, each.answer.is_granted) for each in answers] == [(1, True), (2, False)]


def test_a_leader_commits_only_past_its_own_first_record():
    driven = a_leader()
    driven.receive(a_fetch(LOG_END, last_epoch=LAST_EPOCH))
    assert watermarks(driven) == [], "records of the epoch before were counted"
    driven.receive(a_fetch(LOG_END + 1), request_id=2)
    assert watermarks(driven) == [LOG_END + 1]
    assert driven.effects[-1] == QuorumLeaderChanged(leader_id=1, leader_epoch=EPOCH)


def test_a_leader_counts_its_own_log_only_when_it_is_flushed():
    driven = a_leader(is_flushing=False)
    driven.receive(a_fetch(LOG_END + 1))
    assert watermarks(driven) == []
    driven.step(LogFlushed())
    assert watermarks(driven) == [LOG_END + 1]


def test_a_proposal_is_placed_accepted_and_sent_to_who_waits():
    driven = a_leader()
    driven.receive(a_fetch(LOG_END + 1), request_id=7)
    driven.receive(a_fetch(LOG_END + 1, high_watermark=LOG_END + 1), request_id=8)
    assert driven.replies[7].high_watermark == LOG_END + 1 and 8 not in driven.replies
    driven.step(RecordsProposed(proposal_id=3, records=a_batch(2)))
    header = read_header(driven.appended()[-1].records)
    assert (header.base_offset, header.partition_leader_epoch) == (LOG_END + 1, EPOCH)
    accepted = [effect for effect in driven.effects if isinstance(effect, RecordsAccepted)]
    assert [(each.proposal_id, each.from_offset, each.until_offset) for each in accepted] == [(3, 11, 13)]
    sent = [effect for effect in driven.effects if isinstance(effect, SendRecords)]
    assert [(each.request_id, each.from_offset, each.until_offset) for each in sent] == [(8, 11, 13)]


def test_a_parked_fetch_is_answered_when_its_time_is_over():
    driven = a_leader()
    driven.receive(a_fetch(LOG_END + 1, replica_id=3))
    driven.receive(a_fetch(LOG_END + 1, high_watermark=LOG_END + 1), request_id=2)
    assert 2 not in driven.replies and driven.voter.next_timer_ms <= 500
    driven.pass_time(500)
    assert driven.replies[2].records == b"" and driven.replies[2].error == 0


def test_who_does_not_lead_refuses_a_proposal():
    driven = a_follower().step(RecordsProposed(proposal_id=3, records=a_batch()))
    assert driven.effects[-1] == RecordsRefused(proposal_id=3)


def test_a_leader_that_no_majority_fetches_from_resigns_and_raises_the_epoch():
    driven = a_leader()
    driven.receive(a_fetch(LOG_END + 1, max_wait_ms=0))
    driven.pass_time(2000).receive(a_fetch(LOG_END + 1, max_wait_ms=0), request_id=2)
    driven.pass_time(2999)
    assert driven.voter.role is Role.LEADER
    driven.pass_time(1)
    assert driven.voter.role is Role.RESIGNED
    assert driven.effects[-1] == QuorumLeaderChanged(leader_id=-1, leader_epoch=EPOCH)
    assert driven.newest(2, EndEpochRequest).request.preferred == ((2, None), (3, None)), (
        "the one with the longest log comes first"
    )
    driven.pass_time(ELECTION_MS)
    assert (driven.voter.role, driven.voter.election) == (Role.UNATTACHED, ElectionState(leader_epoch=EPOCH + 1))


def test_parked_fetches_of_a_leader_that_resigns_are_refused():
    driven = a_leader()
    driven.receive(a_fetch(LOG_END + 1), request_id=2)
    driven.receive(a_fetch(LOG_END + 1, high_watermark=LOG_END + 1), request_id=3)
    driven.step(ResignRequested())
    assert driven.replies[3].error.name == "not_leader_or_follower"


def test_a_follower_appends_flushes_and_only_then_fetches_on():
    driven = a_follower()
    driven.is_flushing = False
    sent = driven.newest(2, ReplicaFetchRequest)
    records = a_batch(2, base_offset=LOG_END, epoch=EPOCH)
    driven.answer(sent, FetchAnswer, leader_id=2, records=records, high_watermark=LOG_END + 1)
    assert isinstance(driven.appended()[-1], AppendBatches) and len(driven.sent) == 1 and watermarks(driven) == []
    driven.step(LogFlushed())
    assert driven.sent[-1].request.fetch_offset == LOG_END + 2 and watermarks(driven) == [LOG_END + 1]


def test_a_follower_truncates_where_the_logs_part():
    driven = a_follower()
    driven.answer(driven.sent[-1], FetchAnswer, leader_id=2, diverging=(LAST_EPOCH, 7))
    assert TruncateLog(end_offset=7) in driven.effects
    assert driven.sent[-1].request.fetch_offset == 7


def test_a_follower_stops_rather_than_truncate_what_is_committed():
    driven = a_follower()
    driven.answer(driven.sent[-1], FetchAnswer, leader_id=2, high_watermark=8)
    driven.answer(driven.sent[-1], FetchAnswer, leader_id=2, diverging=(LAST_EPOCH, 7))
    assert "below the high watermark 8" in driven.stopped
    assert driven.step(ResignRequested()).voter.next_timer_ms is None


def test_a_snapshot_is_fetched_in_pieces_and_installed():
    driven = a_follower()
    snapshot_id = SnapshotId(end_offset=20, epoch=4)
    driven.answer(driven.sent[-1], FetchAnswer, leader_id=2, snapshot_id=snapshot_id)
    assert driven.sent[-1].request.snapshot_id == snapshot_id
    driven.answer(driven.sent[-1], SnapshotAnswer, leader_id=2, size_bytes=4, position=0, chunk=b"ab")
    assert driven.sent[-1].request.position == 2
    driven.answer(driven.sent[-1], SnapshotAnswer, leader_id=2, size_bytes=4, position=2, chunk=b"cd")
    assert driven.voter.awaited.name == "INSTALLATION"


def test_a_follower_without_its_leader_asks_for_pre_votes_and_follows_it_again_if_they_are_refused():
    driven = a_follower().pass_time(FETCH_TIMEOUT_MS)
    assert driven.voter.role is Role.PROSPECTIVE and driven.voter.election.leader_id == 2
    for node_id in (2, 3):
        driven.answer(driven.newest(node_id, VoteRequest), VoteAnswer, leader_id=2, is_granted=False)
    assert (driven.voter.role, driven.saved) == (Role.FOLLOWER, [])


def test_while_the_leader_does_not_answer_another_voter_is_asked():
    driven = a_follower()
    driven.fail(driven.sent[-1])
    assert driven.sent[-1].to == 3
    answer = {"leader_id": 3, "leader_epoch": EPOCH + 2, "error": 6}
    driven.answer(driven.sent[-1], FetchAnswer, **answer)
    assert driven.voter.election == ElectionState(leader_epoch=EPOCH + 2, leader_id=3)
    assert driven.sent[-1].to == 3


def test_followers_of_a_leader_that_is_gone_stand_at_once_one_after_the_other():
    first = a_follower(leader_id=2)
    first.fail(first.newest(2, ReplicaFetchRequest), is_gone=True)
    assert first.voter.role is Role.PROSPECTIVE
    second = DrivenVoter(node_id=3, election=ElectionState(leader_epoch=EPOCH, leader_id=2))
    second.fail(second.newest(2, ReplicaFetchRequest), is_gone=True)
    assert second.voter.role is Role.FOLLOWER
    second.pass_time(125)
    assert second.voter.role is Role.PROSPECTIVE


def test_another_voter_that_is_gone_is_no_reason_for_an_election():
    driven = a_follower()
    driven.fail(driven.sent[-1])
    assert driven.sent[-1].to == 3
    driven.fail(driven.sent[-1], is_gone=True)
    driven.pass_time(200)
    assert driven.voter.role is Role.FOLLOWER


def test_the_first_of_the_preferred_voters_stands_at_once_and_the_next_after_a_pause():
    first, second = a_follower(), a_follower()
    first.receive(EndEpochRequest(epoch=EPOCH, leader_id=2, preferred=(ReplicaKey(1), ReplicaKey(3))))
    second.receive(EndEpochRequest(epoch=EPOCH, leader_id=2, preferred=(ReplicaKey(3), ReplicaKey(1))))
    assert (first.voter.role, second.voter.role) == (Role.PROSPECTIVE, Role.FOLLOWER)
    second.pass_time(500)
    assert second.voter.role is Role.PROSPECTIVE


def test_a_voter_that_knows_no_pre_votes_is_asked_for_a_vote():
    driven = DrivenVoter().pass_time(ELECTION_MS)
    driven.answer(driven.newest(2, VoteRequest), VoteAnswer, error=35)
    assert driven.voter.role is Role.CANDIDATE


def test_a_rejected_candidate_waits_and_asks_for_pre_votes_again():
    driven = DrivenVoter(election=ElectionState(leader_epoch=EPOCH, voted_id=1))
    for node_id in (2, 3):
        driven.answer(driven.newest(node_id, VoteRequest), VoteAnswer, is_granted=False)
    assert driven.voter.role is Role.CANDIDATE
    driven.pass_time(ELECTION_MS)
    assert (driven.voter.role, driven.voter.election.leader_epoch) == (Role.PROSPECTIVE, EPOCH)


def test_a_restarted_leader_has_resigned_and_a_restarted_candidate_goes_on():
    assert DrivenVoter(election=ElectionState(leader_epoch=EPOCH, leader_id=1)).voter.role is Role.RESIGNED
    assert DrivenVoter(election=ElectionState(leader_epoch=EPOCH, voted_id=1)).voter.role is Role.CANDIDATE
    voted = DrivenVoter(election=ElectionState(leader_epoch=EPOCH, voted_id=3))
    assert (voted.voter.role, voted.voter.election.voted_id) == (Role.UNATTACHED, 3)


def test_a_file_that_is_older_than_the_log_counts_for_nothing():
    driven = DrivenVoter(election=ElectionState(leader_epoch=LAST_EPOCH - 1, voted_id=3))
    assert driven.saved == [ElectionState(leader_epoch=LAST_EPOCH)]


def test_a_node_without_a_vote_fetches_and_never_stands_for_election():
    driven = DrivenVoter(node_id=9, election=ElectionState(leader_epoch=EPOCH, leader_id=2))
    driven.pass_time(60_000)
    assert driven.voter.role is Role.FOLLOWER
    assert not [each for each in driven.sent if isinstance(each.request, VoteRequest)]


@pytest.mark.parametrize(
    ("request_", "cluster_id", "error"),
    [
        (a_fetch(0), "another", "inconsistent_cluster_id"),
        (BeginEpochRequest(epoch=EPOCH, leader_id=2, voter_id=3), "cluster", "invalid_voter_key"),
        (BeginEpochRequest(epoch=EPOCH, leader_id=1), "cluster", "invalid_request"),
        (BeginEpochRequest(epoch=-1, leader_id=2), "cluster", "invalid_request"),
        (a_vote(last_epoch=EPOCH, is_pre_vote=False), None, "invalid_request"),
        (a_vote(last_epoch=EPOCH + 1, is_pre_vote=True), None, "invalid_request"),
    ],
)  # fmt: skip
def test_a_request_that_nobody_could_send_is_refused(request_, cluster_id, error):
    driven = DrivenVoter()
    assert driven.receive(request_, cluster_id=cluster_id).error.name == error


@pytest.mark.parametrize("error", [31, 42])
def test_a_quorum_that_refuses_this_node_stops_it(error):
    driven = DrivenVoter()
    driven.answer(driven.sent[-1], QuorumAnswer, error=error)
    assert driven.stopped


def test_two_leaders_in_an_epoch_stop_a_node():
    driven = a_follower()
    driven.answer(driven.sent[-1], FetchAnswer, leader_id=3)
    assert driven.stopped == f"epoch {EPOCH} has two leaders, 2 and 3"


def test_a_leader_answers_where_a_replicas_log_parts_from_its_own():
    driven = a_leader()
    assert driven.receive(a_fetch(LOG_END + 5, last_epoch=LAST_EPOCH)).diverging == (LAST_EPOCH, LOG_END)
    assert driven.receive(a_fetch(3, last_epoch=LAST_EPOCH - 1), request_id=2).diverging == (LAST_EPOCH - 1, 0)
    assert driven.voter.leading.progress.voters[2].log_end_offset == -1, "a fetch that diverges acknowledges nothing"


def test_a_voter_of_a_lone_address_book_is_not_needed_to_follow():
    voters = {2: BrokerAddress(host="node-2", port=9093)}
    driven = DrivenVoter(node_id=9, voters=voters)
    assert isinstance(driven.voter, QuorumVoter) and driven.sent[-1].to == 2


def test_so_many_events_wait_while_something_is_saved():
    voter = DrivenVoter().voter
    vote = VoteRequest(epoch=EPOCH, candidate_id=3, last_epoch=LAST_EPOCH, last_offset=LOG_END, is_pre_vote=False)
    voter.step(RequestReceived(request_id=0, request=vote), 10)
    for number in range(1, MAX_WAITING_QUORUM_EVENTS):  # the vote itself waits, too
        assert voter.step(RequestReceived(request_id=number, request=vote), 10) == []
    assert voter.step(RequestReceived(request_id=-1, request=vote), 10) == []
    assert voter.step(RecordsProposed(proposal_id=7, records=b""), 10) == [RecordsRefused(proposal_id=7)]
    answered = {effect.request_id for effect in voter.step(ElectionSaved(), 10) if hasattr(effect, "answer")}
    assert answered == set(range(MAX_WAITING_QUORUM_EVENTS))


def test_so_many_fetches_are_parked_and_one_more_is_answered():
    driven = a_leader()
    driven.receive(a_fetch(LOG_END + 1))
    for number in range(2, MAX_PARKED_QUORUM_FETCHES + 3):
        driven.receive(a_fetch(LOG_END + 1, high_watermark=LOG_END + 1), request_id=number)
    assert driven.replies.keys() & set(range(2, MAX_PARKED_QUORUM_FETCHES + 3)) == {MAX_PARKED_QUORUM_FETCHES + 2}


@pytest.mark.parametrize("epoch", [EPOCH, EPOCH + 1])
def test_a_leader_that_nobody_can_find_is_acknowledged_and_not_followed(epoch):
    driven = DrivenVoter()
    assert driven.receive(BeginEpochRequest(epoch=epoch, leader_id=8)).error == 0
    assert (driven.voter.role, driven.voter.election.leader_epoch) == (Role.UNATTACHED, epoch)
    place = BrokerAddress(host="node-8", port=1)
    assert driven.receive(BeginEpochRequest(epoch=epoch, leader_id=8, endpoints={"CONTROLLER": place}), request_id=2)
    assert driven.voter.role is Role.FOLLOWER and driven.sent[-1].address == place
