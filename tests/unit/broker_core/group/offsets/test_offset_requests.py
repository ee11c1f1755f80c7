"""Errors are those of a Kafka 4.3.1, but for negative offsets and the empty group id, which it stores."""

import pytest
from support.nodes.group_runner import ORDERS, GroupRunner

from broker_core.cluster import GroupOffset
from broker_core.model.identifiers import TopicPartition

OTHER = TopicPartition("other", 0)


@pytest.fixture
def runner():
    return GroupRunner()


# -- who may commit --


def test_a_commit_of_a_non_member_creates_a_simple_group(runner):
    assert runner.commit("simple") == "none"
    described = runner.coordinator.describe("simple")
    assert (described.state, described.protocol_type, described.members) == ("Empty", "", ())


@pytest.mark.parametrize(
    ("options", "error"), [({}, "group_id_not_found"), ({"knows_missing_groups": False}, "illegal_generation")]
)
def test_a_commit_of_a_member_of_a_missing_group_is_refused(runner, options, error):
    assert runner.commit("none", 3, "m", **options) == error
    assert runner.commit("none", 3, "m", producer_id=7, **options) == "illegal_generation"
    assert runner.group("none") is None


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ((1, "c-id1", None), "none"),
        ((7, "c-id1", None), "illegal_generation"),
        ((-1, "c-id1", None), "illegal_generation"),
        ((1, "nobody", None), "unknown_member_id"),
        ((1, "c-id1", "i"), "unknown_member_id"),
        ((-1, "", None), "unknown_member_id"),
    ],
)
def test_in_a_group_with_members_only_members_commit(runner, given, error):
    runner.stable_group()
    generation_id, member_id, instance_id = given
    assert runner.commit("g", generation_id, member_id, group_instance_id=instance_id) == error
    expected = "none" if given == (-1, "", None) else error
    assert runner.commit("g", generation_id, member_id, group_instance_id=instance_id, producer_id=7) == expected


def test_a_static_member_that_was_replaced_is_fenced(runner):
    ticket = runner.join(group_instance_id="i")
    runner.pass_ms(3_000)
    runner.share_out("g", [runner.reply(ticket)])
    runner.join(group_instance_id="i")
    assert runner.commit("g", 1, "i-id1", group_instance_id="i") == "fenced_instance_id"
    assert runner.commit("g", 1, "i-id2", group_instance_id="i") == "none"
    assert runner.commit("g", 1, "i-id1", group_instance_id="i", producer_id=7) == "fenced_instance_id"


def test_a_commit_between_join_and_sync_is_refused(runner):
    """It may have partitions by now that belong to another member, but within a transaction this is not checked."""
    member_id, _ = runner.new_member()
    assert runner.commit("g") == "unknown_member_id"
    runner.pass_ms(3_000)
    assert runner.commit("g", 1, member_id) == "rebalance_in_progress"
    assert runner.commit("g", 1, member_id, producer_id=7) == "none"


def test_members_may_commit_during_a_rebalance(runner):
    _, follower = runner.stable_group(2)
    runner.new_member()
    assert runner.commit("g", 1, follower) == "none"


def test_a_commit_extends_the_session(runner):
    (leader,) = runner.stable_group()
    for _ in range(5):
        runner.pass_ms(9_000)
        assert runner.commit("g", 1, leader) == "none"


# -- what is stored --


def test_committed_offsets_are_fetched_with_metadata(runner):
    given = GroupOffset(offset=5, metadata="nöte", leader_epoch=3)
    runner.commit(offsets={ORDERS: given})
    (fetched,) = runner.fetch().offsets.values()
    assert fetched.committed == GroupOffset(offset=5, metadata="nöte", leader_epoch=3, commit_time_ms=runner.now_ms)


