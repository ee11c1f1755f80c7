import pytest
from support.builders.builders import a_record

from broker_core.raft.quorum_files import snapshot_name
from broker_core.raft.quorum_values import ElectionState, SnapshotId
from broker_core.record.batch_builder import build_batch
from broker_core.storage.os_file_system import OsFileSystem
from broker_core.storage.quorum_log import QuorumLog

SNAPSHOT = SnapshotId(end_offset=40, epoch=4)


def a_batch_at(base_offset, size=2, epoch=1):
    return bytes(build_batch([a_record(value=b"v")] * size, base_offset=base_offset, leader_epoch=epoch))


def everything(log):
    return log.read(log.start_offset, until_offset=log.end_offset, max_bytes=10**9)


@pytest.fixture
def folder(tmp_path):
    return str(tmp_path / "__cluster_metadata-0")


@pytest.fixture
def opened(folder):
    logs = []

    def open_log(**settings):
        for log in logs:
            log.close()
        logs.append(QuorumLog(OsFileSystem(), folder, **settings))
        return logs[-1]

    yield open_log
    logs[-1].close()


def test_what_is_appended_is_there_after_a_restart(opened):
    log = opened()
    content = a_batch_at(0) + a_batch_at(2, epoch=3)
    log.append(content, is_synced=True)
    log.save_election(ElectionState(leader_epoch=3, leader_id=2))
    again = opened()
    assert everything(again) == content
    assert again.reach().epochs.entries == log.reach().epochs.entries
    assert again.reach().last_epoch == 3
    assert again.election() == ElectionState(leader_epoch=3, leader_id=2)


def test_a_torn_batch_is_cut_off(opened, tmp_path):
    log = opened()
    log.append(a_batch_at(0) + a_batch_at(2), is_synced=True)
    path = tmp_path / "__cluster_metadata-0" / "00000000000000000000.log"
    path.write_bytes(path.read_bytes()[:-3])
    again = opened()
    assert (again.end_offset, everything(again)) == (2, a_batch_at(0))
    again.append(a_batch_at(2, size=1), is_synced=True)
    assert path.read_bytes() == a_batch_at(0) + a_batch_at(2, size=1)


