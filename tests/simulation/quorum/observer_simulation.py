"""One observer machine at simulated controllers: a history made by one seed, with its invariants.

The network loses, delays, repeats and damages messages; controllers stop and come back; leaders change and logs
diverge; the observer crashes between two effects and starts from its disk, which may have lost its unsynced tail.
"""

from __future__ import annotations

import heapq
import itertools
import random
from dataclasses import replace

from simulation.quorum.simulated_controllers import ADDRESSES, SimulatedControllers
from simulation.seed_runs import Violation

from broker_core.log.leader_epochs import LeaderEpochs
from broker_core.raft.observer_events import (
    AppendBatches,
    BatchesAppended,
    ElectionSaved,
    HighWatermarkAdvanced,
    InstallSnapshot,
    LogTruncated,
    QuorumAnswered,
    QuorumLeaderChanged,
    QuorumRequestFailed,
    SaveElection,
    SendFetch,
    SendFetchSnapshot,
    SnapshotChunkWritten,
    SnapshotInstalled,
    SnapshotTaken,
    StopObserver,
    TimePassed,
    TruncateLog,
    WriteSnapshotChunk,
)
from broker_core.raft.quorum_observer import QuorumObserver, Waiting
from broker_core.raft.quorum_values import ElectionState, LogReach, SnapshotId
from broker_core.record.batch_reader import iter_headers

STEP_COUNT = 220


class SimulatedDisk:
    """The observer's files: saved election, log as (base offset, next offset, epoch, bytes), snapshot being fetched."""

    def __init__(self):
        self.election = ElectionState()
        self.start, self.batches = 0, []
        self.start_epoch = 0
        self.part = bytearray()

    @property
    def end(self):
        return self.batches[-1][1] if self.batches else self.start

    def reach(self):
        epochs = LeaderEpochs()
        for base_offset, _, epoch, _ in self.batches:
            epochs.assign(epoch, base_offset)
        return LogReach(
            log_start_offset=self.start, log_end_offset=self.end, epochs=epochs, start_epoch=self.start_epoch
        )


