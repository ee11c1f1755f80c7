import pytest
from support.nodes.group_runner import RANGE, GroupRunner

from broker_core.group.classic.classic_messages import JoinProtocol


@pytest.fixture
def runner():
    return GroupRunner()


def liking(*names):
    return tuple(JoinProtocol(name=name, metadata=name.encode()) for name in names)


# -- new members --


def test_a_new_dynamic_member_gets_its_id_and_must_rejoin(runner):
    told = runner.reply(runner.join())
    assert (told.error_code.name, told.member_id, told.generation_id) == ("member_id_required", "c-id1", -1)
    assert runner.state() == "Empty"
    ticket = runner.join(member_id="c-id1")
    assert runner.reply(ticket) is None
    assert runner.state() == "PreparingRebalance"
    runner.pass_ms(3_000)
    reply = runner.reply(ticket)
    assert (reply.generation_id, reply.leader, reply.member_id) == (1, "c-id1", "c-id1")
    assert (reply.protocol_type, reply.protocol_name, reply.skip_assignment) == ("consumer", "range", False)
    assert [(member.member_id, member.metadata) for member in reply.members] == [("c-id1", RANGE[0].metadata)]


def test_an_old_client_becomes_a_member_immediately(runner):
    ticket = runner.join(requires_known_member_id=False)
    runner.pass_ms(3_000)
    assert runner.reply(ticket).member_id == "c-id1"


def test_a_static_member_joins_immediately_with_an_id_based_on_its_instance_id(runner):
    ticket = runner.join(group_instance_id="i")
    runner.pass_ms(3_000)
    assert runner.reply(ticket).member_id == "i-id1"


def test_only_the_leader_gets_the_member_list(runner):
    tickets = [runner.new_member()[1] for _ in range(3)]
    runner.pass_ms(9_000)
    replies = [runner.reply(ticket) for ticket in tickets]
    assert [len(reply.members) for reply in replies] == [3, 0, 0]
    assert {reply.leader for reply in replies} == {replies[0].member_id}


def test_an_id_that_was_never_assigned_is_unknown(runner):
    assert runner.error(runner.join(member_id="nobody")) == "unknown_member_id"
    assert runner.group() is None
    runner.stable_group()
    assert runner.error(runner.join(member_id="nobody")) == "unknown_member_id"


def test_an_assigned_id_expires_after_the_session_timeout(runner):
    told = runner.reply(runner.join())
    runner.pass_ms(10_000)
    assert runner.error(runner.join(member_id=told.member_id)) == "unknown_member_id"


def test_an_assigned_id_cannot_join_as_a_static_member(runner):
    """As a Kafka 4.3.1 answers."""
    told = runner.reply(runner.join())
    reply = runner.reply(runner.join(member_id=told.member_id, group_instance_id="i"))
    assert (reply.error_code.name, reply.member_id) == ("unknown_server_error", "")


# -- what is refused --


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"group_id": ""}, "invalid_group_id"),
        ({"group_id": "x" * 32768}, "invalid_group_id"),
        ({"session_timeout_ms": 5_999}, "invalid_session_timeout"),
        ({"session_timeout_ms": 1_800_001}, "invalid_session_timeout"),
        ({"protocols": ()}, "inconsistent_group_protocol"),
        ({"protocol_type": ""}, "inconsistent_group_protocol"),
        ({"client_id": "x" * 32767}, "invalid_request"),
        ({"group_instance_id": "x" * 32767}, "invalid_request"),
    ],
)
def test_invalid_join_requests_are_refused(runner, options, error):
    assert runner.error(runner.join(**options)) == error
    assert runner.group() is None or not runner.group().members


@pytest.mark.parametrize("session_timeout_ms", [6_000, 1_800_000])
def test_session_timeouts_at_the_bounds_are_allowed(runner, session_timeout_ms):
    assert runner.error(runner.join(session_timeout_ms=session_timeout_ms)) == "member_id_required"


def test_a_member_without_a_common_protocol_is_refused(runner):
    (leader,) = runner.stable_group()
    assert runner.error(runner.join(protocols=liking("other"))) == "inconsistent_group_protocol"
    assert runner.error(runner.join(protocol_type="connect")) == "inconsistent_group_protocol"
    reply = runner.reply(runner.join(member_id=leader, protocols=liking("range"), protocol_type="connect"))
    assert (reply.error_code.name, reply.member_id) == ("inconsistent_group_protocol", leader)
    assert runner.state() == "Stable"


def test_a_full_group_refuses_new_members(runner):
    runner = GroupRunner(max_size=2)
    members = runner.stable_group(2)
    reply = runner.reply(runner.join())
    assert (reply.error_code.name, reply.member_id) == ("group_max_size_reached", "")
    assert runner.state() == "Stable"
    assert runner.leave("g", members[1]) == ["none"]
    assert runner.error(runner.join()) == "member_id_required"


def test_when_a_full_group_rebalances_the_last_to_join_is_refused():
    runner = GroupRunner(max_size=2)
    runner.stable_group(2)
    told = [runner.reply(runner.join("h")).member_id for _ in range(3)]
    tickets = [runner.join("h", member_id) for member_id in told]
    runner.pass_ms(10_000)
    assert [runner.error(ticket) for ticket in tickets] == ["none", "none", "group_max_size_reached"]


# -- rejoining --


