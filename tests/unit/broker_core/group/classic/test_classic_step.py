from broker_core.group.classic.classic_group import ClassicGroup
from broker_core.group.classic.classic_member import ClassicMember
from broker_core.group.classic.classic_step import ClassicStep
from broker_core.group.group_settings import GroupSettings


def a_step(group, **settings):
    return ClassicStep(group, GroupSettings(**settings), 1_000)


def a_group():
    group = ClassicGroup("g")
    options = {"group_instance_id": None, "client_id": "", "client_host": "", "protocols": ()}
    member = ClassicMember(member_id="m", rebalance_timeout_ms=5, session_timeout_ms=7, **options)
    group.add(member, "consumer")
    return group


def test_the_last_change_of_a_timer_applies():
    step = a_step(a_group())
    step.expect_heartbeat(step.group.members["m"])
    step.expect_session("m", 50)
    (timer,) = step.result().reply.timers
    assert timer.at_ms == 1_050
    assert step.group.deadlines == {timer.key: 1_050}
    step.remove("m")
    assert [change.at_ms for change in step.result().reply.timers] == [None]
    assert step.group.deadlines == {}


def test_a_timer_that_does_not_run_is_not_cancelled():
    step = a_step(a_group())
    step.cancel("classic-join")
    assert step.result().reply.timers == ()


def test_a_removed_member_is_answered_once():
    step = a_step(a_group())
    step.group.members["m"].join_ticket = 3
    step.remove("m")
    step.remove("m")
    (answer,) = step.result().reply.answers
    assert (answer.ticket, answer.reply.error_code.name) == (3, "unknown_member_id")


def test_metadata_too_large_for_the_log_is_refused():
    group = a_group()
    for assignment, fits in ((b"x" * 100, True), (b"x" * 1_000, False)):
        step = a_step(group, max_record_bytes=500)
        assert step.maybe_store_members({"m": assignment}) is fits
        assert len(step.result().records) == fits
