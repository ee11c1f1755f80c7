import pytest
from kio.schema.errors import ErrorCode
from support.nodes.group_runner import GroupRunner

from broker_core.group.timer_keys import ADOPTED, ClassicTimer


@pytest.fixture
def runner():
    return GroupRunner()


def test_the_first_join_creates_the_group_and_logs_it(runner):
    """Told by its first member, not there yet or there already: a Kafka 4.3.1 stores the same empty generation 0."""
    runner.join()
    runner.join("h", requires_known_member_id=False)
    assert len(runner.log) == 2
    for group_id in "gh":
        described = runner.replayed().describe(group_id)
        assert (described.error_code.name, described.state, described.protocol_type) == ("none", "Empty", "")
    assert runner.state("h") == "PreparingRebalance"


def test_a_timer_rescheduled_before_it_fires_is_set_again(runner):
    (leader,) = runner.stable_group()
    (key,) = runner.timers
    due_ms = runner.timers[key]
    runner.pass_ms(5_000)
    runner.heartbeat("g", 1, leader)
    del runner.timers[key]
    runner.run(runner.coordinator.on_timer(key, due_ms))
    assert runner.timers == {key: runner.now_ms + 10_000}
    assert runner.state() == "Stable"


def test_a_timer_cancelled_before_it_fires_does_nothing(runner):
    (leader,) = runner.stable_group()
    (key,) = runner.timers
    runner.leave("g", leader)
    runner.run(runner.coordinator.on_timer(key, runner.now_ms + 10_000))
    runner.delete_group("g")
    runner.run(runner.coordinator.on_timer(key, runner.now_ms + 10_000))
    assert runner.group() is None


def test_after_a_restart_members_continue_if_they_send_heartbeats(runner):
    leader, follower = runner.stable_group(2)
    before = runner.coordinator.describe("g")
    runner.restart()
    assert runner.coordinator.describe("g") == before
    runner.pass_ms(9_000)
    assert runner.heartbeat("g", 1, leader) == "none"
    runner.pass_ms(1_000)
    assert runner.heartbeat("g", 1, leader) == "rebalance_in_progress"
    assert follower not in runner.group().members


def test_a_restart_discards_an_unfinished_rebalance(runner):
    (leader,) = runner.stable_group()
    runner.new_member()
    runner.restart()
    assert (runner.state(), runner.heartbeat("g", 1, leader)) == ("Stable", "none")


def test_a_loaded_group_above_group_max_size_rebalances():
    runner = GroupRunner()
    members = runner.stable_group(3)
    runner.settings = type(runner.settings)(max_size=2)
    runner.restart()
    tickets = [runner.join(member_id=member_id) for member_id in members]
    assert runner.state() == "CompletingRebalance"
    assert [runner.error(ticket) for ticket in tickets] == ["none", "none", "group_max_size_reached"]


def test_a_group_that_converts_to_another_protocol_refuses_parked_requests(runner):
    leader, _ = runner.stable_group(2)
    ticket = runner.join(member_id=leader)
    groups = runner.coordinator.classic_groups
    runner.run(groups.plan_release("g", ErrorCode.rebalance_in_progress, runner.now_ms))
    assert runner.error(ticket) == "rebalance_in_progress"
    assert (runner.group(), runner.timers) == (None, {})
    assert runner.replayed().describe("g").state == "Dead"


def test_a_group_converted_from_another_protocol_starts_sessions_and_rebalances(runner):
    runner.stable_group(2)
    runner.coordinator, runner.timers = runner.replayed(), {}
    runner.run(runner.coordinator.on_timer(ClassicTimer(kind=ADOPTED, group_id="g").key, runner.now_ms))
    assert runner.state() == "PreparingRebalance"
    assert len(runner.timers) == 3
    runner.pass_ms(60_000)
    assert runner.state() == "Empty"