class ObserverSimulation:
    """`machine` is QuorumObserver, or one with a planted bug."""

    def __init__(self, seed, machine=QuorumObserver):
        self.dice = random.Random(seed)
        self.controllers = SimulatedControllers(self.dice)
        self.machine, self.disk = machine, SimulatedDisk()
        self.now_ms = 0
        self.queue, self.numbers = [], itertools.count()
        self.incarnation = 0
        self.faults = 0
        self.is_calm = False
        self.highest_epoch = 0
        self.counts = dict.fromkeys(("truncated", "installed", "elections", "restarts", "appended", "taken"), 0)
        self.trace = []
        self.start()

    def totals(self):
        """How often what happened."""
        return self.counts | {"faults": self.faults}

    def run(self):
        for _ in range(STEP_COUNT):
            self.turn()
        self.is_calm = True
        for log in self.controllers.logs.values():
            log.is_up = True
        self.controllers.elect()
        for follower in self.controllers.logs.values():
            if follower is not self.controllers.leader:
                self.controllers.copy_to(follower, len(self.controllers.leader.batches))
                follower.known_epoch = self.controllers.epoch
        self.controllers.commit()
        quiet = self.dice.choice([log for log in self.controllers.logs.values() if log is not self.controllers.leader])
        quiet.is_up = self.dice.random() < 0.5  # a node that may be gone for good
        for _ in range(400):
            self.deliver()
        self.check_converged()
        return self

    def turn(self):
        chance = self.dice.random()
        if chance < 0.35:
            self.controllers.step()
        elif chance < 0.37:
            self.crash()
        elif chance < 0.375:
            self.take_snapshot()
        else:
            self.deliver()

    # The observer and its disk

    def start(self):
        self.incarnation += 1
        self.observer = self.machine(
            bootstrap=list(ADDRESSES.values()), election=self.disk.election, log=self.disk.reach()
        )
        self.watermark = self.observer.high_watermark
        self.feed(TimePassed())

    def crash(self):
        """What was appended but not synced may be gone; what was saved as an election is not."""
        self.counts["restarts"] += 1
        lost = self.dice.choice((0, 0, 1, 2))
        if lost:
            self.disk.batches = self.disk.batches[:-lost]
        self.disk.part = self.disk.part[: self.dice.randint(0, len(self.disk.part))]
        self.start()

    def take_snapshot(self):
        """Of the observer's own records, up to the high watermark: its log begins there."""
        below = [batch for batch in self.disk.batches if batch[1] <= self.watermark]
        if below and self.observer.waiting in (Waiting.NOTHING, Waiting.REQUEST):
            self.counts["taken"] += 1
            _, self.disk.start, self.disk.start_epoch, _ = below[-1]
            self.disk.batches = self.disk.batches[len(below) :]
            snapshot_id = SnapshotId(end_offset=self.disk.start, epoch=self.disk.start_epoch)
            self.feed(SnapshotTaken(snapshot_id=snapshot_id, log_start_offset=self.disk.start))

    def feed(self, event):
        effects = self.observer.step(event, self.now_ms)
        self.trace.append((self.now_ms, event, effects))
        for effect in effects:
            self.carry_out(effect)
        self.check()

    def carry_out(self, effect):
        match effect:
            case SendFetch() | SendFetchSnapshot():
                self.send(effect)
            case SaveElection(election=election):
                self.counts["elections"] += 1
                self.disk.election = election
                self.later(ElectionSaved())
            case AppendBatches():
                self.append(effect)
                self.later(BatchesAppended())
            case TruncateLog(end_offset=end_offset):
                self.counts["truncated"] += 1
                self.disk.batches = [batch for batch in self.disk.batches if batch[1] <= end_offset]
                self.later(LogTruncated())
            case WriteSnapshotChunk():
                self.write_chunk(effect)
                self.later(SnapshotChunkWritten())
            case InstallSnapshot(snapshot_id=snapshot_id):
                self.install(snapshot_id)
                self.later(SnapshotInstalled())
            case QuorumLeaderChanged() | HighWatermarkAdvanced():
                pass
            case StopObserver(reason=reason):
                raise Violation(f"stopped: {reason}")

    def append(self, effect):
        self.counts["appended"] += 1
        if effect.from_offset != self.disk.end:
            raise Violation(f"appended at {effect.from_offset}, the log ends at {self.disk.end}")
        for position, header in iter_headers(effect.records):
            content = effect.records[position : position + header.size_bytes]
            self.disk.batches.append((header.base_offset, header.next_offset, header.partition_leader_epoch, content))
        if effect.until_offset != self.disk.end:
            raise Violation(f"appended until {effect.until_offset}, the log ends at {self.disk.end}")

    def write_chunk(self, effect):
        if effect.position == 0:
            self.disk.part.clear()
        if effect.position != len(self.disk.part):
            raise Violation(f"a chunk at {effect.position} of a file of {len(self.disk.part)} bytes")
        self.disk.part += effect.chunk

    def install(self, snapshot_id):
        self.counts["installed"] += 1
        if bytes(self.disk.part) != self.controllers.snapshot_contents[snapshot_id]:
            raise Violation(f"{snapshot_id} is installed but is not whole")
        self.disk.start, self.disk.batches = snapshot_id.end_offset, []
        self.disk.start_epoch = snapshot_id.epoch

    # The network

    def send(self, request):
        (node_id,) = [n for n, address in ADDRESSES.items() if address == request.to]
        self.later(("request", node_id, request))

    def later(self, what):
        delay = self.dice.randint(0, 5) if self.is_calm or self.dice.random() < 0.9 else self.dice.randint(0, 3000)
        heapq.heappush(self.queue, (self.now_ms + delay, next(self.numbers), self.incarnation, what))

    def deliver(self):
        """The next thing that is due: a message, a completion, or the observer's timer."""
        timer = self.observer.next_timer_ms
        if self.queue and (timer is None or self.queue[0][0] <= timer):
            at_ms, _, incarnation, what = heapq.heappop(self.queue)
            self.now_ms = max(self.now_ms, at_ms)
            if incarnation == self.incarnation:
                self.receive(what)
        elif timer is not None:
            self.now_ms = max(self.now_ms, timer)
            self.feed(TimePassed())

    def receive(self, what):
        if not isinstance(what, tuple):
            self.feed(what)
        elif what[0] == "request":
            self.arrive(*what[1:])
        else:
            self.feed(what[1])

    def arrive(self, node_id, request):
        answer = self.controllers.answer(node_id, request)
        if answer is None:
            self.later(("answer", QuorumRequestFailed(request_id=request.request_id)))
            return
        event = QuorumAnswered(request_id=request.request_id, answer=self.maybe_damaged(answer))
        copies = 1 if self.is_calm else self.dice.choice((0, 1, 1, 1, 2, 2))
        self.faults += copies != 1
        for _ in range(copies):
            self.later(("answer", event))

    def maybe_damaged(self, answer):
        records = getattr(answer, "records", b"")
        if self.is_calm or not records or self.dice.random() > 0.05:
            return answer
        self.faults += 1
        # A batch's checksum does not cover the epoch in the header, so another epoch would not be detected.
        at = self.dice.choice([p + self.dice.randrange(17, h.size_bytes) for p, h in iter_headers(records)])
        damaged = records[:at] + bytes([records[at] ^ 1]) + records[at + 1 :]
        return replace(answer, records=self.dice.choice((damaged, records[:at])))

    # Invariants

    def check(self):
        observer, disk = self.observer, self.disk
        if observer.high_watermark < self.watermark:
            raise Violation(f"the high watermark fell from {self.watermark} to {observer.high_watermark}")
        self.watermark = observer.high_watermark
        if self.watermark > self.controllers.committed_end:
            raise Violation(f"high watermark {self.watermark}, committed {self.controllers.committed_end}")
        truth = {batch.base_offset: batch for batch in self.controllers.committed}
        for base_offset, next_offset, _, content in disk.batches:
            if next_offset <= self.watermark and truth[base_offset].content != content:
                raise Violation(f"the batch at {base_offset} is below the high watermark and another one")
        if self.watermark > disk.end:
            raise Violation(f"high watermark {self.watermark}, the log ends at {disk.end}")
        self.check_election(observer.election, disk.election)

    def check_election(self, election, saved):
        if election.leader_id >= 0 and self.controllers.leaders.get(election.leader_epoch) != election.leader_id:
            raise Violation(f"{election.leader_id} is no leader of epoch {election.leader_epoch}")
        if saved.leader_epoch < self.highest_epoch:
            raise Violation(f"epoch {self.highest_epoch} was saved, and now {saved.leader_epoch}")
        if election.leader_epoch > max(saved.leader_epoch, self.disk.reach().last_epoch):
            raise Violation(f"epoch {election.leader_epoch} counts, {saved.leader_epoch} is saved")
        self.highest_epoch = saved.leader_epoch

    def check_converged(self):
        leader = self.controllers.leader
        if (self.disk.end, self.watermark) != (leader.end, self.controllers.committed_end):
            raise Violation(
                f"ends at {self.disk.end} and {self.watermark}, the leader's log at {leader.end} and"
                f" {self.controllers.committed_end}"
            )
        theirs = {batch.base_offset: batch.content for batch in self.controllers.committed + leader.batches}
        for base_offset, _, _, content in self.disk.batches:
            if theirs[base_offset] != content:
                raise Violation(f"the batch at {base_offset} is not the leader's")
