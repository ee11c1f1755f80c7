import copy
from dataclasses import replace
from uuid import UUID

import pytest
from support.nodes.coordinator_runner import ORDERS, OffsetsRunner, refusal_of

from broker_core.cluster import GroupOffset
from broker_core.coordinator.record_fields import MAX_STRING_BYTES
from broker_core.group.group_records import GroupMetadataRecord, OffsetCommitRecord, OffsetCommitValue
from broker_core.group.offsets.group_offsets import GroupOffsets
from broker_core.model.exceptions import (
    InvalidGroupError,
    InvalidRequestError,
    InvalidTopicNameError,
    OffsetMetadataTooLargeError,
    UnknownGroupError,
)
from broker_core.model.identifiers import TopicPartition
from broker_core.model.limits import MAX_OFFSET, MAX_OFFSET_METADATA_BYTES
from broker_core.model.retention_pin import pin_metadata

OLD_ID, NEW_ID = UUID(int=1), UUID(int=2)


@pytest.fixture
def runner():
    return OffsetsRunner()


def test_a_plan_changes_nothing(runner):
    runner.commit("g", {ORDERS[0]: 5})
    runner.commit("g", {ORDERS[1]: 7}, producer_id=1000)
    before = copy.deepcopy(vars(runner.offsets))
    offsets = runner.offsets
    offsets.plan_commit("h", {ORDERS[0]: GroupOffset(offset=1)}, now_ms=1)
    offsets.plan_commit("g", {ORDERS[2]: GroupOffset(offset=1)}, now_ms=1)
    offsets.plan_delete_group("g")
    offsets.plan_forget_topic("orders")
    offsets.fetch("nobody")
    assert vars(offsets) == before


# -- plain commits --


def test_a_commit_is_fetched_with_all_fields_and_its_time(runner):
    given = GroupOffset(offset=5, metadata="nöte", leader_epoch=3)
    runner.commit("g", {ORDERS[1]: given})
    expected = GroupOffset(offset=5, metadata="nöte", leader_epoch=3, commit_time_ms=runner.now_ms)
    assert runner.offsets.fetch("g") == {ORDERS[1]: expected}


def test_the_latest_commit_applies_even_with_a_lower_offset(runner):
    runner.commit("g", {ORDERS[0]: 9})
    runner.commit("g", {ORDERS[0]: 4})
    assert runner.fetched("g") == {ORDERS[0]: 4}


def test_partitions_without_an_offset_are_missing_from_the_reply(runner):
    runner.commit("g", {ORDERS[2]: 2, ORDERS[0]: 1})
    assert runner.fetched("g", [ORDERS[1], ORDERS[2]]) == {ORDERS[2]: 2}
    assert list(runner.fetched("g")) == [ORDERS[0], ORDERS[2]]
    assert runner.fetched("g", []) == {}
    assert runner.fetched("nobody") == {}


def test_groups_are_independent_and_listed_in_order(runner):
    runner.commit("b", {ORDERS[0]: 1})
    runner.commit("a", {ORDERS[0]: 2})
    assert (runner.fetched("a"), runner.fetched("b")) == ({ORDERS[0]: 2}, {ORDERS[0]: 1})
    assert runner.offsets.groups() == ("a", "b")


def test_an_empty_commit_writes_no_record(runner):
    runner.commit("g", {})
    assert runner.log == []
    assert runner.offsets.groups() == ()


def test_known_topic_ids_are_stored(runner):
    offsets = {ORDERS[0]: GroupOffset(offset=1), TopicPartition("other", 0): GroupOffset(offset=1)}
    result = runner.offsets.plan_commit("g", offsets, now_ms=1, topic_ids={"orders": OLD_ID})
    assert {record.partition.topic: record.value.topic_id for record in result.records} == {
        "orders": OLD_ID,
        "other": None,
    }


# -- bounds --


