import pytest
from support.builders.builders import SOME_TIME_MS, a_batch
from support.nodes.replica_builders import T0, ReplicaNode

from broker_core.broker.partition.partition_target import PartitionTarget, QueuedChange
from broker_core.log.append_request import AppendRequest
from broker_core.model.exceptions import InvalidRecordError, OffsetOutOfRangeError, UnknownTopicError
from broker_core.storage.readable_partition import ReadablePartition
from broker_core.storage.writable_partition import WritablePartition


@pytest.fixture
def node(tmp_path):
    node = ReplicaNode(tmp_path / "log")
    node.create(internal_segment_bytes="400")
    yield node
    node.crash()


def queued(batch):
    return AppendRequest(batches=batch, on_done=pytest.fail, on_error=pytest.fail)


def target_of(node):
    return PartitionTarget(
        access=node.directory.access, topic_partition=T0, topic_id=node.topics.topic("t").topic_id
    )  # fmt: skip


def append(target, *appends, wants_all_producers=False):
    return target.append(appends, now_ms=SOME_TIME_MS, wants_all_producers=wants_all_producers)


def test_each_append_has_its_result_at_its_index(node):
    changed = append(target_of(node), queued(a_batch(1)), queued(a_batch(1, base_offset=5)), queued(a_batch(2)))
    assert changed.answers[0].result.base_offset == 0
    assert isinstance(changed.answers[1], InvalidRecordError)
    assert changed.answers[2].result.base_offset == 1
    assert changed.bounds.log_end_offset == 3


def test_a_group_returns_changed_producers_or_all_of_them_on_request_or_after_a_roll(node):
    target = target_of(node)
    append(target, queued(a_batch(1, producer=(1, 0, 0))))
    changed = append(target, queued(a_batch(1, producer=(2, 0, 0))))
    assert (set(changed.producers), changed.has_all_producers) == ({2}, False)
    changed = append(target, queued(a_batch(1)), wants_all_producers=True)
    assert (set(changed.producers), changed.has_all_producers) == ({1, 2}, True)
    changed = append(target, *[queued(a_batch(2)) for _ in range(5)])
    assert (changed.has_rolled, set(changed.producers), changed.has_all_producers) == (True, {1, 2}, True)


def test_a_refused_change_is_a_result_and_the_partition_stays_open(node):
    change = QueuedChange(
        work=lambda store: store.delete_records(9), on_done=pytest.fail, on_error=pytest.fail
    )  # fmt: skip
    changed = target_of(node).change(change)
    assert isinstance(changed.answers[0], OffsetOutOfRangeError)
    assert changed.bounds.log_end_offset == 0


def test_a_recreated_topic_is_not_the_requested_one(node):
    target = target_of(node)
    node.delete()
    node.create()
    with pytest.raises(UnknownTopicError, match="was deleted"):
        append(target, queued(a_batch(1)))
    with pytest.raises(UnknownTopicError):
        target.change(QueuedChange(work=WritablePartition.flush, on_done=pytest.fail, on_error=pytest.fail))
    with pytest.raises(UnknownTopicError):
        target.ask(ReadablePartition.bounds)
    assert node.replica().bounds.log_end_offset == 0
