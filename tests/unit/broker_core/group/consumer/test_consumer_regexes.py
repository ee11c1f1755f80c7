from kio.schema.errors import ErrorCode
from support.nodes.consumer_group_runner import ConsumerGroupRunner

from broker_core.group.consumer.consumer_step import ConsumerTimer, consumer_timer

GROUP = "g"


def a_group(**topics):
    runner = ConsumerGroupRunner()
    for topic, count in topics.items():
        runner.create(topic, count)
    return runner


def join(runner, member_id, regex, **fields):
    fields = {"rebalance_timeout_ms": 60_000, "owned": {}} | fields
    return runner.heartbeat(GROUP, member_id, 0, topic_regex=regex, **fields)


def test_the_answer_to_a_new_expression_does_not_wait_for_its_topics():
    runner = a_group(ta=1, tb=1, x=1)
    first = join(runner, "a", "t.*")
    assert (first.error_code, first.member_epoch, first.assignment) == (ErrorCode.none, 1, {})
    assert runner.group(GROUP).regexes["t.*"].topics == {"ta", "tb"}
    assert runner.by_name(runner.heartbeat(GROUP, "a", 1).assignment) == {"ta": [0], "tb": [0]}


def test_topics_that_the_client_may_not_see_are_not_found():
    runner = a_group(ta=1, tb=1)
    join(runner, "a", "t.*", sees_topic=lambda topic: topic != "tb")
    assert runner.group(GROUP).regexes["t.*"].topics == {"ta"}


def test_topics_that_are_made_later_are_found_when_ten_seconds_are_over():
    runner = a_group(ta=1)
    join(runner, "a", "t.*")
    runner.create("tb", 1)
    runner.wait(10_000)
    runner.heartbeat(GROUP, "a", 1)
    assert runner.group(GROUP).regexes["t.*"].topics == {"ta"}
    runner.wait(1)
    runner.heartbeat(GROUP, "a", 2)
    assert runner.group(GROUP).regexes["t.*"].topics == {"ta", "tb"}


def test_an_expression_goes_with_the_last_member_that_is_subscribed_by_it():
    runner = a_group(ta=1)
    join(runner, "a", "t.*")
    join(runner, "b", "t.*")
    runner.heartbeat(GROUP, "a", -1)
    assert "t.*" in runner.group(GROUP).regexes
    runner.heartbeat(GROUP, "b", -1)
    assert not runner.group(GROUP).regexes


def test_an_expression_that_is_none_changes_nothing():
    runner = a_group(ta=1)
    assert join(runner, "a", "t(").error_code is ErrorCode.invalid_regular_expression
    assert not runner.groups.has(GROUP)
    assert not runner.log


def test_after_a_restart_before_it_was_resolved_it_is_resolved_at_the_next_heartbeat():
    runner = a_group(ta=1)
    join(runner, "a", "t.*")
    runner.log = [record for record in runner.log if record.item != "t.*"]
    runner.restart()
    assert not runner.group(GROUP).regexes
    runner.heartbeat(GROUP, "a", 1)
    assert runner.group(GROUP).regexes["t.*"].topics == {"ta"}


def test_keys_of_timers_are_readable_whatever_the_ids_are_made_of():
    timer = ConsumerTimer(kind="consumer-session", group_id="a:3:b", member_id="x:y")
    assert consumer_timer(timer.key) == timer