def test_a_rejoining_leader_triggers_a_rebalance(runner):
    leader, follower = runner.stable_group(2)
    ticket = runner.join(member_id=leader)
    assert (runner.state(), runner.reply(ticket)) == ("PreparingRebalance", None)
    assert runner.heartbeat("g", 1, follower) == "rebalance_in_progress"
    other = runner.join(member_id=follower)
    assert (runner.reply(ticket).generation_id, runner.reply(other).generation_id) == (2, 2)


def test_an_unchanged_rejoining_follower_gets_the_current_generation(runner):
    leader, follower = runner.stable_group(2)
    reply = runner.reply(runner.join(member_id=follower))
    assert (reply.error_code.name, reply.generation_id, reply.leader, reply.members) == ("none", 1, leader, ())
    assert runner.state() == "Stable"


def test_a_changed_rejoining_follower_triggers_a_rebalance(runner):
    _, follower = runner.stable_group(2)
    changed = (JoinProtocol(name="range", metadata=b"other"),)
    assert runner.reply(runner.join(member_id=follower, protocols=changed)) is None
    assert runner.state() == "PreparingRebalance"


def test_a_member_that_missed_its_join_response_gets_it_again(runner):
    """It joins a second time while the others are waiting for the leader's assignment."""
    (leader, first), (follower, second) = runner.new_member(), runner.new_member()
    runner.pass_ms(6_000)
    assert runner.state() == "CompletingRebalance"
    for member_id, ticket in ((leader, first), (follower, second)):
        assert runner.reply(runner.join(member_id=member_id)) == runner.reply(ticket)
    assert runner.state() == "CompletingRebalance"


def test_a_changed_member_refuses_parked_syncs(runner):
    (leader, _), (follower, _) = runner.new_member(), runner.new_member()
    runner.pass_ms(6_000)
    waiting = runner.sync("g", 1, follower)
    changed = (JoinProtocol(name="range", metadata=b"other"),)
    assert runner.reply(runner.join(member_id=leader, protocols=changed)) is None
    assert runner.error(waiting) == "rebalance_in_progress"


def test_a_second_parked_join_of_a_member_refuses_the_first(runner):
    """Its client gave the first one up; left alone it would never be answered."""
    leader, _ = runner.stable_group(2)
    first = runner.join(member_id=leader)
    second = runner.join(member_id=leader)
    assert runner.error(first) == "rebalance_in_progress"
    assert runner.reply(second) is None


# -- static members that were started again --


def test_a_returning_static_follower_triggers_no_rebalance(runner):
    leader, member = [runner.join(group_instance_id=name) for name in "ab"]
    runner.pass_ms(9_000)
    runner.share_out("g", [runner.reply(leader), runner.reply(member)])
    reply = runner.reply(runner.join(group_instance_id="b"))
    assert (reply.error_code.name, reply.generation_id, reply.member_id) == ("none", 1, "b-id3")
    assert (reply.leader, reply.members, reply.skip_assignment) == ("a-id1", (), False)
    assert runner.reply(runner.sync("g", 1, "b-id3", group_instance_id="b")).assignment == b"B-ID2"
    assert runner.heartbeat("g", 1, "b-id2", group_instance_id="b") == "fenced_instance_id"
    assert runner.error(runner.sync("g", 1, "b-id2", group_instance_id="b")) == "fenced_instance_id"
    assert runner.error(runner.join(member_id="b-id2", group_instance_id="b")) == "fenced_instance_id"
    assert runner.replayed().describe("g") == runner.coordinator.describe("g")


@pytest.mark.parametrize("knows_skipping", [True, False])
def test_a_returning_static_leader_skips_the_assignment(runner, knows_skipping):
    """It is told to skip that (KIP-814), or from an old client that somebody else leads: its old id."""
    ticket = runner.join(group_instance_id="a")
    runner.pass_ms(3_000)
    runner.share_out("g", [runner.reply(ticket)])
    reply = runner.reply(runner.join(group_instance_id="a", supports_skipping_assignment=knows_skipping))
    assert (reply.generation_id, reply.member_id) == (1, "a-id2")
    if knows_skipping:
        assert (reply.leader, reply.skip_assignment) == ("a-id2", True)
        assert [member.member_id for member in reply.members] == ["a-id2"]
    else:
        assert (reply.leader, reply.skip_assignment, reply.members) == ("a-id1", False, ())
    assert runner.state() == "Stable"


def test_a_returning_static_member_with_another_protocol_triggers_a_rebalance(runner):
    ticket = runner.join(group_instance_id="a", protocols=liking("range", "sticky"))
    runner.pass_ms(3_000)
    runner.share_out("g", [runner.reply(ticket)])
    again = runner.reply(runner.join(group_instance_id="a", protocols=liking("sticky", "range")))
    assert (again.generation_id, again.protocol_name) == (2, "sticky")


def test_a_parked_request_with_a_static_members_old_id_is_fenced(runner):
    first = runner.join(group_instance_id="a")
    second = runner.join(group_instance_id="a")
    assert runner.error(first) == "fenced_instance_id"
    runner.pass_ms(3_000)
    assert runner.reply(second).member_id == "a-id2"
    runner.sync("g", 1, "a-id2")
    other = runner.join(group_instance_id="b")
    runner.join(member_id="a-id2", group_instance_id="a")
    assert runner.reply(other).generation_id == 2
    waiting = runner.sync("g", 2, "b-id3", group_instance_id="b")
    runner.join(group_instance_id="b")
    assert runner.error(waiting) == "fenced_instance_id"
    assert runner.state() == "PreparingRebalance"
