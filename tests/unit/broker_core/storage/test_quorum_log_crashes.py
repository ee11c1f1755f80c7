"""A voter's log on a disk that loses what was not synced: what was flushed is there, elections are old or new."""

import random

import pytest
from support.builders.builders import a_record
from support.files.faulty_file_system import FaultyFileSystem, Killed

from broker_core.raft.quorum_values import ElectionState, SnapshotId
from broker_core.record.batch_builder import build_batch
from broker_core.record.batch_reader import iter_headers
from broker_core.storage.quorum_log import QuorumLog

FOLDER = "/data/__cluster_metadata-0"
STEP_COUNT = 12
SEED_COUNT = 60


class ModelledLog:
    """The log, and what has to be in it."""

    def __init__(self, seed):
        self.dice = random.Random(seed)
        self.fs = FaultyFileSystem()
        self.fs.make_directory("/data")
        self.log = QuorumLog(self.fs, FOLDER, segment_bytes=400)
        self.batches, self.flushed_end, self.truncating_to = [], 0, None
        self.elections = {ElectionState()}
        self.epoch = 1

    def end(self):
        return self.batches[-1][1] if self.batches else self.log.start_offset

    def step(self):
        self.dice.choice((self.append, self.append, self.flush, self.truncate, self.elect, self.snapshot))()

    def append(self):
        self.epoch += self.dice.random() < 0.2
        base_offset, size = self.end(), self.dice.randint(1, 3)
        records = [a_record(value=self.dice.randbytes(self.dice.randint(1, 90)))] * size
        content = bytes(build_batch(records, base_offset=base_offset, leader_epoch=self.epoch))
        self.batches.append((base_offset, base_offset + size, content))
        self.log.append(content, is_synced=False)

    def flush(self):
        for file in self.log.take_unsynced():
            file.sync()
        self.flushed_end = self.end()

    def truncate(self):
        self.flush()
        lowest = self.log.start_offset if self.log.snapshot_id is None else self.log.snapshot_id.end_offset
        ends = [next_offset for _, next_offset, _ in self.batches if next_offset >= lowest]
        if ends:
            self.truncating_to = self.dice.choice(ends)
            self.log.truncate(self.truncating_to)
            self.batches = [batch for batch in self.batches if batch[1] <= self.truncating_to]
            self.flushed_end, self.truncating_to = self.end(), None

    def elect(self):
        new = ElectionState(leader_epoch=self.dice.randrange(100), voted_id=self.dice.randrange(3))
        self.elections.add(new)
        self.log.save_election(new)
        self.elections = {new}

    def snapshot(self):
        ends = [next_offset for _, next_offset, _ in self.batches if next_offset <= self.flushed_end]
        newest = self.log.snapshot_id
        if ends and (newest is None or newest.end_offset < ends[-1]):
            snapshot_id = SnapshotId(end_offset=ends[-1], epoch=self.log.epoch_of(ends[-1] - 1))
            self.log.keep_snapshot(snapshot_id, b"up to %d" % ends[-1])

    def reopen(self):
        """After a crash; the model takes over what is there, once that was found to be right."""
        assert self.fs.exists(FOLDER), "the folder's own name is not on the device"
        log = self.log = QuorumLog(self.fs, FOLDER, segment_bytes=400)
        log.sync()
        found = log.read(log.start_offset, until_offset=log.end_offset, max_bytes=10**9)
        there = [found[at : at + header.size_bytes] for at, header in iter_headers(found)]
        expected = [content for base_offset, _, content in self.batches if base_offset >= log.start_offset]
        assert there == expected[: len(there)]
        least = self.flushed_end if self.truncating_to is None else self.truncating_to
        assert log.end_offset >= least, f"flushed to {least}, the log ends at {log.end_offset}"
        assert log.election() in self.elections
        if log.start_offset:
            assert log.snapshot_id is not None and log.snapshot_id.end_offset >= log.start_offset
        if log.snapshot_id is not None:
            assert log.read_snapshot() == b"up to %d" % log.snapshot_id.end_offset
        self.batches = [batch for batch in self.batches if log.start_offset <= batch[0] < log.end_offset]
        self.flushed_end, self.truncating_to = log.end_offset, None
        self.elections = {log.election()}
        self.epoch = max(self.epoch, log.reach().last_epoch)


@pytest.mark.parametrize("seed", range(SEED_COUNT))
def test_after_any_crash_a_voters_log_has_what_was_flushed(seed):
    model = ModelledLog(seed)
    kills = 0
    for _ in range(6):
        for _ in range(model.dice.randrange(STEP_COUNT)):
            model.step()
        model.fs.kill_at_call(model.dice.randint(1, 25), torn_bytes=model.dice.choice((None, 0, 1, 40, 200)))
        try:
            for _ in range(STEP_COUNT):
                model.step()
        except Killed:
            kills += 1
        if model.dice.random() < 0.7:
            model.fs.power_loss(model.dice if model.dice.random() < 0.7 else None)
        else:
            model.fs.restart()
        model.reopen()
    assert kills > 0


def test_an_election_that_a_restarted_voter_reads_survives_a_power_loss():
    """Killed between the rename of quorum-state and the sync of its directory, a voter came back, gave its vote again
    from what it read, and lost it with the power."""
    fs = FaultyFileSystem()
    fs.make_directory("/data")
    log = QuorumLog(fs, FOLDER)
    log.save_election(ElectionState(leader_epoch=1))
    fs.kill_at_call(5)
    with pytest.raises(Killed):
        log.save_election(ElectionState(leader_epoch=2, voted_id=3))
    assert fs.calls[-1][0] == "sync_directory"
    fs.restart()
    again = QuorumLog(fs, FOLDER)
    again.sync()
    seen = again.election()
    assert seen.voted_id == 3
    fs.power_loss()
    assert QuorumLog(fs, FOLDER).election() == seen
