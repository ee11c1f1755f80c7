"""A replica's effects on its folder, read back as a start reads them."""

from uuid import UUID

import pytest
from support.replication.driven_replica import batches

from broker_core.client.replica_folder import ReplicaFolder, put_stray_aside, read_watermarks, write_watermarks
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

FLIGHTS = TopicPartition("flights", 0)
FS = OsFileSystem()


@pytest.fixture
def opened(tmp_path):
    folders = []

    def open_folder():
        for folder in folders:
            folder.close()
        folders[:] = [ReplicaFolder(FS, str(tmp_path), FLIGHTS, topic_id=UUID(int=7), config=TopicConfig())]
        return folders[0]

    yield open_folder
    for folder in folders:
        folder.close()


def append(folder, records, *, from_offset, until_offset, **others):
    effect = AppendFetched(records=records, from_offset=from_offset, until_offset=until_offset, **others)
    return folder.carry_out(effect, now_ms=0)


def bounds(log):
    return log.log_start_offset, log.log_end_offset


def test_a_new_replica_is_empty_and_knows_no_epoch(opened):
    log = opened().found(0)
    assert (bounds(log), log.epochs.entries) == ((0, 0), ())


def test_batches_keep_their_offsets_and_epochs_and_are_found_again(opened, tmp_path):
    folder = opened()
    records = batches(3, epoch=4) + batches(2, base_offset=5, epoch=6)
    assert append(folder, records, from_offset=0, until_offset=7) == 7
    log = opened().found(4)
    assert (bounds(log), log.high_watermark, log.synced_end) == ((0, 7), 4, 7)
    assert log.epochs.entries == (
        EpochEntry(leader_epoch=4, start_offset=0), EpochEntry(leader_epoch=6, start_offset=5),
    )  # fmt: skip
    assert (tmp_path / "flights-0" / "00000000000000000000.log").read_bytes() == records


def test_a_truncation_removes_batches_and_epochs_and_tells_where_the_log_ends(opened):
    folder = opened()
    append(folder, batches(3, epoch=4) + batches(2, base_offset=3, epoch=6), from_offset=0, until_offset=5)
    assert folder.carry_out(TruncatePartition(end_offset=4), now_ms=0) == 3, "4 is inside a batch"
    log = opened().found(5)
    assert (bounds(log), log.high_watermark) == ((0, 3), 3)
    assert log.epochs.latest_epoch == 4


def test_a_log_that_starts_anew_lies_where_its_first_batch_does(opened):
    folder = opened()
    append(folder, batches(3), from_offset=0, until_offset=3)
    assert folder.carry_out(RestartPartition(start_offset=20), now_ms=0) == 20
    assert folder.carry_out(SyncPartition(), now_ms=0) == 20
    assert append(folder, batches(2, base_offset=20), from_offset=20, until_offset=22) == 22
    assert bounds(opened().found(0)) == (20, 22)


def test_a_log_that_starts_inside_a_batch_keeps_the_batch(opened):
    folder = opened()
    folder.carry_out(RestartPartition(start_offset=20), now_ms=0)
    append(folder, batches(5, base_offset=18), from_offset=18, until_offset=23, restart_offset=18)
    folder.carry_out(AdvanceLogStart(log_start_offset=20), now_ms=0)
    assert bounds(opened().found(0)) == (20, 23)


def test_a_log_that_starts_anew_is_empty_there_before_and_behind_where_it_was(opened):
    folder = opened()
    append(folder, batches(3), from_offset=0, until_offset=3)
    folder.carry_out(RestartPartition(start_offset=20), now_ms=0)
    log = opened().found(0)
    assert (bounds(log), log.epochs.entries) == ((20, 20), ())
    assert opened().carry_out(RestartPartition(start_offset=7), now_ms=0) == 7
    assert bounds(opened().found(0)) == (7, 7)


def test_damaged_batches_are_refused(opened):
    folder = opened()
    with pytest.raises(StreamlogError):
        append(folder, batches(3)[:-1] + b"\x01", from_offset=0, until_offset=3)


def test_a_removed_replica_leaves_nothing(tmp_path):
    folder = ReplicaFolder(FS, str(tmp_path), FLIGHTS, topic_id=UUID(int=7), config=TopicConfig())
    folder.remove(FS)
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_a_deleted_topic_with_the_same_name_is_put_aside(opened, tmp_path):
    append(opened(), batches(3), from_offset=0, until_offset=3)
    put_stray_aside(FS, str(tmp_path), FLIGHTS, topic_id=UUID(int=7))
    assert [path.name for path in tmp_path.iterdir()] == ["flights-0"]
    put_stray_aside(FS, str(tmp_path), FLIGHTS, topic_id=UUID(int=8))
    assert [path.name for path in tmp_path.iterdir()] == [f"flights-0.{UUID(int=7).hex}-stray"]


def test_watermarks_are_kept_in_kafkas_file(tmp_path):
    assert read_watermarks(FS, str(tmp_path)) == {}
    write_watermarks(FS, str(tmp_path), {FLIGHTS: 12})
    assert (tmp_path / "replication-offset-checkpoint").read_text() == "0\n1\nflights 0 12\n"
    assert read_watermarks(FS, str(tmp_path)) == {FLIGHTS: 12}