def test_each_partition_of_a_commit_has_its_own_result(runner):
    offsets = {ORDERS: 5, OTHER: GroupOffset(offset=1, metadata="x" * 4_097)}
    assert runner.commit(offsets=offsets) == {ORDERS: "none", OTHER: "offset_metadata_too_large"}
    assert list(runner.fetch().offsets) == [ORDERS]
    assert runner.commit(offsets={ORDERS: 6, OTHER: -5}) == {ORDERS: "none", OTHER: "invalid_request"}


def test_the_empty_group_id_is_valid_only_for_non_transactional_commits(runner):
    """As in Kafka, for the sake of old clients."""
    assert runner.commit("") == "none"
    assert [each.committed.offset for each in runner.fetch("").offsets.values()] == [5]
    assert runner.delete_offsets("", ORDERS) == "invalid_group_id"
    assert runner.commit("", producer_id=7) == "invalid_group_id"


def test_a_commit_too_large_for_the_log_is_refused_as_a_whole():
    runner = GroupRunner(max_record_bytes=1_000)
    offsets = {TopicPartition("orders", n): GroupOffset(offset=1, metadata="x" * 300) for n in range(4)}
    assert runner.commit(offsets=offsets) == "invalid_commit_offset_size"
    assert (runner.log, runner.group()) == ([], None)


# -- fetch --


def test_a_missing_group_or_partition_has_no_offset(runner):
    reply = runner.fetch("none", (ORDERS,))
    assert reply.error_code.name == "none"
    assert (reply.offsets[ORDERS].committed.offset, reply.offsets[ORDERS].error_code.name) == (-1, "none")
    assert runner.fetch("none").offsets == {}
    runner.commit()
    assert [each.committed.offset for each in runner.fetch("g", (OTHER, ORDERS)).offsets.values()] == [-1, 5]


def test_a_stable_fetch_refuses_offsets_of_an_open_transaction(runner):
    runner.commit(offsets={ORDERS: 1, OTHER: 2})
    runner.commit(offsets={ORDERS: 9}, producer_id=7)
    assert runner.fetch("g", (ORDERS,)).offsets[ORDERS].committed.offset == 1
    for partitions in (None, (ORDERS, OTHER)):
        offsets = runner.fetch("g", partitions, require_stable=True).offsets
        assert offsets[ORDERS].error_code.name == "unstable_offset_commit"
        assert (offsets[ORDERS].committed.offset, offsets[OTHER].committed.offset) == (-1, 2)
    runner.mark(7)
    assert runner.fetch("g", (ORDERS,), require_stable=True).offsets[ORDERS].committed.offset == 9


# -- delete --


def test_only_offsets_of_unsubscribed_topics_are_deleted(runner):
    (leader,) = runner.stable_group()
    runner.commit("g", 1, leader, offsets={ORDERS: 1, OTHER: 2})
    assert runner.delete_offsets("g", ORDERS, OTHER) == {ORDERS: "group_subscribed_to_topic", OTHER: "none"}
    assert list(runner.fetch().offsets) == [ORDERS]
    runner.leave("g", leader)
    assert runner.delete_offsets("g", ORDERS) == {ORDERS: "none"}
    assert runner.fetch().offsets == {}


def test_deleting_a_missing_offset_writes_no_record(runner):
    runner.commit()
    records = len(runner.log)
    assert runner.delete_offsets("g", OTHER) == {OTHER: "none"}
    assert len(runner.log) == records


def test_a_deleted_offset_is_not_revived_by_an_open_transaction(runner):
    runner.commit("g", offsets={ORDERS: 9}, producer_id=7)
    assert runner.delete_offsets("g", ORDERS) == {ORDERS: "none"}
    runner.mark(7)
    assert runner.fetch().offsets == {}


def test_offsets_of_other_protocol_types_are_deletable_with_members(runner):
    runner.stable_group(protocol_type="connect")
    assert runner.delete_offsets("g", ORDERS) == "non_empty_group"
    assert runner.delete_offsets("none", ORDERS) == "group_id_not_found"
