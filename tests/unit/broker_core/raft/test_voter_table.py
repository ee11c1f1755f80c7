"""Every role of a voter with every request of an older, the same and a newer epoch, beside Kafka 4.3.1's rules."""

import itertools
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from support.quorum.driven_voter import EPOCH, LAST_EPOCH, LISTENER, LOG_END, VOTERS, DrivenVoter

from broker_core.raft.observer_events import FetchAnswer, QuorumAnswer
from broker_core.raft.quorum_values import ElectionState, SnapshotId
from broker_core.raft.voter_events import (
    AddVoterRequest,
    BeginEpochRequest,
    EndEpochRequest,
    RemoveVoterRequest,
    ReplicaFetchRequest,
    SnapshotFetchRequest,
    UpdateVoterRequest,
    VoteAnswer,
    VoteRequest,
)
from broker_core.raft.voter_set import ReplicaKey, VoterNode
from broker_core.raft.voter_table import VALID_PREDECESSORS, RequestKind, Role, reaction

SELF, LEADER, OTHER = 1, 2, 3


def unattached():
    return DrivenVoter()


def prospective():
    return DrivenVoter().pass_time(1500)


def candidate():
    return DrivenVoter(election=ElectionState(leader_epoch=EPOCH, voted_id=SELF))


def follower():
    return DrivenVoter(election=ElectionState(leader_epoch=EPOCH, leader_id=LEADER))


def leader():
    driven = candidate()
    return driven.grant(driven.newest(LEADER, VoteRequest))


def resigned():
    return DrivenVoter(election=ElectionState(leader_epoch=EPOCH, leader_id=SELF))


IN_ROLE = {
    Role.UNATTACHED: unattached, Role.PROSPECTIVE: prospective, Role.CANDIDATE: candidate, Role.FOLLOWER: follower,
    Role.LEADER: leader, Role.RESIGNED: resigned,
}  # fmt: skip


def a_request(asked, epoch, *, leader_id=LEADER, last_epoch=LAST_EPOCH, last_offset=LOG_END):
    match asked:
        case RequestKind.PRE_VOTE | RequestKind.VOTE:
            return VoteRequest(
                epoch=epoch, candidate_id=OTHER, last_epoch=last_epoch, last_offset=last_offset,
                is_pre_vote=asked is RequestKind.PRE_VOTE, voter_id=SELF,
            )  # fmt: skip
        case RequestKind.BEGIN_EPOCH:
            return BeginEpochRequest(epoch=epoch, leader_id=leader_id, voter_id=SELF)
        case RequestKind.END_EPOCH:
            return EndEpochRequest(epoch=epoch, leader_id=leader_id, preferred=(ReplicaKey(SELF), ReplicaKey(OTHER)))
        case RequestKind.FETCH:
            return ReplicaFetchRequest(
                epoch=epoch, replica_id=OTHER, fetch_offset=LOG_END, last_fetched_epoch=LAST_EPOCH,
                high_watermark=-1, max_wait_ms=0, max_bytes=1000,
            )  # fmt: skip
        case RequestKind.FETCH_SNAPSHOT:
            snapshot_id = SnapshotId(end_offset=5, epoch=4)
            return SnapshotFetchRequest(
                epoch=epoch, replica_id=OTHER, snapshot_id=snapshot_id, position=0, max_bytes=1000
            )
    voter = VoterNode(node_id=OTHER, directory_id=UUID(int=OTHER), endpoints={LISTENER: VOTERS[OTHER]})
    match asked:
        case RequestKind.UPDATE_VOTER:
            return UpdateVoterRequest(epoch=epoch, voter=voter)
        case RequestKind.ADD_VOTER:
            return AddVoterRequest(voter=voter)
        case RequestKind.REMOVE_VOTER:
            return RemoveVoterRequest(voter=voter.key)


