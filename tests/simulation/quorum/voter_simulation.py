"""Voters and observers of a metadata quorum in one process: a history made by one seed, with its invariants.

The network loses, delays, reorders and repeats messages, cuts links one way and says wrongly that a node is gone; nodes
crash and lose what was not on the device, stop for a while, resign, have slow disks and clocks of their own. Then all
of it ends, and within bounded time everybody has to agree.

    opening   a quarter of the seeds: everybody starts at once, and all messages take the same time
    chaos     25 s with a fault every 0.4 s or so
    healed    agreement within 30 s
    trial     one follower does not hear its leader, which must lead on; or a leader hears nobody, and must resign
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import deque
from dataclasses import replace
from uuid import UUID

from simulation.quorum.voter_disk import VoterDisk
from simulation.quorum.voter_history import QuorumHistory
from simulation.seed_runs import Violation

from broker_core.model.client_settings import BrokerAddress
from broker_core.raft.observer_events import (
    AppendBatches,
    ElectionSaved,
    FetchAnswer,
    HighWatermarkAdvanced,
    InstallSnapshot,
    QuorumLeaderChanged,
    QuorumRequestFailed,
    SaveElection,
    SnapshotInstalled,
    SnapshotTaken,
    TimePassed,
    TruncateLog,
    WriteSnapshotChunk,
)
from broker_core.raft.quorum_values import ReplicaIdentity, SnapshotId
from broker_core.raft.quorum_voter import QuorumVoter
from broker_core.raft.voter_core import Awaited
from broker_core.raft.voter_events import (
    BeginEpochRequest,
    EndEpochRequest,
    FlushLog,
    LogFlushed,
    PeerAnswered,
    RecordsAccepted,
    RecordsProposed,
    RecordsRefused,
    RequestReceived,
    ResignRequested,
    SendRecords,
    SendReply,
    SendRequest,
    SendSnapshotChunk,
    StopVoter,
    VoteAnswer,
    VoteRequest,
    VotersAppended,
)
from broker_core.raft.voter_set import VoterSet
from broker_core.raft.voter_set_history import QuorumControls, VoterSetHistory
from broker_core.raft.voter_table import Role
from broker_core.record.batch_builder import build_batch
from broker_core.record.batch_reader import Record

CHAOS_MS = 25_000
OPENING_MS = 15_000
CONVERGENCE_MS = 30_000
TRIAL_MS = 9_000
CHUNK_BYTES = 120
LISTENER = "CONTROLLER"
MOST_EVENTS = 60_000
EPOCH_REQUESTS = (VoteRequest, BeginEpochRequest, EndEpochRequest)
"""A node that receives one of a newer epoch is in that epoch from then on."""


class SimulatedVoter:
    """A node: its disk, which stays, and its machine, which does not. `rate` and `offset` make its clock."""

    def __init__(self, node_id, *, rate, offset_ms):
        self.node_id = node_id
        self.rate, self.offset_ms = rate, offset_ms
        self.directory_id = UUID(int=node_id)
        self.disk = VoterDisk()
        self.voter = None
        self.incarnation = 0
        self.paused_until = self.slow_until = 0
        self.timer_at = None
        self.high_watermark = 0
        self.highest_seen = 0

    @property
    def key(self):
        return (self.node_id, self.directory_id)

    def local_ms(self, now_ms):
        return int(self.offset_ms + self.rate * now_ms)

    def global_ms(self, local_ms):
        return int((local_ms - self.offset_ms) / self.rate) + 1


class VoterSimulation:
    """`machine` is QuorumVoter, or one with a planted bug."""

    fault_ms = 400
    """Between two faults, in the mean."""

    def __init__(self, seed, machine=QuorumVoter):
        self.dice = random.Random(seed)
        self.machine = machine
        voter_ids = range(1, self.dice.choice((3, 3, 5)) + 1)
        observer_ids = range(11, 11 + self.dice.choice((0, 1, 2)))
        self.is_lockstep = self.dice.random() < 0.25
        self.addresses = {node_id: BrokerAddress(host=f"node-{node_id}", port=9093) for node_id in voter_ids}
        self.nodes = {node_id: self.new_node(node_id) for node_id in (*voter_ids, *observer_ids)}
        self.history = QuorumHistory(tuple(voter_ids))
        self.now_ms = 0
        self.queue, self.numbers = [], itertools.count(1)
        self.calls = {}
        self.cuts = {}
        """(from, to): until when nothing passes."""
        self.is_calm = True
        self.event_count = 0
        self.counts = dict.fromkeys(
            ("leaders", "committed", "truncated", "installed", "crashes", "lost", "repeated", "votes"), 0
        )
        self.trace = deque(maxlen=40)

    def new_node(self, node_id):
        if self.is_lockstep:
            return SimulatedVoter(node_id, rate=1.0, offset_ms=0)
        return SimulatedVoter(node_id, rate=self.dice.uniform(0.97, 1.03), offset_ms=self.dice.randrange(10_000))

    # The phases

    def totals(self):
        """How often what happened."""
        return self.counts | {"events": self.event_count}

    def run(self):
        for node in self.nodes.values():
            self.start(node)
        if self.is_lockstep:
            self.open()
        self.is_lockstep = False
        self.is_calm = False
        end_ms = self.now_ms + CHAOS_MS
        self.later(self.dice.randrange(400), ("fault", end_ms))
        self.later(self.dice.randrange(400), ("proposal", end_ms))
        self.run_until(end_ms)
        self.heal()
        self.converge()
        self.try_leader()
        self.counts["committed"] = len(self.history.committed)
        return self

    def open(self):
        self.run_until(self.now_ms + OPENING_MS, done=lambda: self.history.leaders)
        if not self.history.leaders:
            raise Violation(f"no leader within {OPENING_MS} ms of a start without any fault")

    def heal(self):
        self.is_calm = True
        self.cuts.clear()
        for node in self.nodes.values():
            node.paused_until = 0
            if node.voter is None:
                self.start(node)

    def converge(self):
        self.later(1500, ("proposal", self.now_ms + 3000))
        end_ms = self.now_ms + CONVERGENCE_MS
        self.run_until(end_ms, done=self.is_agreed)
        if not self.is_agreed():
            states = [(n.node_id, n.voter.role.name, n.voter.election, n.disk.end) for n in self.nodes.values()]
            raise Violation(f"no agreement {CONVERGENCE_MS} ms after the last fault: {states}")

    def try_leader(self):
        self.run_until(self.now_ms + 4000)  # nothing is written any more, so that every log is the leader's
        leader = self.leader()
        epoch = leader.voter.election.leader_epoch
        others = [n for n in self.history.voter_ids if n != leader.node_id]
        end_ms = self.now_ms + TRIAL_MS
        if self.dice.random() < 0.5:
            self.cuts[leader.node_id, self.dice.choice(others)] = end_ms
            self.run_until(end_ms)
            if (leader.voter.role, leader.voter.election.leader_epoch) != (Role.LEADER, epoch):
                raise Violation(f"epoch {epoch} ended though a majority fetched from its leader")
        else:
            for other in self.nodes.values():
                self.cuts[leader.node_id, other.node_id] = self.cuts[other.node_id, leader.node_id] = end_ms
            self.run_until(end_ms - 1)
            if leader.voter.role is Role.LEADER:
                raise Violation(f"{leader.node_id} leads on, {TRIAL_MS} ms after it heard of anybody")
            if self.leader() is None:
                raise Violation(f"no leader {TRIAL_MS} ms after the old one was gone")
        self.converge()

    def leader(self):
        leading = [n for n in self.nodes.values() if n.voter is not None and n.voter.role is Role.LEADER]
        return max(leading, key=lambda node: node.voter.election.leader_epoch, default=None)

    def is_agreed(self):
        leader = self.leader()
        if leader is None:
            return False
        wanted = (leader.voter.election.leader_epoch, leader.node_id, leader.disk.end, leader.disk.end)
        return all(
            node.voter.awaited is Awaited.NOTHING
            and (
                node.voter.election.leader_epoch,
                node.voter.election.leader_id,
                node.disk.end,
                node.voter.high_watermark,
            )
            == wanted
            for node in self.nodes.values()
        )

    # Time

    def later(self, delay_ms, what):
        heapq.heappush(self.queue, (self.now_ms + delay_ms, next(self.numbers), what))

    def run_until(self, end_ms, done=lambda: False):
        while self.queue and self.queue[0][0] <= end_ms and not done():
            self.now_ms, _, what = heapq.heappop(self.queue)
            self.event_count += 1
            if self.event_count > MOST_EVENTS:
                raise Violation(f"more than {MOST_EVENTS} events: somebody does not come to rest")
            getattr(self, f"on_{what[0]}")(*what[1:])
        if not done():
            self.now_ms = end_ms

    def on_timer(self, node, at_ms):
        if node.voter is not None and node.timer_at == at_ms:
            node.timer_at = None
            self.feed(node, node.incarnation, TimePassed())

    # Nodes

    def start(self, node):
        node.incarnation += 1
        node.high_watermark = node.disk.start
        node.highest_seen = 0
        node.timer_at = None
        node.voter = self.machine(
            identity=ReplicaIdentity(node_id=node.node_id, directory_id=node.directory_id, cluster_id="sim"),
            listener=LISTENER,
            **self.voter_arguments(node),
            election=node.disk.election,
            log=node.disk.reach(),
            snapshot_id=node.disk.snapshot_id,
            random_below=self.dice.randrange,
            now_ms=node.local_ms(self.now_ms),
        )
        self.feed(node, node.incarnation, TimePassed())

    def voter_arguments(self, node):
        """Who votes, and where the node is."""
        return {
            "voters": VoterSetHistory(VoterSet.of_static(self.addresses, LISTENER)),
            "endpoints": {LISTENER: BrokerAddress(host=f"node-{node.node_id}", port=9093)},
        }

    def crash(self, node):
        self.counts["crashes"] += 1
        node.voter = None
        node.disk.crash(self.dice)

    def on_start(self, node):
        if node.voter is None:
            self.start(node)

    def feed(self, node, incarnation, event):
        if node.voter is None or node.incarnation != incarnation:
            return
        if node.paused_until > self.now_ms:
            self.later(node.paused_until - self.now_ms, ("event", node, incarnation, event))
            return
        is_heard = isinstance(event, RequestReceived) and isinstance(event.request, EPOCH_REQUESTS)
        if is_heard and getattr(event.request, "voter_directory_id", None) in (None, node.directory_id):
            node.highest_seen = max(node.highest_seen, event.request.epoch)
        effects = node.voter.step(event, node.local_ms(self.now_ms))
        self.trace.append((self.now_ms, node.node_id, event, node.voter.role, node.voter.election, effects))
        for effect in effects:
            self.carry_out(node, effect)
        self.check(node)
        timer_ms = node.voter.next_timer_ms
        if timer_ms is not None:
            at_ms = max(self.now_ms, node.global_ms(timer_ms))
            if at_ms != node.timer_at:
                node.timer_at = at_ms
                self.later(at_ms - self.now_ms, ("timer", node, at_ms))

    on_event = feed

    def check(self, node):
        voter = node.voter
        if voter.awaited is not Awaited.NOTHING:
            return
        if voter.role is Role.LEADER:
            if voter.election.leader_epoch not in self.history.leaders:
                self.counts["leaders"] += 1
                if not self.is_calm and self.dice.random() < 0.2:
                    self.later(self.dice.randint(1, 60), ("short_rule", node, node.incarnation))
            self.history.on_leader(node)
        if voter.election.leader_epoch < node.highest_seen:
            raise Violation(f"{node.node_id} is in {voter.election}, and heard of epoch {node.highest_seen}")

    # Effects

    def carry_out(self, node, effect):
        disk = node.disk
        match effect:
            case SendRequest():
                self.send_request(node, effect)
            case SendReply(request_id=request_id, answer=answer):
                self.send_answer(node, request_id, answer)
            case SendRecords():
                self.send_answer(node, effect.request_id, self.with_records(disk, effect))
            case SendSnapshotChunk():
                self.send_answer(node, effect.request_id, self.with_chunk(disk, effect))
            case SaveElection(election=election):
                self.history.on_saved(node, disk.election, election)
                disk.saving.append(election)
                self.done_later(node, ("saved",))
            case AppendBatches():
                if effect.from_offset != disk.end:
                    raise Violation(f"appended at {effect.from_offset}, the log ends at {disk.end}")
                self.history.on_append(node, disk.append(effect.records))
            case TruncateLog(end_offset=end_offset):
                self.counts["truncated"] += 1
                self.history.on_truncate(node, end_offset)
                disk.truncate(end_offset)
            case FlushLog():
                disk.begin_flush()
                self.done_later(node, ("flushed",))
            case WriteSnapshotChunk(position=position, chunk=chunk):
                del disk.part[position:]
                if len(disk.part) != position:
                    raise Violation(f"a chunk at {position} of a file of {len(disk.part)} bytes")
                disk.part += chunk
            case InstallSnapshot(snapshot_id=snapshot_id):
                self.install(node, snapshot_id)
            case HighWatermarkAdvanced(high_watermark=high_watermark):
                self.history.on_high_watermark(node, self.nodes, high_watermark)
            case StopVoter(reason=reason):
                raise Violation(f"{node.node_id} stops: {reason}")
            case QuorumLeaderChanged() | RecordsAccepted() | RecordsRefused() | VotersAppended():
                pass

    def install(self, node, snapshot_id):
        content, epoch = self.history.snapshot_at(snapshot_id.end_offset)
        if (bytes(node.disk.part), epoch) != (content, snapshot_id.epoch):
            raise Violation(f"{node.node_id} installs {snapshot_id}, which is not whole or another one")
        self.counts["installed"] += 1
        node.disk.installing = snapshot_id
        self.done_later(node, ("installed",))

    def done_later(self, node, what):
        is_slow = not self.is_calm and (node.slow_until > self.now_ms or self.dice.random() < 0.03)
        delay = 2 if self.is_lockstep else self.dice.randint(50, 3000) if is_slow else self.dice.randint(1, 8)
        self.later(delay, ("disk", node, node.incarnation, *what))

    def on_disk(self, node, incarnation, what):
        if node.voter is None or node.incarnation != incarnation:
            return
        match what:
            case "saved":
                node.disk.end_saving()
                self.feed(node, incarnation, ElectionSaved())
            case "flushed":
                node.disk.end_flush()
                self.feed(node, incarnation, LogFlushed())
            case "installed":
                node.disk.install()
                node.high_watermark = min(node.high_watermark, node.disk.start)
                self.feed_installed(node, incarnation)

    def feed_installed(self, node, incarnation):
        node.high_watermark = max(node.high_watermark, node.disk.start - 1)
        controls = self.controls_at(node.disk.snapshot_id.end_offset)
        self.feed(node, incarnation, SnapshotInstalled(controls=controls))

    def controls_at(self, end_offset):
        """What a snapshot that ends there says of the voters."""
        return QuorumControls()

    # Messages

    def send_request(self, node, effect):
        request = effect.request
        if isinstance(request, VoteRequest) and not request.is_pre_vote:
            self.history.on_vote(node, request.epoch, node.key)
            self.history.on_candidacy(node, request)
        call = (node.node_id, node.incarnation, effect.request_id, request)
        to = self.receiver_of(effect)
        self.transmit(node.node_id, to, ("request", to, call), call)

    def receiver_of(self, effect):
        return effect.to

    def transmit(self, sender, receiver, what, call):
        """The message, no message, or two of them; sometimes who waits for an answer learns that none will come."""
        is_cut = self.cuts.get((sender, receiver), 0) > self.now_ms
        copies = 1 if self.is_calm else self.dice.choices((0, 1, 2), (6, 88, 6))[0]
        self.counts["repeated"] += copies > 1
        if is_cut or copies == 0:
            self.counts["lost"] += 1
            if self.dice.random() < 0.5:
                is_lie = not self.is_calm and self.dice.random() < 0.05
                self.later(self.delay_ms(), ("failure", call, is_lie))
            return
        for _ in range(copies):
            self.later(self.delay_ms(), what)

    def delay_ms(self):
        if self.is_lockstep:
            return 2
        is_slow = not self.is_calm and self.dice.random() < 0.04
        return self.dice.randint(20, 3000) if is_slow else self.dice.randint(1, 6)

    def on_request(self, to, call):
        node, request = self.nodes.get(to), call[3]
        if node is None or node.voter is None:
            self.on_failure(call, is_gone=True)
            return
        request_id = next(self.numbers)
        self.calls[request_id] = call
        self.feed(node, node.incarnation, RequestReceived(request_id=request_id, request=request, cluster_id="sim"))

    def send_answer(self, node, request_id, answer):
        call = self.calls.pop(request_id)
        request = call[3]
        is_content = isinstance(answer, FetchAnswer) and not answer.error
        is_granted = isinstance(answer, VoteAnswer) and answer.is_granted
        if (is_content or is_granted) and answer.leader_epoch != request.epoch:
            raise Violation(f"{node.node_id} answers {request} in epoch {answer.leader_epoch}")
        if is_granted and not request.is_pre_vote:
            self.counts["votes"] += 1
            self.history.on_vote(node, request.epoch, (request.candidate_id, request.candidate_directory_id))
        self.transmit(node.node_id, call[0], ("answer", call, answer), call)

    def on_answer(self, call, answer):
        node_id, incarnation, request_id, _ = call
        self.feed(self.nodes[node_id], incarnation, PeerAnswered(request_id=request_id, answer=answer))

    def on_failure(self, call, is_gone):
        node_id, incarnation, request_id, _ = call
        self.feed(self.nodes[node_id], incarnation, QuorumRequestFailed(request_id=request_id, is_gone=is_gone))

    def with_records(self, disk, effect):
        """As many batches as the dice allow; some are damaged on the way."""
        found = disk.read(effect.from_offset, effect.until_offset)
        if not self.is_calm:
            found = found[: self.dice.randint(1, 4)]
        records = b"".join(batch.content for batch in found)
        if not self.is_calm and self.dice.random() < 0.02:
            # A batch's checksum covers what is behind it; nobody could see another epoch in the header.
            records = records[:-1] + bytes([records[-1] ^ 1])
        return replace(effect.answer, records=records)

    def with_chunk(self, disk, effect):
        content = disk.snapshots[effect.snapshot_id]
        chunk = content[effect.position : effect.position + CHUNK_BYTES + len(content) // 4]
        return replace(effect.answer, size_bytes=len(content), position=effect.position, chunk=chunk)

    # What happens

    def on_proposal(self, until_ms):
        if self.now_ms >= until_ms:
            return
        up = [node for node in self.nodes.values() if node.voter is not None]
        leading = [node for node in up if node.voter.role is Role.LEADER]
        if up:
            node = self.dice.choice(up if not leading or self.dice.random() < 0.2 else leading)
            records = [Record(value=self.dice.randbytes(4), timestamp_ms=0) for _ in range(self.dice.randint(1, 3))]
            proposal = RecordsProposed(proposal_id=next(self.numbers), records=bytes(build_batch(records)))
            self.feed(node, node.incarnation, proposal)
        self.later(self.dice.randint(1, 300), ("proposal", until_ms))

    def on_fault(self, until_ms):
        if self.now_ms >= until_ms:
            return
        faults = self.faults()
        fault = self.dice.choices(tuple(faults), tuple(faults.values()))[0]
        fault(until_ms)
        self.later(int(self.dice.expovariate(1 / self.fault_ms)), ("fault", until_ms))

    def faults(self):
        """With their weights."""
        return {
            self.fault_crash: 25, self.fault_crash_leader: 15, self.fault_pause: 10, self.fault_cut: 15,
            self.fault_isolate: 10, self.fault_resign: 5, self.fault_snapshot: 15, self.fault_slow_disk: 5,
        }  # fmt: skip

    def fault_crash(self, until_ms):
        self.crash_for_a_while(self.dice.choice(list(self.nodes.values())))

    def fault_crash_leader(self, until_ms):
        leader = self.leader()
        if leader is not None:
            self.crash_for_a_while(leader)

    def on_short_rule(self, node, incarnation):
        """A leader that crashes before or soon after its first commit."""
        if node.incarnation == incarnation and not self.is_calm:
            self.crash_for_a_while(node)

    def crash_for_a_while(self, node):
        if node.voter is not None:
            self.crash(node)
            self.later(self.dice.choice((1, 50, 400, 2500, 5000)), ("start", node))

    def fault_pause(self, until_ms):
        node = self.dice.choice(list(self.nodes.values()))
        node.paused_until = min(until_ms, self.now_ms + self.dice.randint(50, 5000))

    def fault_slow_disk(self, until_ms):
        node = self.dice.choice(list(self.nodes.values()))
        node.slow_until = self.now_ms + self.dice.randint(1000, 8000)

    def fault_cut(self, until_ms):
        sender, receiver = self.dice.sample(list(self.nodes), 2)
        self.cuts[sender, receiver] = min(until_ms, self.now_ms + self.dice.randint(100, 6000))

    def fault_isolate(self, until_ms):
        alone = self.dice.choice(self.history.voter_ids)
        end_ms = min(until_ms, self.now_ms + self.dice.randint(100, 6000))
        for other in self.nodes:
            self.cuts[alone, other] = self.cuts[other, alone] = end_ms

    def fault_resign(self, until_ms):
        leader = self.leader()
        if leader is not None:
            self.feed(leader, leader.incarnation, ResignRequested())

    def fault_snapshot(self, until_ms):
        node = self.dice.choice(list(self.nodes.values()))
        end_offset = 0 if node.voter is None else node.voter.high_watermark
        is_quiet = node.voter is not None and node.disk.installing is None and node.paused_until <= self.now_ms
        if not is_quiet or end_offset <= node.disk.start or node.voter.awaited is not Awaited.NOTHING:
            return
        content, epoch = self.history.snapshot_at(end_offset)
        snapshot_id = SnapshotId(end_offset=end_offset, epoch=epoch)
        node.disk.take_snapshot(snapshot_id, content)
        self.feed(node, node.incarnation, SnapshotTaken(snapshot_id=snapshot_id, log_start_offset=end_offset))
