import pytest
from support.clients.transacting import begin, committed, init, is_settled, write

from broker_core.cluster import GroupOffset
from broker_core.embedded.embedded_cluster import EmbeddedCluster
from broker_core.log_directory.internal_topics import CONSUMER_OFFSETS_PARTITION
from broker_core.model.exceptions import (
    InvalidGroupError,
    InvalidRequestError,
    OffsetMetadataTooLargeError,
    ProducerFencedError,
    UnknownGroupError,
    UnknownPartitionError,
    UnknownTopicError,
    UnknownTransactionalIdError,
)
from broker_core.model.identifiers import TopicPartition
from broker_core.model.limits import MAX_OFFSET_METADATA_BYTES
from broker_core.storage.writable_partition import WritablePartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def other(cluster, tmp_path, clock):
    with EmbeddedCluster(tmp_path / "log", clock=clock) as opened:
        yield opened


def offsets_of(cluster, group="group"):
    return {partition: each.offset for partition, each in cluster.fetch_offsets(group).items()}


def test_a_commit_is_visible_to_every_process_immediately(cluster, other, clock):
    cluster.commit_offsets("group", {T0: GroupOffset(offset=5, metadata="note", leader_epoch=0)})
    expected = GroupOffset(offset=5, metadata="note", leader_epoch=0, commit_time_ms=clock.time_ms)
    for process in (cluster, other):
        assert process.fetch_offsets("group") == {T0: expected}
        assert process.fetch_offsets("group", [T1]) == {}
        assert process.fetch_offsets("another") == {}
        assert process.list_groups() == ("group",)
    other.commit_offsets("group", {T0: GroupOffset(offset=3), T1: GroupOffset(offset=1)})
    assert offsets_of(cluster) == {T0: 3, T1: 1}


def test_an_invalid_commit_is_refused_as_a_whole(cluster):
    good = GroupOffset(offset=1)
    for group, offsets, error in (
        ("", {T0: good}, InvalidGroupError),
        ("group", {T0: good, T1: GroupOffset(offset=-1)}, InvalidRequestError),
        (
            "group",
            {T0: good, T1: GroupOffset(offset=1, metadata="x" * (MAX_OFFSET_METADATA_BYTES + 1))},
            OffsetMetadataTooLargeError,
        ),
        ("group", {T0: good, TopicPartition("none", 0): good}, UnknownTopicError),
        ("group", {T0: good, TopicPartition("t", 2): good}, UnknownPartitionError),
    ):
        with pytest.raises(error):
            cluster.commit_offsets(group, offsets)
    assert cluster.list_groups() == ()
    assert "__consumer_offsets" not in cluster.describe_topics()
    cluster.commit_offsets("group", {T0: GroupOffset(offset=1, metadata="x" * MAX_OFFSET_METADATA_BYTES)})


def test_transactional_offsets_apply_at_the_commit(cluster, other):
    producer = begin(cluster, "id", T0)
    write(cluster, producer, T0, "row")
    cluster.commit_offsets_in_transaction(producer, "group", {T0: GroupOffset(offset=7)})
    assert (offsets_of(other), other.list_groups()) == ({}, ())
    cluster.end_transaction(producer, commit=True)
    assert (offsets_of(other), committed(other, T0)) == ({T0: 7}, ["row"])
    assert is_settled(other, CONSUMER_OFFSETS_PARTITION)


def test_offsets_of_an_aborted_transaction_never_apply(cluster, other):
    cluster.commit_offsets("group", {T0: GroupOffset(offset=1)})
    producer = init(cluster, "id")
    cluster.commit_offsets_in_transaction(producer, "group", {T0: GroupOffset(offset=7)})
    assert offsets_of(other) == {T0: 1}
    other.abort_transaction("id")
    assert offsets_of(cluster) == offsets_of(other) == {T0: 1}
    with pytest.raises(ProducerFencedError):
        cluster.commit_offsets_in_transaction(producer, "group", {T0: GroupOffset(offset=8)})


def test_a_plain_commit_after_a_pending_one_is_kept(cluster, other):
    producer = init(cluster, "id")
    cluster.commit_offsets_in_transaction(producer, "group", {T0: GroupOffset(offset=7)})
    other.commit_offsets("group", {T0: GroupOffset(offset=9)})
    cluster.end_transaction(producer, commit=True)
    assert offsets_of(cluster) == offsets_of(other) == {T0: 9}