def outcome(driven, request):
    """What is answered, and what the node is then; `saved` if its file was written before the answer."""
    driven.saved.clear()
    driven.effects.clear()
    answer = driven.receive(request)
    if driven.stopped is not None:
        return "stops"
    if answer is None:
        (served,) = [effect for effect in driven.effects if hasattr(effect, "answer")]
        words = "records" if served.answer.error == 0 else str(served.answer.error.name)
    elif answer.error:
        words = answer.error.name
    elif isinstance(answer, VoteAnswer):
        words = "yes" if answer.is_granted else "no"
    else:
        words = "ok"
    election = driven.voter.election
    saved = ", saved" if driven.saved else ""
    return f"{words}: {driven.voter.role.name.lower()} {election.leader_epoch}{saved}"


SAME = {
    # pre-vote, vote, begin epoch, end epoch, fetch, fetch snapshot; changes of the voters follow
    Role.UNATTACHED: (
        "yes: unattached 5", "yes: unattached 5, saved", "ok: follower 5, saved", "ok: prospective 5, saved",
        "not_leader_or_follower: unattached 5", "not_leader_or_follower: unattached 5",
    ),
    Role.PROSPECTIVE: (
        "yes: prospective 5", "yes: prospective 5, saved", "ok: follower 5, saved", "ok: prospective 5, saved",
        "not_leader_or_follower: prospective 5", "not_leader_or_follower: prospective 5",
    ),
    Role.CANDIDATE: (
        "yes: candidate 5", "no: candidate 5", "ok: follower 5, saved", "ok: prospective 5, saved",
        "not_leader_or_follower: candidate 5", "not_leader_or_follower: candidate 5",
    ),
    Role.FOLLOWER: (
        "yes: follower 5", "no: follower 5", "ok: follower 5", "ok: prospective 5",
        "not_leader_or_follower: follower 5", "not_leader_or_follower: follower 5",
    ),
    Role.LEADER: (
        "no: leader 5", "no: leader 5", "stops", "stops", "records: leader 5", "snapshot_not_found: leader 5",
    ),
    Role.RESIGNED: (
        "yes: resigned 5", "no: resigned 5", "stops", "stops",
        "not_leader_or_follower: resigned 5", "not_leader_or_follower: resigned 5",
    ),
}  # fmt: skip
CHANGES = (RequestKind.UPDATE_VOTER, RequestKind.ADD_VOTER, RequestKind.REMOVE_VOTER)
for each_role in Role:
    # A leader of three static voters that has committed nothing yet cannot change them.
    refusal = "request_timed_out" if each_role is Role.LEADER else "not_leader_or_follower"
    SAME[each_role] += (f"{refusal}: {each_role.name.lower()} 5",) * len(CHANGES)
NEWER = (
    "yes: unattached 6, saved", "yes: unattached 6, saved", "ok: follower 6, saved", "ok: prospective 6, saved",
    "unknown_leader_epoch", "unknown_leader_epoch", "unknown_leader_epoch",
)  # fmt: skip
WITH_EPOCH = [asked for asked in RequestKind if asked not in (RequestKind.ADD_VOTER, RequestKind.REMOVE_VOTER)]


@pytest.mark.parametrize(("role", "asked"), list(itertools.product(Role, RequestKind)))
def test_a_request_of_the_own_epoch_is_answered_by_role(role, asked):
    expected = dict(zip(RequestKind, SAME[role], strict=True))[asked]
    assert outcome(IN_ROLE[role](), a_request(asked, EPOCH)) == expected


@pytest.mark.parametrize(("role", "asked"), list(itertools.product(Role, WITH_EPOCH)))
def test_a_request_of_a_newer_epoch_changes_the_role_first_except_a_fetch(role, asked):
    expected = dict(zip(WITH_EPOCH, NEWER, strict=True))[asked]
    request = a_request(asked, EPOCH + 1)
    if role is Role.LEADER and asked in (RequestKind.PRE_VOTE, RequestKind.VOTE):
        request = a_request(asked, EPOCH + 1, last_epoch=EPOCH, last_offset=LOG_END + 1)  # it has a record more
    found = outcome(IN_ROLE[role](), request)
    assert found == (expected if ":" in expected else f"{expected}: {role.name.lower()} {EPOCH}")


