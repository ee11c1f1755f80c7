import pytest
from support.builders.builders import a_record
from support.nodes.tally_coordinator import TallyNode

from broker_core.broker.coordination.marker_sender import MarkerSender
from broker_core.broker.coordination.node_markers import NodeMarkers
from broker_core.log_directory.internal_topics import CONSUMER_OFFSETS_PARTITION
from broker_core.model.exceptions import ProducerFencedError, UnknownTopicError
from broker_core.model.identifiers import ProducerIdAndEpoch, TopicPartition
from broker_core.record.batch_builder import build_batch
from broker_core.record.control_records import EndTransactionMarker
from broker_core.txn.transaction_replies import EndingTransaction

T0, T1, GONE = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("gone", 0)
PRODUCER = ProducerIdAndEpoch(producer_id=7, producer_epoch=1)
DATA_FILE = "t-0/00000000000000000000.log"


@pytest.fixture
def node(tmp_path):
    node = TallyNode(tmp_path / "log")
    node.create("t", partition_count=2)
    return node


class OneLog:
    """GroupLogs of one partition."""

    def __init__(self, runtime):
        self.runtime = runtime

    def append_marker(self, partition, *marker):
        assert partition == CONSUMER_OFFSETS_PARTITION
        self.runtime.append_marker(*marker)


def a_sender(node, peers=None):
    writer = NodeMarkers(node.replicas, OneLog(node.runtime), node.clock, peers)
    return MarkerSender(node.replicas, writer, node.timers, node.clock)


@pytest.fixture
def sender(node):
    return a_sender(node)


def an_ending(*partitions, epoch=1, is_commit=True, coordinator_epoch=0, is_epoch_bumped=True):
    return EndingTransaction(
        transactional_id="t",
        producer_id=7,
        producer_epoch=epoch,
        is_commit=is_commit,
        partitions=partitions,
        coordinator_epoch=coordinator_epoch,
        is_epoch_bumped=is_epoch_bumped,
    )