@pytest.mark.parametrize(
    "given",
    [
        GroupOffset(offset=0),
        GroupOffset(offset=MAX_OFFSET),
        GroupOffset(offset=1, metadata="x" * MAX_OFFSET_METADATA_BYTES),
        GroupOffset(offset=1, metadata="ü" * MAX_OFFSET_METADATA_BYTES),
        GroupOffset(offset=1, metadata="𝄞" * (MAX_OFFSET_METADATA_BYTES // 2)),
        GroupOffset(offset=1, leader_epoch=2**31 - 1),
    ],
    ids=["0", "highest", "metadata", "two-byte metadata", "four-byte metadata", "leader epoch"],
)
def test_values_at_the_bounds_are_stored(runner, given):
    runner.commit("g", {TopicPartition("orders", 2**31 - 1): given})
    (fetched,) = runner.offsets.fetch("g").values()
    assert replace(fetched, commit_time_ms=-1) == given


@pytest.mark.parametrize(
    ("partition", "given", "kind"),
    [
        (ORDERS[1], GroupOffset(offset=-1), InvalidRequestError),
        (ORDERS[1], GroupOffset(offset=MAX_OFFSET + 1), InvalidRequestError),
        (ORDERS[1], GroupOffset(offset=1, leader_epoch=-2), InvalidRequestError),
        (ORDERS[1], GroupOffset(offset=1, leader_epoch=2**31), InvalidRequestError),
        (ORDERS[1], GroupOffset(offset=1, metadata="\ud800"), InvalidRequestError),
        (ORDERS[1], GroupOffset(offset=1, metadata="x" * (MAX_OFFSET_METADATA_BYTES + 1)), OffsetMetadataTooLargeError),
        (
            ORDERS[1],
            GroupOffset(offset=1, metadata="𝄞" * (MAX_OFFSET_METADATA_BYTES // 2) + "x"),
            OffsetMetadataTooLargeError,
        ),
        (TopicPartition("orders", -1), GroupOffset(offset=1), InvalidRequestError),
        (TopicPartition("orders", 2**31), GroupOffset(offset=1), InvalidRequestError),
        (TopicPartition("or/ders", 0), GroupOffset(offset=1), InvalidTopicNameError),
    ],
)
def test_one_invalid_offset_refuses_the_whole_commit(runner, partition, given, kind):
    for producer_id in (-1, 1000):
        asked = {ORDERS[0]: 5, partition: given, ORDERS[2]: 6}
        refusal = refusal_of(runner.commit, "g", asked, producer_id=producer_id)
        assert type(refusal) is kind
        assert runner.log == []


@pytest.mark.parametrize("group_id", ["x" * MAX_STRING_BYTES, "ü" * (MAX_STRING_BYTES // 2), " "])
def test_a_group_id_that_fits_its_record_is_accepted(runner, group_id):
    runner.commit(group_id, {ORDERS[0]: 1})
    assert runner.offsets.groups() == (group_id,)


@pytest.mark.parametrize("group_id", ["", "x" * (MAX_STRING_BYTES + 1), "\udc80"])
def test_an_invalid_group_id_is_refused(runner, group_id):
    assert isinstance(refusal_of(runner.commit, group_id, {ORDERS[0]: 1}), InvalidGroupError)
    assert isinstance(refusal_of(runner.offsets.plan_delete_group, group_id), InvalidGroupError)
    assert runner.fetched(group_id) == {}


# -- transactions --


def test_offsets_of_an_open_transaction_are_not_committed(runner):
    runner.commit("g", {ORDERS[0]: 1})
    runner.commit("g", {ORDERS[0]: 2, ORDERS[1]: 2}, producer_id=1000)
    assert runner.fetched("g") == {ORDERS[0]: 1}
    assert runner.offsets.pending_partitions("g") == {ORDERS[0], ORDERS[1]}
    assert runner.offsets.pending_partitions("h") == frozenset()
    runner.mark(1000, is_commit=True)
    assert runner.fetched("g") == {ORDERS[0]: 2, ORDERS[1]: 2}
    assert runner.offsets.pending_partitions("g") == frozenset()


def test_an_abort_drops_transactional_offsets(runner):
    runner.commit("g", {ORDERS[0]: 2}, producer_id=1000)
    runner.mark(1000, is_commit=False)
    runner.mark(1000, is_commit=True)
    assert runner.fetched("g") == {}
    assert runner.offsets.groups() == ()


def test_pending_offsets_are_kept_per_producer(runner):
    runner.commit("g", {ORDERS[0]: 1}, producer_id=1000)
    runner.commit("h", {ORDERS[0]: 2}, producer_id=1001)
    runner.mark(1001)
    assert (runner.fetched("g"), runner.fetched("h")) == ({}, {ORDERS[0]: 2})


def test_a_plain_commit_after_a_transactional_one_is_kept(runner):
    """As measured with a real Kafka 4.3.1: 5 in a transaction, 9 plain, then the marker: it answers 9."""
    runner.commit("g1", {ORDERS[0]: 5}, producer_id=1000)
    runner.commit("g1", {ORDERS[0]: 9})
    runner.mark(1000)
    assert runner.fetched("g1") == {ORDERS[0]: 9}


def test_of_two_transactions_the_later_write_applies_in_any_order_of_commits(runner):
    """As measured: 15 by x, 17 by y, y commits, x commits: it answers 17."""
    runner.commit("g2", {ORDERS[0]: 15}, producer_id=1000)
    runner.commit("g2", {ORDERS[0]: 17}, producer_id=1001)
    runner.mark(1001)
    runner.mark(1000)
    assert runner.fetched("g2") == {ORDERS[0]: 17}


# -- delete --


def test_a_deleted_group_has_no_offsets_and_may_commit_again(runner):
    runner.commit("g", {ORDERS[0]: 1, ORDERS[1]: 2})
    runner.run(runner.offsets.plan_delete_group("g"))
    assert runner.fetched("g") == {}
    assert runner.offsets.groups() == ()
    assert isinstance(refusal_of(runner.offsets.plan_delete_group, "g"), UnknownGroupError)
    runner.commit("g", {ORDERS[0]: 3})
    assert runner.fetched("g") == {ORDERS[0]: 3}


def test_deleting_writes_the_tombstones_that_kafka_writes(runner):
    """For each offset, those of open transactions too; then one for the group's members."""
    runner.commit("g3", {ORDERS[0]: 1})
    runner.commit("g3", {ORDERS[1]: 25}, producer_id=1000)
    assert runner.offsets.plan_delete_group("g3").records == (
        OffsetCommitRecord(group_id="g3", partition=ORDERS[0]),
        OffsetCommitRecord(group_id="g3", partition=ORDERS[1]),
        GroupMetadataRecord(group_id="g3"),
    )


def test_a_transaction_that_ends_after_the_deletion_revives_nothing(runner):
    """As measured, with an offset committed before (g3) and without (g4): it answers none."""
    runner.commit("g3", {ORDERS[0]: 1})
    for group_id in ("g3", "g4"):
        runner.commit(group_id, {ORDERS[0]: 25}, producer_id=1000)
        runner.run(runner.offsets.plan_delete_group(group_id))
    runner.mark(1000)
    assert (runner.fetched("g3"), runner.fetched("g4")) == ({}, {})


def test_an_unknown_group_is_not_deleted(runner):
    refusal = refusal_of(runner.offsets.plan_delete_group, "never")
    assert isinstance(refusal, UnknownGroupError)
    assert "'never'" in refusal.message


def test_deleting_a_topic_removes_its_offsets_in_every_group(runner):
    """As measured, also for what an open transaction holds."""
    gone = TopicPartition("gone", 0)
    runner.commit("g5", {gone: 3, ORDERS[0]: 1})
    runner.commit("g6", {gone: 4}, producer_id=1000)
    runner.run(runner.offsets.plan_forget_topic("gone"))
    runner.mark(1000)
    assert (runner.fetched("g5"), runner.fetched("g6")) == ({ORDERS[0]: 1}, {})
    assert runner.offsets.plan_forget_topic("gone").records == ()


def test_offsets_of_the_recreated_topic_are_kept(runner):
    def commit(group_id, topic_id, *, producer_id=-1):
        offsets = {ORDERS[0]: GroupOffset(offset=1)}
        ids = {"orders": topic_id} if topic_id else None
        runner.run(runner.offsets.plan_commit(group_id, offsets, now_ms=1, topic_ids=ids), producer_id=producer_id)

    commit("old", OLD_ID)
    commit("unknown", None)
    commit("new", NEW_ID)
    commit("old pending", OLD_ID, producer_id=1000)
    commit("new pending", NEW_ID, producer_id=1001)
    commit("both", OLD_ID, producer_id=1000)
    commit("both", NEW_ID)
    records = runner.offsets.plan_forget_topic("orders", topic_id=OLD_ID).records
    assert [record.group_id for record in records] == ["old", "old pending", "unknown"]


# -- pins --


def pin(runner, group_id, partition, offset, until_ms, **options):
    runner.commit(group_id, {partition: GroupOffset(offset=offset, metadata=pin_metadata(until_ms))}, **options)


def test_the_lowest_live_pin_applies(runner):
    assert runner.offsets.pinned_offset(ORDERS[0], 1000) is None
    pin(runner, "a", ORDERS[0], 50, 2000)
    pin(runner, "b", ORDERS[0], 20, 3000)
    pin(runner, "c", ORDERS[1], 5, 3000)
    runner.commit("plain", {ORDERS[0]: 1})
    assert runner.offsets.pinned_offset(ORDERS[0], 1000) == 20
    assert runner.offsets.pinned_offset(ORDERS[2], 1000) is None


def test_a_pin_applies_until_it_expires(runner):
    pin(runner, "a", ORDERS[0], 50, 2000)
    assert runner.offsets.pinned_offset(ORDERS[0], 1999) == 50
    assert runner.offsets.pinned_offset(ORDERS[0], 2000) is None


def test_a_renewed_pin_advances_and_a_plain_commit_releases_it(runner):
    pin(runner, "a", ORDERS[0], 50, 2000)
    pin(runner, "a", ORDERS[0], 90, 4000)
    assert runner.offsets.pinned_offset(ORDERS[0], 3000) == 90
    runner.commit("a", {ORDERS[0]: 95})
    assert runner.offsets.pinned_offset(ORDERS[0], 3000) is None


def test_pins_of_deleted_groups_and_open_transactions_do_not_apply(runner):
    pin(runner, "a", ORDERS[0], 50, 2000)
    runner.run(runner.offsets.plan_delete_group("a"))
    pin(runner, "b", ORDERS[0], 40, 2000, producer_id=1000)
    assert runner.offsets.pinned_offset(ORDERS[0], 1000) is None


def test_the_smallest_live_pin_of_a_partition_applies(runner):
    pin(runner, "b", ORDERS[1], 7, 5000)
    pin(runner, "b", ORDERS[0], 20, 3000)
    pin(runner, "a", ORDERS[0], 50, 2000)
    pin(runner, "late", ORDERS[0], 1, 1000)
    assert [runner.offsets.pinned_offset(partition, 1500) for partition in ORDERS[:2]] == [20, 7]


def test_group_metadata_records_do_not_change_offsets(runner):
    runner.offsets.replay(GroupMetadataRecord(group_id="g", value=b"\0\3whatever"), record_offset=0)
    assert runner.offsets.groups() == ()


def test_a_removed_offset_is_forgotten_unless_an_older_commit_may_arrive():
    offsets = GroupOffsets()
    place = TopicPartition("orders", 0)
    value = OffsetCommitValue(offset=1, leader_epoch=-1, metadata="", commit_time_ms=1, topic_id=None)
    offsets.replay(OffsetCommitRecord(group_id="g", partition=place, value=value), record_offset=0, producer_id=7)
    offsets.replay(OffsetCommitRecord(group_id="g", partition=place), record_offset=1)
    offsets.forget_rolled_back("g")
    assert list(offsets.held_group_ids()) == ["g"]
    offsets.replay_marker(7, is_commit=True)
    assert offsets.fetch("g") == {}
    offsets.forget_rolled_back("g")
    assert list(offsets.held_group_ids()) == []


class TestOffsetsOfATopicThatIsGone:
    """Their tombstones were never written: who deleted the topic died before."""

    @pytest.fixture
    def topic_ids(self):
        return {"orders": OLD_ID}

    @pytest.fixture
    def offsets(self, topic_ids):
        offsets = GroupOffsets(topic_ids.get)
        for number, (place, topic_id) in enumerate([(ORDERS[0], OLD_ID), (ORDERS[1], None)]):
            value = OffsetCommitValue(offset=5, metadata=pin_metadata(10**6), commit_time_ms=1, topic_id=topic_id)
            offsets.replay(OffsetCommitRecord(group_id="g", partition=place, value=value), record_offset=number)
        return offsets

    def test_offsets_apply_while_their_topic_exists(self, offsets):
        assert list(offsets.fetch("g")) == [ORDERS[0], ORDERS[1]]
        assert offsets.pinned_offset(ORDERS[0], 0) == 5

    @pytest.mark.parametrize("now", [{}, {"orders": NEW_ID}])
    def test_offsets_do_not_apply_to_a_recreated_topic(self, offsets, topic_ids, now):
        topic_ids.clear()
        topic_ids.update(now)
        assert list(offsets.fetch("g")) == [ORDERS[1]]
        assert list(offsets.fetch("g", ORDERS)) == [ORDERS[1]]
        assert offsets.pinned_offset(ORDERS[0], 0) is None
        assert offsets.pinned_offset(ORDERS[1], 0) == 5

    def test_a_group_with_only_stale_offsets_is_not_listed(self, offsets, topic_ids):
        assert offsets.groups() == ("g",)
        offsets.replay(OffsetCommitRecord(group_id="g", partition=ORDERS[1]), record_offset=2)
        assert offsets.groups() == ("g",)
        topic_ids.clear()
        assert offsets.groups() == ()

    def test_stale_offsets_are_deleted_with_the_group(self, offsets, topic_ids):
        topic_ids.clear()
        assert list(offsets.stored("g")) == [ORDERS[0], ORDERS[1]]
        assert {record.partition for record in offsets.plan_delete_group("g").records[:-1]} == {ORDERS[0], ORDERS[1]}
