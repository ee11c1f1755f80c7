import pytest
from support.builders.builders import SOME_TIME_MS
from support.nodes.replica_builders import ReplicaNode
from support.nodes.tally_coordinator import TALLY_KIND

from broker_core.broker.coordination.coordinator_loading import CoordinatorLoading
from broker_core.log.producer_state import AppendOrigin
from broker_core.model.exceptions import CorruptBatchError, StorageError
from broker_core.record.batch_builder import build_batch
from broker_core.record.batch_reader import Record
from broker_core.record.control_records import EndTransactionMarker, build_end_transaction_marker


@pytest.fixture
def node(tmp_path):
    node = ReplicaNode(tmp_path / "log")
    node.create("__consumer_offsets", cleanup_policy="compact")
    return node


def append(node, *records, producer_id=-1):
    batch = build_batch(
        [Record(key=key, value=value, timestamp_ms=SOME_TIME_MS) for key, value in records],
        producer_id=producer_id,
        producer_epoch=min(producer_id, 0),
        is_transactional=producer_id >= 0,
    )
    node.append(batch, partition=TALLY_KIND.partition, origin=AppendOrigin.COORDINATOR)
    node.jobs.run_all()


def mark(node, producer_id, *, is_commit):
    batch = build_end_transaction_marker(
        EndTransactionMarker(is_commit=is_commit, coordinator_epoch=0),
        producer_id=producer_id,
        producer_epoch=0,
        timestamp_ms=SOME_TIME_MS,
    )
    node.append(batch, partition=TALLY_KIND.partition, origin=AppendOrigin.COORDINATOR)
    node.jobs.run_all()


def load(node):
    """[(numbers, next offset)] or [the error]; empty while it is under way."""
    found = []
    CoordinatorLoading(
        TALLY_KIND,
        node.replica(TALLY_KIND.partition),
        node.jobs,
        on_loaded=lambda tally, next_offset: found.append((tally.numbers, next_offset)),
        on_error=found.append,
    ).start()
    return found


def test_loading_applies_the_newest_record_of_each_key_and_committed_transactions(node):
    append(node, (b"a", b"1 "), (b"b", b"1 "), (b"skipped", b""))
    append(node, (b"a", b"2 "), producer_id=7)
    append(node, (b"b", b"2 "), producer_id=8)
    mark(node, 7, is_commit=True)
    mark(node, 8, is_commit=False)
    append(node, (b"c", b"1 "), producer_id=9)
    found = load(node)
    node.jobs.run_all()
    assert found == [({"a": 2, "b": 1}, 8)]


def test_a_long_log_is_loaded_in_pieces_without_blocking_the_loop(node):
    for number in range(6):
        append(node, (b"k%d" % number, b"%d " % number + b"x" * 400_000))
    jobs_before = node.jobs.count
    found = load(node)
    node.jobs.run_all()
    assert (len(found[0][0]), found[0][1]) == (6, 6)
    assert node.jobs.count - jobs_before >= 4, "one to begin, one for each piece, one to fold"


def test_an_empty_log_loads_an_empty_coordinator(node):
    found = load(node)
    assert found == []
    node.jobs.run_all()
    assert found == [({}, 0)]


def test_an_unreadable_record_is_reported_with_its_offset(node):
    append(node, (b"a", b"1 "), (b"b", b"damaged"))
    found = load(node)
    node.jobs.run_all()
    (error,) = found
    assert isinstance(error, CorruptBatchError)
    assert error.message == "__consumer_offsets-0: the record at offset 1: damaged"


def test_a_disk_error_while_loading_is_reported(tmp_path, node):
    append(node, (b"a", b"1 "))
    node.stop()
    again = ReplicaNode(tmp_path / "log")
    again.replica(TALLY_KIND.partition)
    folder = tmp_path / "log" / "__consumer_offsets-0"
    folder.rename(tmp_path / "away")
    folder.write_bytes(b"no folder")
    found = load(again)
    again.jobs.run_all()
    assert [isinstance(each, StorageError) for each in found] == [True]
