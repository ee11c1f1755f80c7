import pytest
from support.nodes.group_runner import GroupRunner


@pytest.fixture
def runner():
    return GroupRunner()


@pytest.fixture
def two(runner):
    """Leader and follower of generation 1, which waits for the assignment."""
    (leader, _), (follower, _) = runner.new_member(), runner.new_member()
    runner.pass_ms(6_000)
    return leader, follower


def test_syncs_wait_for_the_leader_and_all_members_get_their_assignments(runner, two):
    leader, follower = two
    waiting = runner.sync("g", 1, follower)
    assert runner.reply(waiting) is None
    records = len(runner.log)
    led = runner.sync("g", 1, leader, {leader: b"L", follower: b"F", "nobody": b"N"})
    replies = [runner.reply(led), runner.reply(waiting)]
    assert [reply.assignment for reply in replies] == [b"L", b"F"]
    assert {(reply.protocol_type, reply.protocol_name) for reply in replies} == {("consumer", "range")}
    assert (runner.state(), len(runner.log)) == ("Stable", records + 1)


def test_a_late_sync_gets_its_assignment_immediately(runner, two):
    leader, follower = two
    runner.sync("g", 1, leader, {follower: b"F"})
    assert runner.reply(runner.sync("g", 1, follower)).assignment == b"F"


def test_a_member_missing_in_the_assignment_gets_an_empty_one(runner, two):
    leader, follower = two
    runner.sync("g", 1, leader, {leader: b"L"})
    reply = runner.reply(runner.sync("g", 1, follower))
    assert (reply.error_code.name, reply.assignment) == ("none", b"")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"generation_id": 2}, "illegal_generation"),
        ({"generation_id": 0}, "illegal_generation"),
        ({"member_id": "nobody"}, "unknown_member_id"),
        ({"group_id": "none"}, "unknown_member_id"),
        ({"group_id": ""}, "invalid_group_id"),
        ({"group_instance_id": "i"}, "unknown_member_id"),
        ({"protocol_type": "connect"}, "inconsistent_group_protocol"),
        ({"protocol_name": "sticky"}, "inconsistent_group_protocol"),
        ({"protocol_type": "consumer", "protocol_name": "range"}, "none"),
    ],
)
def test_sync_validates_the_member(runner, two, options, error):
    leader, _ = two
    given = {"group_id": "g", "generation_id": 1, "member_id": leader} | options
    assert runner.error(runner.sync(**given)) == error


def test_during_a_rebalance_a_sync_is_refused(runner):
    leader, follower = runner.stable_group(2)
    runner.join(member_id=leader)
    assert runner.error(runner.sync("g", 1, follower)) == "rebalance_in_progress"


def test_a_second_parked_sync_of_a_member_refuses_the_first(runner, two):
    _, follower = two
    first = runner.sync("g", 1, follower)
    second = runner.sync("g", 1, follower)
    assert runner.error(first) == "rebalance_in_progress"
    assert runner.reply(second) is None


def test_assignments_too_large_for_the_log_fail_all_syncs():
    runner = GroupRunner(max_record_bytes=500)
    (leader, _), (follower, _) = runner.new_member(), runner.new_member()
    runner.pass_ms(6_000)
    waiting, records = runner.sync("g", 1, follower), len(runner.log)
    led = runner.sync("g", 1, leader, {leader: b"x" * 500})
    assert [runner.error(ticket) for ticket in (waiting, led)] == ["unknown_server_error"] * 2
    assert (runner.state(), len(runner.log)) == ("PreparingRebalance", records)
