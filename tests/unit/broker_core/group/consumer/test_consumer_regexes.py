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


def test_the_response_to_a_new_regex_does_not_wait_for_its_topics():
    runner = a_group(ta=1, tb=1, x=1)
    first = join(runner, "a", "t.*")
    assert (first.error_code, first.member_epoch, first.assignment) == (ErrorCode.none, 1, {})
    assert runner.group(GROUP).regexes["t.*"].topics == {"ta", "tb"}
    assert runner.by_name(runner.heartbeat(GROUP, "a", 1).assignment) == {"ta": [0], "tb": [0]}


def test_a_regex_does_not_match_topics_hidden_from_the_client():
    runner = a_group(ta=1, tb=1)
    join(runner, "a", "t.*", sees_topic=lambda topic: topic != "tb")
    assert runner.group(GROUP).regexes["t.*"].topics == {"ta"}


def test_a_regex_finds_new_topics_after_ten_seconds():
    runner = a_group(ta=1)
    join(runner, "a", "t.*")
    runner.create("tb", 1)
    runner.wait(10_000)
    runner.heartbeat(GROUP, "a", 1)
    assert runner.group(GROUP).regexes["t.*"].topics == {"ta"}
    runner.wait(1)
    runner.heartbeat(GROUP, "a", 2)
    assert runner.group(GROUP).regexes["t.*"].topics == {"ta", "tb"}


def test_a_regex_is_removed_with_its_last_subscriber():
    runner = a_group(ta=1)
    join(runner, "a", "t.*")
    join(runner, "b", "t.*")
    runner.heartbeat(GROUP, "a", -1)
    assert "t.*" in runner.group(GROUP).regexes
    runner.heartbeat(GROUP, "b", -1)
    assert not runner.group(GROUP).regexes


def test_an_invalid_regex_changes_nothing():
    runner = a_group(ta=1)
    assert join(runner, "a", "t(").error_code is ErrorCode.invalid_regular_expression
    assert not runner.groups.has(GROUP)
    assert not runner.log


def test_an_unresolved_regex_is_resolved_at_the_next_heartbeat_after_a_restart():
    runner = a_group(ta=1)
    join(runner, "a", "t.*")
    runner.log = [record for record in runner.log if record.item != "t.*"]
    runner.restart()
    assert not runner.group(GROUP).regexes
    runner.heartbeat(GROUP, "a", 1)
    assert runner.group(GROUP).regexes["t.*"].topics == {"ta"}


def test_timer_keys_round_trip_for_any_ids():
    timer = ConsumerTimer(kind="consumer-session", group_id="a:3:b", member_id="x:y")
    assert consumer_timer(timer.key) == timer
