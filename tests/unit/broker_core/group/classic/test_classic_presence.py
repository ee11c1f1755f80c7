import pytest
from support.nodes.group_runner import GroupRunner


@pytest.fixture
def runner():
    return GroupRunner()


# -- heartbeats --


def test_a_heartbeat_returns_the_state_of_the_group(runner):
    (leader, _), (follower, _) = runner.new_member(), runner.new_member()
    assert runner.heartbeat("g", 0, leader) == "rebalance_in_progress"
    runner.pass_ms(6_000)
    assert runner.state() == "CompletingRebalance"
    assert runner.heartbeat("g", 1, leader) == "none"
    runner.sync("g", 1, leader)
    assert runner.heartbeat("g", 1, follower) == "none"


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (("none", 1, "m"), "unknown_member_id"),
        (("", 1, "m"), "invalid_group_id"),
        (("g", 1, "m"), "unknown_member_id"),
        (("g", 2, "c-id1"), "illegal_generation"),
    ],
)
def test_heartbeat_validates_the_member(runner, given, error):
    runner.stable_group()
    assert runner.heartbeat(*given) == error


def test_heartbeats_extend_the_session_and_without_them_it_ends(runner):
    leader, follower = runner.stable_group(2)
    for _ in range(5):
        runner.pass_ms(9_000)
        assert runner.heartbeat("g", 1, leader) in ("none", "rebalance_in_progress")
    assert list(runner.group().members) == [leader]
    assert runner.heartbeat("g", 1, follower) == "unknown_member_id"


def test_the_group_is_empty_after_the_last_session_ends(runner):
    runner.stable_group()
    runner.pass_ms(9_999)
    assert runner.state() == "Stable"
    runner.pass_ms(1)
    assert (runner.state(), runner.group().generation_id) == ("Empty", 2)


def test_a_member_with_a_parked_join_needs_no_heartbeat(runner):
    leader, follower = runner.stable_group(2, rebalance_timeout_ms=300_000)
    ticket = runner.join(member_id=leader, rebalance_timeout_ms=300_000)
    for _ in range(20):
        runner.pass_ms(9_000)
        assert runner.heartbeat("g", 1, follower) == "rebalance_in_progress"
    assert runner.reply(ticket) is None
    runner.join(member_id=follower, rebalance_timeout_ms=300_000)
    assert runner.reply(ticket).generation_id == 2


def test_a_new_members_parked_join_expires_after_five_minutes(runner):
    """It would go unnoticed if its client were gone."""
    leader, _ = runner.stable_group(2, rebalance_timeout_ms=1_800_000)
    _, ticket = runner.new_member(rebalance_timeout_ms=1_800_000)
    for _ in range(35):
        runner.pass_ms(9_000)
        runner.heartbeat("g", 1, leader)
    assert runner.error(ticket) == "unknown_member_id"


# -- leaving --


def test_a_member_leaves_and_the_others_rebalance(runner):
    leader, follower = runner.stable_group(2)
    assert runner.leave("g", leader) == ["none"]
    assert runner.state() == "PreparingRebalance"
    reply = runner.reply(runner.join(member_id=follower))
    assert (reply.generation_id, reply.leader) == (2, follower)


def test_the_last_member_leaves_an_empty_group_that_keeps_its_type(runner):
    members = runner.stable_group(2)
    assert runner.leave("g", *members) == ["none", "none"]
    described = runner.coordinator.describe("g")
    assert (described.state, described.protocol_type, described.members) == ("Empty", "consumer", ())
    assert runner.replayed().describe("g") == described


def test_each_leaving_member_gets_its_own_result(runner):
    (leader,) = runner.stable_group()
    assert runner.leave("g", "nobody", "", "@i", leader, leader) == [
        "unknown_member_id", "unknown_member_id", "unknown_member_id", "none", "unknown_member_id",
    ]  # fmt: skip
    assert runner.leave("none", "m") == ["unknown_member_id"]
    assert runner.leave("", "m") == "invalid_group_id"


def test_an_administrator_removes_a_static_member_by_its_instance_id(runner):
    ticket = runner.join(group_instance_id="i")
    runner.pass_ms(3_000)
    runner.share_out("g", [runner.reply(ticket)])
    assert runner.leave("g", "@i", "@i") == ["none", "unknown_member_id"]
    assert runner.state() == "Empty"


def test_an_assigned_id_may_leave_before_it_joins(runner):
    told = runner.reply(runner.join()).member_id
    assert runner.leave("g", told) == ["none"]
    assert runner.error(runner.join(member_id=told)) == "unknown_member_id"


def test_when_an_awaited_member_leaves_the_rebalance_completes(runner):
    leader, follower = runner.stable_group(2)
    ticket = runner.join(member_id=leader)
    assert runner.reply(ticket) is None
    runner.leave("g", follower)
    assert runner.reply(ticket).generation_id == 2


def test_the_parked_requests_of_a_member_that_leaves_are_answered(runner):
    leader, follower = runner.stable_group(2)
    join = runner.join(member_id=leader)
    runner.leave("g", leader)
    assert runner.error(join) == "unknown_member_id"
    assert runner.reply(runner.join(member_id=follower)).generation_id == 2
    runner.sync("g", 2, follower)
    _, second = runner.new_member()
    runner.join(member_id=follower)
    newcomer = runner.reply(second).member_id
    sync = runner.sync("g", 3, newcomer)
    runner.leave("g", newcomer)
    assert runner.error(sync) == "unknown_member_id"
