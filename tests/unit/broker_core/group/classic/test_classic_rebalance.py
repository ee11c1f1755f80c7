import pytest
from support.nodes.group_runner import GroupRunner


@pytest.fixture
def runner():
    return GroupRunner()


# -- the first generation --


def test_the_first_generation_waits_for_more_members_and_extends_the_delay_on_each_join(runner):
    first = runner.new_member()[1]
    runner.pass_ms(2_999)
    second = runner.new_member()[1]
    runner.pass_ms(1)
    assert runner.reply(first) is None
    runner.pass_ms(2_999)
    third = runner.new_member()[1]
    runner.pass_ms(1)
    assert runner.reply(first) is None
    runner.pass_ms(3_000)
    assert [len(runner.reply(ticket).members) for ticket in (first, second, third)] == [3, 0, 0]


def test_the_initial_delay_never_exceeds_the_rebalance_timeout(runner):
    first = runner.new_member(rebalance_timeout_ms=7_000)[1]
    for _ in range(6):
        runner.pass_ms(1_000)
        runner.new_member(rebalance_timeout_ms=7_000)
    assert runner.reply(first) is None
    runner.pass_ms(3_000)
    assert runner.reply(first).generation_id == 1


def test_without_a_delay_the_first_member_forms_a_generation():
    runner = GroupRunner(initial_rebalance_delay_ms=0)
    _, ticket = runner.new_member()
    runner.pass_ms(0)
    assert runner.reply(ticket).generation_id == 1


def test_a_member_that_leaves_during_the_delay_leaves_an_empty_group(runner):
    member_id, ticket = runner.new_member()
    runner.leave("g", member_id)
    assert runner.error(ticket) == "unknown_member_id"
    runner.pass_ms(3_000)
    assert (runner.state(), runner.group().generation_id) == ("Empty", 1)


# -- later ones --


def test_a_rebalance_completes_when_all_members_have_joined(runner):
    leader, follower = runner.stable_group(2)
    member_id, ticket = runner.new_member()
    assert runner.join(member_id=leader) and runner.reply(ticket) is None
    runner.join(member_id=follower)
    reply = runner.reply(ticket)
    assert (reply.generation_id, reply.member_id, reply.leader) == (2, member_id, leader)


@pytest.mark.parametrize("slow_first", [True, False])
def test_a_rebalance_waits_for_the_longest_rebalance_timeout_of_its_members(runner, slow_first):
    timeouts = [50_000, 20_000] if slow_first else [20_000, 50_000]
    for timeout_ms in timeouts:
        runner.new_member(session_timeout_ms=600_000, rebalance_timeout_ms=timeout_ms)
    runner.pass_ms(6_000)
    runner.share_out("g", [reply for reply in runner.answers.values() if reply.generation_id == 1])
    newcomer = runner.new_member(session_timeout_ms=600_000, rebalance_timeout_ms=1_000)[1]
    runner.pass_ms(49_999)
    assert runner.reply(newcomer) is None
    runner.pass_ms(1)
    assert (runner.reply(newcomer).generation_id, len(runner.reply(newcomer).members)) == (2, 1)


def test_a_member_with_an_assigned_id_is_awaited(runner):
    leader, follower = runner.stable_group(2)
    told = runner.reply(runner.join()).member_id
    tickets = [runner.join(member_id=leader), runner.join(member_id=follower)]
    assert {runner.reply(ticket) for ticket in tickets[:1]} == {None}
    newcomer = runner.join(member_id=told)
    assert {runner.reply(ticket).generation_id for ticket in (*tickets, newcomer)} == {2}


def test_a_member_with_an_assigned_id_is_awaited_until_its_session_ends(runner):
    leader, follower = runner.stable_group(2)
    runner.join(session_timeout_ms=6_000)
    tickets = [runner.join(member_id=leader), runner.join(member_id=follower)]
    runner.pass_ms(5_999)
    assert runner.reply(tickets[0]) is None
    runner.pass_ms(1)
    assert runner.reply(tickets[0]).generation_id == 2


def test_a_member_that_does_not_join_in_time_is_removed(runner):
    leader, follower = runner.stable_group(2, session_timeout_ms=100_000)
    ticket = runner.join(member_id=follower, session_timeout_ms=100_000, protocols=())
    assert runner.error(ticket) == "inconsistent_group_protocol"
    ticket = runner.join(member_id=leader, session_timeout_ms=100_000)
    runner.pass_ms(60_000)
    assert runner.reply(ticket).generation_id == 2
    assert runner.heartbeat("g", 2, follower) == "unknown_member_id"


def test_a_leader_that_does_not_join_in_time_loses_the_lead(runner):
    leader, follower = runner.stable_group(2, session_timeout_ms=100_000)
    _, newcomer = runner.new_member(session_timeout_ms=100_000)
    joined = runner.join(member_id=follower, session_timeout_ms=100_000)
    runner.pass_ms(60_000)
    assert runner.reply(newcomer).leader == follower
    assert {member.member_id for member in runner.reply(joined).members} >= {follower}
    assert leader not in runner.group().members


def test_an_absent_static_member_is_kept_until_its_session_ends(runner):
    tickets = [runner.join(group_instance_id=name, session_timeout_ms=100_000) for name in "ab"]
    runner.pass_ms(9_000)
    runner.share_out("g", [runner.reply(ticket) for ticket in tickets])
    ticket = runner.join(member_id="a-id1", group_instance_id="a", session_timeout_ms=100_000)
    runner.pass_ms(60_000)
    assert {member.group_instance_id for member in runner.reply(ticket).members} == {"a", "b"}


def test_a_group_of_absent_static_members_waits_for_their_sessions(runner):
    tickets = [runner.join(group_instance_id=name, session_timeout_ms=200_000) for name in "ab"]
    runner.pass_ms(9_000)
    runner.share_out("g", [runner.reply(ticket) for ticket in tickets])
    runner.leave("g", "@a")
    runner.pass_ms(60_000)
    assert runner.state() == "PreparingRebalance"
    runner.pass_ms(140_000)
    assert runner.state() == "Empty"


def test_a_member_that_does_not_sync_in_time_is_removed(runner):
    (leader, _), (follower, _) = (runner.new_member(session_timeout_ms=100_000) for _ in range(2))
    runner.pass_ms(6_000)
    sync = runner.sync("g", 1, leader, {leader: b"L"})
    assert runner.reply(sync).assignment == b"L"
    runner.pass_ms(59_999)
    assert runner.state() == "Stable"
    runner.pass_ms(1)
    assert runner.state() == "PreparingRebalance"
    assert list(runner.group().members) == [leader]
    assert runner.heartbeat("g", 1, follower) == "unknown_member_id"


def test_a_leader_that_does_not_sync_in_time_is_removed_and_the_others_rejoin(runner):
    (leader, _), (follower, _) = (runner.new_member(session_timeout_ms=100_000) for _ in range(2))
    runner.pass_ms(6_000)
    waiting = runner.sync("g", 1, follower)
    runner.pass_ms(60_000)
    assert runner.error(waiting) == "rebalance_in_progress"
    assert leader not in runner.group().members
    assert runner.reply(runner.join(member_id=follower)).leader == follower


def test_after_all_members_synced_no_timer_remains(runner):
    leader, follower = runner.stable_group(2)
    assert not [key for key in runner.timers if key.startswith("classic-sync")]
    for _ in range(10):
        runner.pass_ms(9_000)
        assert {runner.heartbeat("g", 1, each) for each in (leader, follower)} == {"none"}