def test_segments_roll_and_are_read_and_truncated_across(opened, tmp_path):
    log = opened(segment_bytes=200)
    batches = [a_batch_at(offset, epoch=1 + offset // 4) for offset in range(0, 12, 2)]
    for batch in batches:
        log.append(batch, is_synced=False)
    names = sorted(path.name for path in (tmp_path / "__cluster_metadata-0").glob("*.log"))
    assert len(names) > 1, "no segment was rolled"
    assert everything(log) == b"".join(batches)
    assert log.read(5, until_offset=9, max_bytes=1) == batches[2]
    for end_offset in (12, 11, 10, 5, 4, 2, 0):
        log.truncate(end_offset)
        kept = batches[: end_offset // 2]
        assert everything(log) == b"".join(kept)
        assert everything(opened(segment_bytes=200)) == b"".join(kept)
        log = opened(segment_bytes=200)
    log.append(a_batch_at(0), is_synced=False)
    assert everything(log) == a_batch_at(0)


def test_truncation_forgets_the_epochs_of_what_is_gone(opened):
    log = opened()
    log.append(a_batch_at(0) + a_batch_at(2, epoch=3) + a_batch_at(4, epoch=3), is_synced=True)
    log.truncate(4)
    assert [(e.leader_epoch, e.start_offset) for e in log.reach().epochs.entries] == [(1, 0), (3, 2)]
    log.truncate(2)
    assert log.reach().last_epoch == 1
    assert opened().reach().last_epoch == 1


def test_a_snapshot_is_put_in_place_and_the_log_begins_at_its_end(opened, folder, tmp_path):
    log = opened()
    log.append(a_batch_at(0), is_synced=True)
    log.write_snapshot_chunk(SNAPSHOT, 0, b"abc")
    log.write_snapshot_chunk(SNAPSHOT, 3, b"def")
    assert log.read_part(SNAPSHOT) == b"abcdef"
    assert log.read_snapshot() == b""
    log.install_snapshot(SNAPSHOT)
    for each in (log, opened()):
        assert each.read_snapshot() == b"abcdef"
        assert (each.start_offset, each.end_offset, each.reach().last_epoch) == (40, 40, 4)
    names = {path.name for path in (tmp_path / "__cluster_metadata-0").iterdir()}
    assert "00000000000000000000.log" not in names


@pytest.mark.parametrize(
    ("position", "max_bytes", "chunk"),
    [(0, 4, b"abcd"), (4, 4, b"ef"), (5, 1, b"f"), (6, 4, b""), (7, 4, b""), (-1, 4, b""), (0, 0, b""), (0, -1, b"")],
)
def test_a_piece_of_a_snapshot_is_read_with_its_size_and_nothing_outside_of_it(opened, position, max_bytes, chunk):
    log = opened()
    assert log.read_snapshot_chunk(position, max_bytes) == (0, b"")
    log.keep_snapshot(SNAPSHOT, b"abcdef")
    assert log.read_snapshot_chunk(position, max_bytes) == (6, chunk)


def test_a_newer_snapshot_takes_the_place_of_an_older_one(opened, tmp_path):
    log = opened()
    for snapshot_id in (SNAPSHOT, SnapshotId(end_offset=50, epoch=5)):
        log.write_snapshot_chunk(snapshot_id, 0, b"abc")
        log.install_snapshot(snapshot_id)
    (left,) = (tmp_path / "__cluster_metadata-0").glob("*.checkpoint")
    assert left.name == "00000000000000000050-0000000005.checkpoint"


def test_a_crash_after_the_rename_leaves_the_state_after_the_snapshot(opened, tmp_path):
    log = opened()
    log.append(a_batch_at(0), is_synced=True)
    (tmp_path / "__cluster_metadata-0" / snapshot_name(SNAPSHOT)).write_bytes(b"abc")
    again = opened()
    assert (again.start_offset, again.end_offset, again.snapshot_id) == (40, 40, SNAPSHOT)


def test_a_crash_before_the_rename_leaves_the_state_before_the_snapshot(opened, tmp_path):
    log = opened()
    log.append(a_batch_at(0), is_synced=True)
    log.write_snapshot_chunk(SNAPSHOT, 0, b"abc")
    again = opened()
    assert (again.end_offset, again.snapshot_id) == (2, None)
    assert not list((tmp_path / "__cluster_metadata-0").glob("*.part"))


@pytest.mark.parametrize(("epoch", "start_offset"), [(1, 0), (2, 4)], ids=["the same records", "other records"])
def test_a_snapshot_beside_a_longer_log_counts_if_the_log_has_other_records(opened, tmp_path, epoch, start_offset):
    log = opened()
    log.append(a_batch_at(0) + a_batch_at(2) + a_batch_at(4), is_synced=True)
    (tmp_path / "__cluster_metadata-0" / snapshot_name(SnapshotId(end_offset=4, epoch=epoch))).write_bytes(b"abc")
    assert opened().start_offset == start_offset


def test_a_snapshot_of_its_own_lets_the_log_begin_later(opened):
    log = opened()
    log.append(a_batch_at(0) + a_batch_at(2) + a_batch_at(4, epoch=2), is_synced=True)
    log.keep_snapshot(SnapshotId(end_offset=4, epoch=1), b"first")
    assert (log.start_offset, log.end_offset, log.read_snapshot()) == (0, 6, b"first")
    log.append(a_batch_at(6, epoch=3) + a_batch_at(8, epoch=3), is_synced=True)
    log.keep_snapshot(SnapshotId(end_offset=8, epoch=3), b"second")
    for open_one in (lambda: log, opened):
        each = open_one()
        assert (each.start_offset, each.end_offset, each.read_snapshot()) == (6, 10, b"second")
        assert everything(each) == a_batch_at(6, epoch=3) + a_batch_at(8, epoch=3)
        assert (each.epoch_of(5), each.epoch_of(7), each.reach().last_epoch) == (3, 3, 3)
        assert each.reach().start_epoch == 3
    again = opened()
    again.append(a_batch_at(10, epoch=4), is_synced=False)
    assert len(again.take_unsynced()) == 1 and again.take_unsynced() == ()
    again.truncate(8)
    assert (again.end_offset, everything(again)) == (8, a_batch_at(6, epoch=3))


def test_a_snapshot_of_everything_leaves_an_empty_segment(opened, tmp_path):
    log = opened()
    log.append(a_batch_at(0) + a_batch_at(2), is_synced=True)
    log.keep_snapshot(SnapshotId(end_offset=4, epoch=1), b"all")
    for open_one in (lambda: log, opened):
        each = open_one()
        assert (each.start_offset, each.end_offset, everything(each)) == (4, 4, b"")
    names = sorted(path.name for path in (tmp_path / "__cluster_metadata-0").glob("0*"))
    assert names == ["00000000000000000004-0000000001.checkpoint", "00000000000000000004.log"]


class NotedRemovals(OsFileSystem):
    """Notes which files are removed and when the directory is synced."""

    def __init__(self):
        self.notes = []

    def remove(self, path):
        self.notes.append(path.rpartition("/")[2])
        super().remove(path)

    def sync_directory(self, path):
        self.notes.append("synced")
        super().sync_directory(path)


def test_segments_below_a_snapshot_go_one_by_one_so_that_no_crash_leaves_a_gap(folder):
    fs = NotedRemovals()
    log = QuorumLog(fs, folder, segment_bytes=1)
    for offset in range(0, 8, 2):
        log.append(a_batch_at(offset), is_synced=True)
    fs.notes.clear()
    log.keep_snapshot(SnapshotId(end_offset=6, epoch=1), b"content")
    removals = fs.notes[fs.notes.index(f"{0:020d}.log") :]
    assert removals[:6] == [f"{0:020d}.log", "synced", f"{2:020d}.log", "synced", f"{4:020d}.log", "synced"]
    assert (log.start_offset, log.end_offset) == (6, 8)
    log.close()
