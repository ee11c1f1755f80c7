"""Replaying a real Kafka's batches gives Kafka's own indexes, producer snapshots and leader epochs, byte for byte."""

import pytest
from golden_data import unpack

from broker_core.log.append_plan import aborted_entry
from broker_core.log.batch_validation import read_marker
from broker_core.log.leader_epochs import LeaderEpochs
from broker_core.log.producer_snapshot import decode_snapshot, encode_snapshot
from broker_core.log.producer_state import ProducerState
from broker_core.log.segment_index_feed import SegmentIndexFeed
from broker_core.log.sparse_index import encode_offset_entry, encode_time_entry
from broker_core.log.transaction_index import encode_transaction_entry
from broker_core.record.batch_reader import iter_headers

PARTITIONS = [
    "__cluster_metadata-0",
    "__transaction_state-0",
    "codecs-0",
    "codecs-1",
    "compacted-0",
    "keyed-0",
    "log-append-0",
]
PARTITIONS += ["open-transaction-0", "segments-0", "transactions-0", "trimmed-0"]
EPOCHS_OUTLIVE_BATCHES = {"compacted-0", "trimmed-0"}


@pytest.fixture(scope="module")
def golden_log(tmp_path_factory):
    return unpack(tmp_path_factory.mktemp("golden")) / "log"


def content(path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def in_order(entries):
    """Kafka writes producers in the order of its hash map."""
    return encode_snapshot(sorted(entries, key=lambda entry: entry.producer_id))


def check_snapshot(folder, offset: int, producers: ProducerState) -> int:
    path = folder / f"{offset:020d}.snapshot"
    if not path.exists():
        return 0
    assert in_order(producers.entries.values()) == in_order(decode_snapshot(path.read_bytes()))
    return 1


@pytest.mark.parametrize("partition", PARTITIONS)
def test_the_derived_log_state_equals_kafkas(golden_log, partition):
    folder = golden_log / partition
    producers, leader_epochs, snapshot_count = ProducerState(partition), LeaderEpochs(), 0
    for path in sorted(folder.glob("*.log")):
        base_offset, segment = int(path.stem), path.read_bytes()
        snapshot_count += check_snapshot(folder, base_offset, producers)
        feed = SegmentIndexFeed(base_offset=base_offset, index_interval_bytes=4096)
        offsets, times, transactions = bytearray(), bytearray(), bytearray()
        for position, header in iter_headers(segment):
            entries = feed.add(header)
            if entries.offset_entry is not None:
                offsets += encode_offset_entry(entries.offset_entry, base_offset=base_offset)
            if entries.time_entry is not None:
                times += encode_time_entry(entries.time_entry, base_offset=base_offset)
            completed = producers.replay(header, marker=read_marker(segment, position, header))
            if completed is not None and completed.is_aborted:
                transactions += encode_transaction_entry(aborted_entry(completed))
            leader_epochs.assign(header.partition_leader_epoch, header.base_offset)
        closing = feed.close()
        if closing is not None:
            times += encode_time_entry(closing, base_offset=base_offset)
        assert offsets == content(path.with_suffix(".index"))
        assert times == content(path.with_suffix(".timeindex"))
        assert transactions == content(path.with_suffix(".txnindex"))
    snapshot_count += check_snapshot(folder, producers.end_offset, producers)
    assert snapshot_count > 0
    if partition not in EPOCHS_OUTLIVE_BATCHES:
        assert leader_epochs.encode() == (folder / "leader-epoch-checkpoint").read_text()