@pytest.mark.parametrize(("role", "asked"), list(itertools.product(Role, WITH_EPOCH)))
def test_a_request_of_an_older_epoch_is_fenced(role, asked):
    request = a_request(asked, EPOCH - 1, last_epoch=EPOCH - 2)
    assert outcome(IN_ROLE[role](), request) == f"fenced_leader_epoch: {role.name.lower()} {EPOCH}"


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("asked", [RequestKind.PRE_VOTE, RequestKind.VOTE])
@pytest.mark.parametrize(("last_epoch", "last_offset"), [(LAST_EPOCH, LOG_END - 1), (LAST_EPOCH - 1, LOG_END + 5)])
def test_nobody_votes_for_a_log_that_lacks_something(role, asked, last_epoch, last_offset):
    driven = IN_ROLE[role]()
    answer = driven.receive(a_request(asked, EPOCH, last_epoch=last_epoch, last_offset=last_offset))
    assert not answer.is_granted and driven.voter.role is role


def test_a_given_vote_is_given_again_to_the_same_candidate_and_to_no_other():
    driven = unattached()
    assert outcome(driven, a_request(RequestKind.VOTE, EPOCH)) == "yes: unattached 5, saved"
    assert driven.receive(a_request(RequestKind.VOTE, EPOCH), request_id=2).is_granted
    other = VoteRequest(epoch=EPOCH, candidate_id=2, last_epoch=LAST_EPOCH, last_offset=99, is_pre_vote=False)
    assert not driven.receive(other, request_id=3).is_granted


def test_a_follower_that_heard_of_its_leader_refuses_pre_votes_until_the_leader_goes():
    driven = follower()
    driven.answer(driven.newest(LEADER, ReplicaFetchRequest), FetchAnswer, leader_id=LEADER, high_watermark=1)
    assert not driven.receive(a_request(RequestKind.PRE_VOTE, EPOCH)).is_granted
    driven.receive(
        EndEpochRequest(epoch=EPOCH, leader_id=LEADER, preferred=(ReplicaKey(OTHER), ReplicaKey(SELF))), request_id=2
    )
    assert driven.receive(a_request(RequestKind.PRE_VOTE, EPOCH), request_id=3).is_granted