def open_in(node, partition):
    batch = build_batch([a_record()], producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    node.append(batch, partition=partition)
    node.jobs.run_all()


def entry(node, partition):
    found = node.replica(partition).producer_entries()[7]
    return found.producer_epoch, found.coordinator_epoch, found.transaction_first_offset


def test_completion_is_reported_once_every_partition_has_its_marker(node, sender):
    open_in(node, T0)
    written = []
    sender.send([an_ending(T0, T1, CONSUMER_OFFSETS_PARTITION)], written.append)
    assert len(sender.under_way) == 1
    assert written == []
    node.jobs.run_all()
    assert written == [an_ending(T0, T1, CONSUMER_OFFSETS_PARTITION)]
    assert entry(node, T0) == entry(node, T1) == (1, 0, None)
    assert not sender.under_way


def test_a_marker_in_progress_is_not_sent_again(node, sender):
    written = []
    for _ in range(2):
        sender.send([an_ending(T0)], written.append)
    node.jobs.run_all()
    assert (written, node.replica(T0).bounds.log_end_offset) == ([an_ending(T0)], 1)


def test_without_partitions_the_end_completes_immediately(sender):
    written = []
    sender.send([an_ending()], written.append)
    assert written == [an_ending()]


def test_a_deleted_topic_is_skipped(node, sender):
    written = []
    sender.send([an_ending(GONE, TopicPartition("t", 9))], written.append)
    assert len(written) == 1


def test_a_failed_marker_write_is_retried(node, sender):
    written = []
    node.fs.refuse("sync", DATA_FILE, count=2)
    sender.send([an_ending(T0, T1)], written.append)
    node.jobs.run_all()
    assert sender.under_way[an_ending(T0, T1)] == {T0}
    for tries in range(2):
        assert (written, node.fs.refused) == ([], tries + 1)
        node.fire_timers(1_000)
    assert len(written) == 1


def test_a_marker_uses_the_higher_coordinator_epoch_of_the_log(node, sender):
    written = []
    sender.send([an_ending(T0, coordinator_epoch=5)], written.append)
    sender.send([an_ending(T1)], written.append)
    node.jobs.run_all()
    sender.send([an_ending(T0, epoch=2)], written.append)
    node.jobs.run_all()
    assert (len(written), entry(node, T0)) == (3, (2, 5, None))


def test_no_marker_is_written_for_an_outdated_producer_epoch(node, sender):
    written = []
    sender.send([an_ending(T0, epoch=3)], written.append)
    node.jobs.run_all()
    sender.send([an_ending(T0, epoch=2)], written.append)
    node.jobs.run_all()
    assert (len(written), entry(node, T0)) == (2, (3, 0, None))


def test_a_single_marker_is_validated_by_the_log(node, sender):
    told = []
    marker = EndTransactionMarker(is_commit=False, coordinator_epoch=0)
    older = ProducerIdAndEpoch(producer_id=7, producer_epoch=0)
    for producer, partition in ((PRODUCER, T0), (older, T0), (PRODUCER, GONE), (PRODUCER, CONSUMER_OFFSETS_PARTITION)):
        sender._writer.write(
            partition, producer, marker, lambda: told.append("written"), lambda each: told.append(type(each))
        )
        node.jobs.run_all()
    assert told == ["written", ProducerFencedError, UnknownTopicError, "written"]


@pytest.mark.parametrize("is_known", [True, False])
def test_a_marker_of_the_other_kind_is_an_error_that_names_partition_and_producer(tmp_path, caplog, is_known):
    """A second marker was written behind it, and the transaction counted as completed."""
    node = TallyNode(tmp_path / "log")
    node.create("t", partition_count=2)
    partitions = (T0, T1, CONSUMER_OFFSETS_PARTITION)
    told = []
    for partition in (T0, CONSUMER_OFFSETS_PARTITION):
        node.set("a", 1, producer=ProducerIdAndEpoch(producer_id=7, producer_epoch=0))
        sender = a_sender(node)
        abort = EndTransactionMarker(is_commit=False, coordinator_epoch=0)
        sender._writer.write(partition, PRODUCER, abort, lambda: told.append("written"), told.append)
        node.jobs.run_all()
    assert told == ["written", "written"]
    if not is_known:
        for partition in partitions:
            node.replica(partition).change(lambda store: store.roll(1), told.append, told.append)
        node.jobs.run_all()
        node.stop()
        node = TallyNode(tmp_path / "log")
    ends = [node.replica(each).bounds.log_end_offset for each in partitions]
    sender = a_sender(node)
    written = []
    sender.send([an_ending(*partitions)], written.append)
    for _ in range(3):
        node.jobs.run_all()
        node.fire_timers(1_000)
    assert written == []
    assert sender.under_way == {an_ending(*partitions): {T0, CONSUMER_OFFSETS_PARTITION}}
    assert [node.replica(each).bounds.log_end_offset for each in partitions] == [ends[0], ends[1] + 1, ends[2]]
    for partition in ("t-0", "__consumer_offsets-0"):
        assert caplog.text.count(f"{partition}: producer 7 has an abort marker with epoch 1") == 1


def test_the_marker_of_an_old_client_s_last_transaction_is_no_error(node, sender):
    written = []
    sender.send([an_ending(T0, is_commit=False)], written.append)
    node.jobs.run_all()
    sender.send([an_ending(T0, is_epoch_bumped=False)], written.append)
    node.jobs.run_all()
    assert len(written) == 2


class NoPeers:
    """Every partition of this broker is led by it."""

    def on_marker(self, partition, producer_id):
        pass


def test_in_a_cluster_a_coordinator_that_was_replaced_writes_no_marker_behind_its_successor(node):
    # An old client's next transaction has the same epoch: the late marker would end it.
    sender = a_sender(node, NoPeers())
    written = []
    sender.send([an_ending(T0, coordinator_epoch=5, is_epoch_bumped=False)], written.append)
    node.jobs.run_all()
    late = an_ending(T0, coordinator_epoch=4, is_commit=False, is_epoch_bumped=False)
    sender.send([late], written.append)
    node.jobs.run_all()
    node.fire_timers(1_000)
    assert (len(written), node.replica(T0).bounds.log_end_offset) == (1, 1)
    assert not sender.under_way


def test_a_coordinator_that_moved_sends_nothing_again(node, sender):
    written = []
    node.fs.refuse("sync", DATA_FILE)
    sender.send([an_ending(T0)], written.append)
    node.jobs.run_all()
    assert sender.under_way
    sender.forget_all()
    node.fire_timers(1_000)
    assert (written, node.replica(T0).bounds.log_end_offset, dict(sender.under_way)) == ([], 0, {})
