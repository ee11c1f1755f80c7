import pytest

from broker_core.group.classic.classic_member import ClassicMember
from broker_core.group.classic.classic_messages import JoinProtocol, JoinRequest

REQUEST = JoinRequest(
    group_id="g",
    group_instance_id="i",
    client_id="c",
    client_host="/1.2.3.4",
    session_timeout_ms=10,
    rebalance_timeout_ms=20,
    protocol_type="consumer",
    protocols=(JoinProtocol(name="range", metadata=b"R"), JoinProtocol(name="sticky", metadata=b"S")),
)


@pytest.fixture
def member():
    return ClassicMember.joining("m", REQUEST, 7)


def test_a_stored_member_has_only_the_metadata_of_the_chosen_protocol(member):
    stored = member.as_stored("sticky", b"A")
    again = ClassicMember.from_stored(stored, "sticky")
    assert again.protocols == (JoinProtocol(name="sticky", metadata=b"S"),)
    assert again.as_stored("sticky", again.assignment) == stored
    assert (again.join_ticket, again.is_new) == (None, False)


def test_a_member_votes_for_its_first_candidate_protocol(member):
    assert member.vote({"sticky", "range"}) == "range"
    assert member.vote({"sticky", "other"}) == "sticky"
    with pytest.raises(AssertionError, match="'m' supports none of"):
        member.vote({"other"})


def test_only_a_known_member_with_a_parked_request_needs_no_heartbeat(member):
    assert not member.is_excused
    member.is_new = False
    assert member.is_excused
    member.join_ticket = None
    assert not member.is_excused
    member.sync_ticket = 8
    assert member.is_excused