def test_the_first_commit_may_be_for_the_offsets_topic_itself(cluster):
    producer = init(cluster, "driver")
    decision = {CONSUMER_OFFSETS_PARTITION: GroupOffset(offset=4, metadata="slots")}
    cluster.commit_offsets_in_transaction(producer, "decisions", decision)
    cluster.end_transaction(producer, commit=True)
    assert offsets_of(cluster, "decisions") == {CONSUMER_OFFSETS_PARTITION: 4}
    cluster.commit_offsets("plain", {CONSUMER_OFFSETS_PARTITION: GroupOffset(offset=1)})
    assert cluster.list_groups() == ("decisions", "plain")


def test_an_invalid_commit_opens_no_transaction(cluster):
    producer = init(cluster, "id")
    with pytest.raises(InvalidGroupError):
        cluster.commit_offsets_in_transaction(producer, "", {T0: GroupOffset(offset=1)})
    with pytest.raises(UnknownTopicError):
        cluster.commit_offsets_in_transaction(producer, "group", {TopicPartition("x", 0): GroupOffset(offset=1)})
    assert cluster.describe_transactions(["id"])["id"].partitions == ()
    stranger = type(producer)(transactional_id="stranger", producer_id=1, producer_epoch=0)
    with pytest.raises(UnknownTransactionalIdError):
        cluster.commit_offsets_in_transaction(stranger, "group", {T0: GroupOffset(offset=1)})
    assert "__consumer_offsets" not in cluster.describe_topics()


def test_a_deleted_group_has_no_state(cluster, other):
    for number in (0, 1):
        cluster.commit_offsets(f"group-{number}", {T0: GroupOffset(offset=1), T1: GroupOffset(offset=2)})
    other.delete_group("group-0")
    assert (offsets_of(cluster, "group-0"), cluster.list_groups()) == ({}, ("group-1",))
    with pytest.raises(UnknownGroupError):
        cluster.delete_group("group-0")
    with pytest.raises(UnknownGroupError):
        cluster.delete_group("never")


def test_deleting_a_topic_removes_its_committed_offsets(cluster, other):
    cluster.create_topic("gone")
    gone = TopicPartition("gone", 0)
    for group in ("one", "two"):
        cluster.commit_offsets(group, {gone: GroupOffset(offset=5), T0: GroupOffset(offset=1)})
    other.delete_topic("gone")
    other.create_topic("gone")
    assert [offsets_of(cluster, group) for group in ("one", "two")] == [{T0: 1}, {T0: 1}]


def test_offsets_of_a_recreated_topic_are_kept_when_the_old_ones_are_removed_late(cluster):
    old = cluster.create_topic("again")
    again = TopicPartition("again", 0)
    cluster.delete_topic("again")
    cluster.create_topic("again")
    cluster.commit_offsets("group", {again: GroupOffset(offset=1)})
    cluster._own().offsets.forget_topic(old)
    assert offsets_of(cluster) == {again: 1}


def test_an_error_in_the_offsets_does_not_prevent_deleting_a_topic(cluster, caplog, monkeypatch):
    cluster.commit_offsets("group", {T0: GroupOffset(offset=1)})

    def refuse(store, batches, **how):
        hits.append(store)
        raise OSError(5, "Input/output error")

    hits = []
    with monkeypatch.context() as patched:
        patched.setattr(WritablePartition, "append_control", refuse)
        cluster.delete_topic("t")
    assert hits
    assert "could not remove the committed offsets of deleted topic t" in caplog.text
    assert "t" not in cluster.describe_topics()


def test_a_deleted_offsets_log_starts_empty(cluster, other):
    cluster.commit_offsets("group", {T0: GroupOffset(offset=1)})
    assert offsets_of(other) == {T0: 1}
    cluster.delete_topic("__consumer_offsets")
    assert offsets_of(other) == {}
    other.commit_offsets("group", {T1: GroupOffset(offset=2)})
    assert offsets_of(cluster) == offsets_of(other) == {T1: 2}


def test_the_lowest_live_pin_of_a_partition_is_found(cluster, clock):
    offsets = cluster._own().offsets
    assert offsets.pinned_offset(T0) is None
    for group, offset, until_ms in (("one", 9, 50), ("two", 4, 100), ("three", 1, 0)):
        metadata = f"streamlog-pin-until:{clock.time_ms + until_ms}"
        cluster.commit_offsets(group, {T0: GroupOffset(offset=offset, metadata=metadata)})
    assert (offsets.pinned_offset(T0), offsets.pinned_offset(T1)) == (4, None)
    clock.time_ms += 50
    assert offsets.pinned_offset(T0) == 4
    clock.time_ms += 50
    assert offsets.pinned_offset(T0) is None