ANSWERS = {
    # what is answered: (error, leader, epoch)
    "newer epoch, its leader": ("none", OTHER, EPOCH + 1),
    "newer epoch, no leader": ("fenced_leader_epoch", -1, EPOCH + 1),
    "newer epoch, this node": ("not_leader_or_follower", SELF, EPOCH + 1),
    "own epoch, a leader": ("not_leader_or_follower", LEADER, EPOCH),
    "own epoch, another leader": ("none", OTHER, EPOCH),
    "older epoch": ("unknown_leader_epoch", OTHER, EPOCH - 1),
    "not available": ("broker_not_available", -1, -1),
    "not allowed": ("cluster_authorization_failed", -1, -1),
    "invalid": ("invalid_request", -1, -1),
}
FOLLOWS_NEWER, KNOWS_NOBODY = "follower 6 of 3, saved", "unattached 6 of -1, saved"
AFTER_ANSWER = {
    # by role: newer epoch with leader / without one / of this node, own epoch with a leader / another one, older,
    # not available, not allowed, invalid
    Role.UNATTACHED: (
        FOLLOWS_NEWER, KNOWS_NOBODY, KNOWS_NOBODY, "follower 5 of 2, saved", "follower 5 of 3, saved",
        "unattached 5 of -1", "unattached 5 of -1", "stops", "stops",
    ),
    Role.PROSPECTIVE: (
        FOLLOWS_NEWER, KNOWS_NOBODY, KNOWS_NOBODY, "follower 5 of 2, saved", "follower 5 of 3, saved",
        "prospective 5 of -1", "prospective 5 of -1", "stops", "stops",
    ),
    Role.CANDIDATE: (
        FOLLOWS_NEWER, KNOWS_NOBODY, KNOWS_NOBODY, "follower 5 of 2, saved", "follower 5 of 3, saved",
        "candidate 5 of -1", "candidate 5 of -1", "stops", "stops",
    ),
    Role.FOLLOWER: (
        FOLLOWS_NEWER, KNOWS_NOBODY, KNOWS_NOBODY, "follower 5 of 2", "stops",
        "follower 5 of 2", "follower 5 of 2", "stops", "stops",
    ),
    Role.LEADER: (
        FOLLOWS_NEWER, KNOWS_NOBODY, KNOWS_NOBODY, "stops", "stops",
        "leader 5 of 1", "leader 5 of 1", "stops", "stops",
    ),
    Role.RESIGNED: (
        FOLLOWS_NEWER, KNOWS_NOBODY, KNOWS_NOBODY, "stops", "stops",
        "resigned 5 of 1", "resigned 5 of 1", "stops", "stops",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("role", "what"), list(itertools.product(Role, ANSWERS)))
def test_an_answer_changes_the_role_by_its_epoch_and_leader(role, what):
    driven = IN_ROLE[role]()
    error, leader_id, epoch = ANSWERS[what]
    sent = driven.sent[-1]
    driven.saved.clear()
    kind = {VoteRequest: VoteAnswer, ReplicaFetchRequest: FetchAnswer}.get(type(sent.request), QuorumAnswer)
    driven.answer(sent, kind, leader_id=leader_id, leader_epoch=epoch, error=ErrorCode[error])
    election = driven.voter.election
    saved = ", saved" if driven.saved else ""
    found = f"{driven.voter.role.name.lower()} {election.leader_epoch} of {election.leader_id}{saved}"
    expected = dict(zip(ANSWERS, AFTER_ANSWER[role], strict=True))[what]
    assert ("stops" if driven.stopped else found) == expected


WHEN_TIME_IS_OVER = {
    Role.UNATTACHED: (1500, "prospective 5"),
    Role.PROSPECTIVE: (1500, "prospective 5"),  # again: no leader is known
    Role.CANDIDATE: (1500, "prospective 5"),
    Role.FOLLOWER: (2250, "prospective 5"),
    Role.LEADER: (3000, "resigned 5"),
    Role.RESIGNED: (1500, "unattached 6, saved"),
}
"""By role: its timer in ms with the dice in the middle, and what the node is then."""


@pytest.mark.parametrize("role", Role)
def test_a_role_has_its_time(role):
    driven = IN_ROLE[role]()
    milliseconds, expected = WHEN_TIME_IS_OVER[role]
    driven.saved.clear()
    driven.pass_time(milliseconds - 130)
    assert driven.voter.role is role
    driven.pass_time(130)
    saved = ", saved" if driven.saved else ""
    assert f"{driven.voter.role.name.lower()} {driven.voter.election.leader_epoch}{saved}" == expected


def test_every_cell_of_the_table_has_a_reaction():
    cells = itertools.product(Role, WITH_EPOCH, (EPOCH - 1, EPOCH, EPOCH + 1))
    found = [reaction(role, asked, own_epoch=EPOCH, epoch=epoch) for role, asked, epoch in cells]
    assert len(found) == len(Role) * len(WITH_EPOCH) * 3
    without_epoch = itertools.product(Role, set(RequestKind) - set(WITH_EPOCH))
    assert all(reaction(role, asked, own_epoch=EPOCH, epoch=EPOCH) for role, asked in without_epoch)


def test_every_role_has_predecessors():
    assert set(VALID_PREDECESSORS) == set(Role)
    assert VALID_PREDECESSORS[Role.LEADER] == {Role.CANDIDATE}
    assert VALID_PREDECESSORS[Role.CANDIDATE] == {Role.PROSPECTIVE}
