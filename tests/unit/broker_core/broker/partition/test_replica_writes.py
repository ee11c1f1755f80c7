"""A replica's effects on its folder, read back as a start reads them."""

from uuid import UUID

import pytest
from support.replication.driven_replica import batches

from broker_core.broker.partition.replica_writes import carry_out, found_log
from broker_core.log.leader_epochs import EpochEntry
from broker_core.model.exceptions import StreamlogError
from broker_core.model.identifiers import TopicPartition
from broker_core.model.topic_config import TopicConfig
from broker_core.replication.replication_values import (
    AdvanceLogStart,
    AppendFetched,
    RestartPartition,
    SyncPartition,
    TruncatePartition,
)
from broker_core.storage.os_file_system import OsFileSystem
from broker_core.storage.writable_partition import WritablePartition

FLIGHTS = TopicPartition("flights", 0)
TOPIC_ID = UUID(int=7)
FS = OsFileSystem()


@pytest.fixture
def opened(tmp_path):
    folders = []

    def open_folder():
        for folder in folders:
            folder.close()
        path = str(tmp_path / "flights-0")
        WritablePartition.create(FS, path, FLIGHTS, TOPIC_ID)
        folders[:] = [WritablePartition.open(FS, path, FLIGHTS, config=TopicConfig(), topic_id=TOPIC_ID)]
        folders[0].refresh()
        return folders[0]

    yield open_folder
    for folder in folders:
        folder.close()


def append(folder, records, *, from_offset, until_offset, **others):
    effect = AppendFetched(records=records, from_offset=from_offset, until_offset=until_offset, **others)
    return carry_out(folder, effect, now_ms=0)


def bounds(log):
    return log.log_start_offset, log.log_end_offset


def test_a_new_replica_is_empty_and_knows_no_epoch(opened):
    log = found_log(opened(), 0)
    assert (bounds(log), log.epochs.entries) == ((0, 0), ())


def test_batches_keep_their_offsets_and_epochs_and_are_found_again(opened, tmp_path):
    folder = opened()
    records = batches(3, epoch=4) + batches(2, base_offset=5, epoch=6)
    assert append(folder, records, from_offset=0, until_offset=7) == 7
    log = found_log(opened(), 4)
    assert (bounds(log), log.high_watermark, log.synced_end) == ((0, 7), 4, 7)
    assert log.epochs.entries == (
        EpochEntry(leader_epoch=4, start_offset=0), EpochEntry(leader_epoch=6, start_offset=5),
    )  # fmt: skip
    assert (tmp_path / "flights-0" / "00000000000000000000.log").read_bytes() == records


def test_a_truncation_removes_batches_and_epochs_and_tells_where_the_log_ends(opened):
    folder = opened()
    append(folder, batches(3, epoch=4) + batches(2, base_offset=3, epoch=6), from_offset=0, until_offset=5)
    assert carry_out(folder, TruncatePartition(end_offset=4), now_ms=0) == 3, "4 is inside a batch"
    log = found_log(opened(), 5)
    assert (bounds(log), log.high_watermark) == ((0, 3), 3)
    assert log.epochs.latest_epoch == 4


def test_a_log_that_starts_anew_lies_where_its_first_batch_does(opened):
    folder = opened()
    append(folder, batches(3), from_offset=0, until_offset=3)
    assert carry_out(folder, RestartPartition(start_offset=20), now_ms=0) == 20
    assert carry_out(folder, SyncPartition(), now_ms=0) == 20
    assert append(folder, batches(2, base_offset=20), from_offset=20, until_offset=22) == 22
    assert bounds(found_log(opened(), 0)) == (20, 22)


def test_a_log_that_starts_inside_a_batch_keeps_the_batch(opened):
    folder = opened()
    carry_out(folder, RestartPartition(start_offset=20), now_ms=0)
    append(folder, batches(5, base_offset=18), from_offset=18, until_offset=23, restart_offset=18)
    carry_out(folder, AdvanceLogStart(log_start_offset=20), now_ms=0)
    assert bounds(found_log(opened(), 0)) == (20, 23)


def test_a_log_that_starts_anew_is_empty_there_before_and_behind_where_it_was(opened):
    folder = opened()
    append(folder, batches(3), from_offset=0, until_offset=3)
    carry_out(folder, RestartPartition(start_offset=20), now_ms=0)
    log = found_log(opened(), 0)
    assert (bounds(log), log.epochs.entries) == ((20, 20), ())
    assert carry_out(opened(), RestartPartition(start_offset=7), now_ms=0) == 7
    assert bounds(found_log(opened(), 0)) == (7, 7)


def test_damaged_batches_are_refused(opened):
    folder = opened()
    with pytest.raises(StreamlogError):
        append(folder, batches(3)[:-1] + b"\x01", from_offset=0, until_offset=3)
