import pytest
from support.nodes.group_runner import ORDERS, GroupRunner

from broker_core.cluster import GroupOffset
from broker_core.model.identifiers import TopicPartition
from broker_core.model.retention_pin import pin_metadata

OTHER = TopicPartition("other", 0)
WEEK_MS = 7 * 24 * 3600 * 1000


@pytest.fixture
def runner():
    return GroupRunner()


def left_after(runner, duration_ms, group_id="g"):
    runner.now_ms += duration_ms
    runner.expire_offsets()
    return list(runner.fetch(group_id).offsets)


def test_simple_offsets_expire_after_their_commit_and_the_group_with_the_last_one(runner):
    runner.commit(offsets={ORDERS: 1})
    runner.now_ms += 1_000
    runner.commit(offsets={OTHER: 1})
    assert left_after(runner, WEEK_MS - 1_001) == [ORDERS, OTHER]
    assert left_after(runner, 1) == [OTHER]
    assert runner.group() is not None
    assert left_after(runner, 1_000) == []
    assert runner.group() is None
    assert runner.replayed().list_groups() == ()


def test_offsets_of_a_group_expire_after_it_was_empty_for_the_retention(runner):
    (leader,) = runner.stable_group()
    runner.commit("g", 1, leader)
    runner.now_ms += WEEK_MS
    runner.leave("g", leader)
    assert left_after(runner, WEEK_MS - 1) == [ORDERS]
    assert left_after(runner, 1) == []
    assert runner.group() is None


def test_offsets_of_topics_that_members_subscribe_to_never_expire(runner):
    (leader,) = runner.stable_group()
    runner.commit("g", 1, leader, offsets={ORDERS: 1, OTHER: 1})
    assert left_after(runner, WEEK_MS) == [ORDERS]
    assert runner.state() == "Stable"


def test_nothing_expires_during_a_rebalance(runner):
    (leader,) = runner.stable_group()
    runner.commit("g", 1, leader, offsets={OTHER: 1})
    runner.new_member()
    assert left_after(runner, WEEK_MS) == [OTHER]


def test_offsets_of_groups_with_unreadable_subscriptions_never_expire(runner):
    (leader,) = runner.stable_group(protocol_type="connect")
    runner.commit("g", 1, leader)
    assert left_after(runner, WEEK_MS) == [ORDERS]


def test_offsets_of_an_open_transaction_and_their_group_do_not_expire(runner):
    runner.commit(offsets={ORDERS: 1})
    runner.commit(offsets={ORDERS: 2}, producer_id=7)
    assert left_after(runner, WEEK_MS) == [ORDERS]
    runner.commit("h", producer_id=8)
    assert left_after(runner, WEEK_MS, "h") == []
    assert runner.group("h") is not None
    runner.mark(7, is_commit=False)
    runner.mark(8, is_commit=False)
    assert left_after(runner, 0) == []
    assert (runner.group(), runner.group("h")) == (None, None)


def test_a_live_pin_does_not_expire(runner):
    metadata = pin_metadata(until_ms=runner.now_ms + 2 * WEEK_MS)
    runner.commit(offsets={ORDERS: GroupOffset(offset=1, metadata=metadata)})
    assert left_after(runner, WEEK_MS) == [ORDERS]
    assert left_after(runner, WEEK_MS) == []


@pytest.mark.parametrize("own", ["streamlog-sink-73186b39-922e-4208-9ce5-ca7bd052e63b", "streamlog-topics-app"])
def test_what_a_sink_has_decided_and_a_source_knows_of_its_topics_never_expires(runner, own):
    runner.commit(own, offsets={ORDERS: GroupOffset(offset=1)})
    runner.commit(offsets={ORDERS: GroupOffset(offset=1)})
    runner.pass_ms(100 * WEEK_MS)
    runner.expire_offsets()
    assert [each.group_id for each in runner.coordinator.list_groups()] == [own]


def test_a_group_with_a_joining_member_does_not_expire(runner):
    told = runner.reply(runner.join()).member_id
    runner.expire_offsets()
    assert runner.reply(runner.join(member_id=told)) is None
    runner.join("h")
    runner.pass_ms(10_000)
    runner.expire_offsets()
    assert runner.group("h") is None
