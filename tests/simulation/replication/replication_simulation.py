"""The replicas of a partition in one process: a history made by one seed, with its invariants.

The network loses, delays, reorders and repeats messages and cuts links; brokers crash and lose what was not on the
device, lose the whole disk, fail to write, stop in order, pause; the controller is right, and hears late. Producers
append with acks=1 and acks=all to whoever believes to lead, log starts move. Then all of it ends, and within bounded
time all replicas are in sync and equal.

    chaos     8 s with a fault every 200 ms or so; in half of the seeds nothing is appended in the last 3 s, so that
              there are leaders without records
    healed    agreement within 10 s, in half of the seeds without another record
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import deque
from functools import partial

from kio.schema.errors import ErrorCode
from simulation.replication.partition_controller import PartitionController
from simulation.replication.replica_disk import ReplicaDisk, batches_in
from simulation.replication.replication_history import ReplicationHistory
from simulation.seed_runs import Violation

from broker_core.record.batch_builder import build_batch
from broker_core.record.batch_reader import Record
from broker_core.replication.isr_request_queue import IsrRequestQueue
from broker_core.replication.partition_replica import PartitionReplica
from broker_core.replication.replication_values import (
    AdvanceLogStart,
    AnswerAppend,
    AppendFetched,
    AskLeaderBounds,
    PartitionFetch,
    ProposeIsr,
    ReplicaFetchAnswer,
    ReplicationSettings,
    RestartPartition,
    SaveLeaderEpoch,
    SyncPartition,
    TruncatePartition,
    WatermarkAdvanced,
)

CHAOS_MS = 8000
QUIET_MS = 3000
CONVERGENCE_MS = 10_000
HEARTBEAT_MS = 60
HINT_CHANCE = 0.05
"""Of each look at the sessions."""
SESSION_MS = 300
REQUEST_TIMEOUT_MS = 300
IDLE_POLL_MS = 15
MOST_EVENTS = 60_000
SETTINGS = ReplicationSettings(max_lag_ms=500, fetch_backoff_ms=40)
PARTITION = "partition"


class SimulatedBroker:
    """Its disk, which stays, and its machines, which do not."""

    def __init__(self, broker_id):
        self.broker_id = broker_id
        self.disk = ReplicaDisk()
        self.incarnation = 0
        self.is_up = self.is_wiped = False
        self.is_healthy_disk = True
        self.paused_until = 0
        self.watermark = 0
        self.last_proposal = 0
        self.clear()

    def clear(self):
        self.replica = None
        self.queue = IsrRequestQueue()
        self.broker_epoch = -1
        self.version = -1
        self.standings = {}
        self.fetching = None
        self.asking = None
        self.appended = {}
        self.attempts = {}
        self.proposing = None
        self.must_sync = self.is_syncing = False
        self.disk_free_ms = 0
        self.timer_at = None


class ReplicationSimulation:
    """`machine` is PartitionReplica, or one with a planted bug. Then the history has no hints, as it had none when the
    seed that shows the bug was found."""

    def __init__(self, seed, machine=PartitionReplica, queue=IsrRequestQueue):
        self.dice = random.Random(seed)
        self.hint_dice = random.Random(f"hints of {seed}")
        self.hint_chance = HINT_CHANCE if (machine, queue) == (PartitionReplica, IsrRequestQueue) else 0.0
        self.machine, self.queue_class = machine, queue
        ids = tuple(range(1, self.dice.choice((2, 3, 3, 3, 4)) + 1))
        self.min_count = self.dice.choice((1, 2, 2))
        self.nodes = {broker_id: SimulatedBroker(broker_id) for broker_id in ids}
        self.controller = PartitionController(
            ids,
            min_in_sync_count=self.min_count,
            may_elect_uncleanly=self.dice.random() < 0.1,
            on_change=self.controller_changed,
        )
        self.history = ReplicationHistory(self.nodes, self.controller)
        self.heard_ms = {}
        self.now_ms = 0
        self.events, self.numbers = [], itertools.count(1)
        self.cuts = {}
        """(from, to): until when nothing passes; the controller is 0."""
        self.is_calm = False
        self.event_count = 0
        self.counts = dict.fromkeys(
            ("committed", "acknowledged", "refused", "elections", "truncated", "crashes", "wiped", "failed disks",
             "expanded", "shrunk", "lost", "restarted", "wrong hints"), 0
        )  # fmt: skip
        self.trace = deque(maxlen=60)

    # The phases

    def totals(self):
        """How often what happened."""
        return self.counts | {"events": self.event_count}

    def run(self):
        for node in self.nodes.values():
            self.start(node)
        self.later(HEARTBEAT_MS, ("sessions",))
        end_ms = self.now_ms + CHAOS_MS
        self.later(self.dice.randrange(200), ("fault", end_ms))
        self.later(self.dice.randrange(100), ("produce", end_ms - self.dice.choice((0, QUIET_MS))))
        self.run_until(end_ms)
        self.heal()
        end_ms = self.now_ms + CONVERGENCE_MS
        if self.dice.random() < 0.5:
            self.later(500, ("produce", self.now_ms + 1000))
        self.run_until(self.now_ms + 1500)
        self.run_until(end_ms, done=self.is_agreed)
        if not self.is_agreed():
            raise Violation(f"no agreement {CONVERGENCE_MS} ms after the last fault: {self.states()}")
        self.counts["committed"] = len(self.history.committed)
        self.counts["acknowledged"] = self.history.acknowledged_count
        return self

    def heal(self):
        self.is_calm = True
        self.cuts.clear()
        for node in self.nodes.values():
            node.paused_until = 0
            node.is_healthy_disk = True
            if not node.is_up:
                self.start(node)
            elif node.replica is not None and node.replica.is_failed:
                self.crash(node)
                self.start(node)

    def states(self):
        return [
            (n.broker_id, n.is_up, n.replica and (n.replica.leader or n.replica.follower) and
             getattr(n.replica.follower, "state", "leads"), n.disk.end, n.watermark)
            for n in self.nodes.values()
        ], self.controller.assignment, self.controller.elr  # fmt: skip

    def is_agreed(self):
        now = self.controller.assignment
        leader = self.nodes.get(now.leader_id)
        if leader is None or len(now.isr) < len(self.nodes) or leader.appended:
            return False
        start = max(node.disk.start for node in self.nodes.values())
        contents = {b"".join(b.content for b in node.disk.read(start, node.disk.end)) for node in self.nodes.values()}
        return len(contents) == 1 and all(
            node.replica is not None and node.watermark == node.disk.end == leader.disk.end
            for node in self.nodes.values()
        )

    # Time

    def later(self, delay_ms, what):
        heapq.heappush(self.events, (self.now_ms + delay_ms, next(self.numbers), what))

    def run_until(self, end_ms, done=lambda: False):
        while self.events and self.events[0][0] <= end_ms and not done():
            self.now_ms, _, what = heapq.heappop(self.events)
            self.event_count += 1
            if self.event_count > MOST_EVENTS:
                raise Violation(f"more than {MOST_EVENTS} events: somebody does not come to rest")
            getattr(self, f"on_{what[0]}")(*what[1:])
        if not done():
            self.now_ms = end_ms

    # Brokers

    def start(self, node):
        node.clear()
        node.queue = self.queue_class()
        node.incarnation += 1
        node.is_up = True
        self.later(0, ("heartbeat", node, node.incarnation))

    def crash(self, node):
        self.counts["crashes"] += 1
        node.is_up = False
        node.disk.crash(self.dice)
        node.clear()

    def on_start(self, node):
        if not node.is_up:
            self.start(node)

    def feed(self, node, incarnation, act):
        """`act(replica, now)` is an event; its effects are carried out."""
        if not node.is_up or node.incarnation != incarnation or node.replica is None:
            return
        if node.paused_until > self.now_ms:
            self.later(node.paused_until - self.now_ms, ("event", node, incarnation, act))
            return
        self.carry_out_all(node, act(node.replica, self.now_ms))
        self.after(node)

    on_event = feed

    def carry_out_all(self, node, effects):
        if effects:
            self.trace.append((self.now_ms, node.broker_id, effects))
        for effect in effects:
            self.carry_out(node, effect)

    def after(self, node):
        if not node.is_up or node.replica is None:
            return
        self.maybe_fetch(node)
        self.maybe_propose(node)
        self.maybe_sync(node)
        timers = [node.replica.next_timer_ms, node.queue.next_timer_ms]
        at_ms = min((timer for timer in timers if timer is not None), default=None)
        if at_ms is not None and at_ms != node.timer_at:
            node.timer_at = max(at_ms, self.now_ms)
            self.later(node.timer_at - self.now_ms, ("timer", node, node.incarnation, node.timer_at))

    def on_timer(self, node, incarnation, at_ms):
        if node.incarnation == incarnation and node.timer_at == at_ms:
            node.timer_at = None
            self.feed(node, incarnation, lambda replica, now_ms: replica.on_time(now_ms))

    # The metadata

    def controller_changed(self):
        (before, _), (now, _) = self.controller.versions[-2:]
        self.counts["elections"] += now.leader_epoch > before.leader_epoch
        self.counts["expanded"] += len(now.isr) > len(before.isr)
        self.counts["shrunk"] += len(now.isr) < len(before.isr)
        self.trace.append((self.now_ms, "controller", now, self.controller.elr, self.controller.brokers))
        self.history.on_controller()

    def on_sessions(self):
        for broker_id in list(self.controller.brokers):
            if self.heard_ms.get(broker_id, 0) < self.now_ms - SESSION_MS:
                self.controller.fence(broker_id)
        self.maybe_hint()
        self.controller.elect_if_needed()
        if self.is_calm:
            self.controller.elect_uncleanly()
        self.later(HEARTBEAT_MS, ("sessions",))

    def maybe_hint(self):
        """Somebody says that there is no process of a broker any more: it is fenced at once. Mostly that is wrong."""
        if self.is_calm or self.hint_dice.random() >= self.hint_chance:
            return
        broker_id = self.hint_dice.choice(sorted(self.nodes))
        if broker_id in self.controller.brokers:
            self.counts["wrong hints"] += self.nodes[broker_id].is_up
            self.controller.fence(broker_id)

    def on_heartbeat(self, node, incarnation):
        if not node.is_up or node.incarnation != incarnation:
            return
        if node.paused_until > self.now_ms:
            self.later(node.paused_until - self.now_ms, ("heartbeat", node, incarnation))
            return
        self.transmit(node.broker_id, 0, ("heard", node, incarnation, node.broker_epoch, node.version))
        self.later(HEARTBEAT_MS, ("heartbeat", node, incarnation))

    def on_heard(self, node, incarnation, broker_epoch, version):
        """At the controller: a heartbeat, or a registration if the broker has no epoch yet. A late one of an earlier
        incarnation says nothing."""
        if broker_epoch < 0:
            if not node.is_up or node.incarnation != incarnation or node.broker_epoch >= 0:
                return
            self.heard_ms[node.broker_id] = self.now_ms
            broker_epoch = self.controller.register(node.broker_id, incarnation, has_kept_disk=not node.is_wiped)
            node.is_wiped = False
        elif not self.controller.is_current(node.broker_id, broker_epoch):
            return
        else:
            self.heard_ms[node.broker_id] = self.now_ms
            if version >= self.registered_at(node.broker_id, broker_epoch):
                self.controller.unfence(node.broker_id)
        metadata = (broker_epoch, self.controller.version)
        self.transmit(0, node.broker_id, ("metadata", node, incarnation, *metadata))

    def registered_at(self, broker_id, broker_epoch):
        for version, (_, brokers) in enumerate(self.controller.versions):
            if broker_id in brokers and brokers[broker_id].broker_epoch == broker_epoch:
                return version
        return self.controller.version + 1

    def on_metadata(self, node, incarnation, broker_epoch, version):
        if not node.is_up or node.incarnation != incarnation or version <= node.version:
            return
        if node.paused_until > self.now_ms:
            self.later(node.paused_until - self.now_ms, ("metadata", node, incarnation, broker_epoch, version))
            return
        if node.replica is None:
            node.broker_epoch, node.version = broker_epoch, version - 1
            log = node.disk.found()
            node.watermark = log.high_watermark
            node.replica = self.machine(
                own_id=node.broker_id, log=log, standing_of=partial(standing_of, node), settings=SETTINGS,
                min_in_sync_count=self.min_count,
            )  # fmt: skip
        if self.dice.random() < 0.3:
            node.version = version - 1  # several changes as one
        while node.version < version:
            node.version += 1
            assignment, node.standings = self.controller.versions[node.version]
            self.feed(node, incarnation, lambda replica, now_ms, a=assignment: replica.on_assignment(a, now_ms))
            self.feed(node, incarnation, lambda replica, now_ms: replica.on_standings(now_ms))

    # Effects

    def carry_out(self, node, effect):
        disk = node.disk
        match effect:
            case AppendFetched():
                if effect.restart_offset is not None:
                    disk.restart(effect.restart_offset)
                    node.watermark = effect.restart_offset
                self.append(node, batches_in(effect.records))
                self.write(node, lambda replica, now_ms: replica.on_written(now_ms))
            case TruncatePartition(end_offset=end_offset):
                self.counts["truncated"] += 1
                self.history.on_attempt(node, ("truncate", end_offset))
                self.history.on_truncate(node, end_offset)
                disk.truncate(end_offset)
                self.write(node, lambda replica, now_ms: replica.on_written(now_ms))
            case RestartPartition(start_offset=start_offset):
                self.counts["restarted"] += 1
                disk.restart(start_offset)
                node.watermark = start_offset
                self.write(node, lambda replica, now_ms: replica.on_written(now_ms))
            case SyncPartition():
                self.write(node, lambda replica, now_ms: replica.on_written(now_ms))
            case AdvanceLogStart(log_start_offset=log_start_offset):
                self.history.deleted_below = max(self.history.deleted_below, log_start_offset)
                disk.advance_start(log_start_offset)
            case WatermarkAdvanced(high_watermark=high_watermark):
                self.history.on_watermark(node, high_watermark)
                if self.dice.random() < 0.3:
                    disk.high_watermark = high_watermark
            case AskLeaderBounds(leader_epoch=leader_epoch):
                self.history.on_attempt(node, ("ask", disk.end))
                self.ask_bounds(node, leader_epoch)
            case ProposeIsr(proposal=proposal):
                node.queue.submit(PARTITION, proposal)
            case AnswerAppend(request_id=request_id, error=error):
                batch = node.appended.pop(request_id)
                if error is ErrorCode.none:
                    self.history.on_acknowledged(node, batch)
                else:
                    self.counts["refused"] += 1
            case _:
                assert isinstance(effect, SaveLeaderEpoch), effect

    def append(self, node, added):
        count_before = len(node.disk.batches)
        if added and added[0].base_offset < node.disk.end:
            raise Violation(f"{node.broker_id} appends {added[0]}, its log ends at {node.disk.end}")
        node.disk.append(added)
        node.attempts.clear()
        self.history.on_append(node, added, count_before)

    def write(self, node, what):
        """One after the other; a failing disk fails what is under way."""
        node.disk_free_ms = max(node.disk_free_ms, self.now_ms + self.disk_ms())
        self.later(node.disk_free_ms - self.now_ms, ("disk_done", node, node.incarnation, node.disk.begin_sync(), what))

    def on_disk_done(self, node, incarnation, count, act):
        if not node.is_up or node.incarnation != incarnation:
            return
        node.is_syncing = False
        if node.is_healthy_disk:
            node.disk.end_sync(count)
            self.feed(node, incarnation, act)
        else:
            self.counts["failed disks"] += 1
            self.feed(node, incarnation, lambda replica, now_ms: replica.on_write_failed())

    def maybe_sync(self, node):
        """Of a leader: what was appended since the last sync began."""
        if node.must_sync and not node.is_syncing and not node.replica.is_failed:
            node.must_sync, node.is_syncing = False, True
            until = node.disk.end
            self.write(node, lambda replica, now_ms: replica.on_synced(until, now_ms))

    def disk_ms(self):
        is_slow = not self.is_calm and self.dice.random() < 0.05
        return self.dice.randint(20, 400) if is_slow else self.dice.randint(1, 6)

    # Messages

    def transmit(self, sender, receiver, what):
        """The message, no message, or two of them."""
        is_cut = self.cuts.get((sender, receiver), 0) > self.now_ms
        copies = 1 if self.is_calm else self.dice.choices((0, 1, 2), (3, 94, 3))[0]
        if is_cut or copies == 0:
            self.counts["lost"] += 1
            return
        for _ in range(copies):
            self.later(self.delay_ms(), what)

    def delay_ms(self):
        is_slow = not self.is_calm and self.dice.random() < 0.04
        return self.dice.randint(20, 1500) if is_slow else self.dice.randint(1, 6)

    def maybe_fetch(self, node):
        position = node.replica.fetch_position()
        if position is None or node.fetching is not None:
            return
        leader_id = node.replica.follower.assignment.leader_id
        node.fetching = call = (next(self.numbers), node, node.incarnation, position)
        self.later(REQUEST_TIMEOUT_MS, ("fetch_timeout", call))
        fetch = PartitionFetch(
            fetch_offset=position.fetch_offset,
            current_leader_epoch=position.leader_epoch,
            last_fetched_epoch=position.last_fetched_epoch,
            replica_id=node.broker_id,
            broker_epoch=node.broker_epoch,
            log_start_offset=position.log_start_offset,
        )
        self.transmit(node.broker_id, leader_id, ("fetch", self.nodes[leader_id], call, fetch))

    def on_fetch(self, leader, call, fetch):
        if not leader.is_up or leader.replica is None:
            return
        if leader.paused_until > self.now_ms:
            self.later(leader.paused_until - self.now_ms, ("fetch", leader, call, fetch))
            return
        verdict, effects = leader.replica.on_fetch(fetch, self.now_ms)
        records = b""
        if verdict.until_offset >= 0:
            records = self.records_for(leader, fetch.fetch_offset, verdict.until_offset)
        answer = ReplicaFetchAnswer(
            error=verdict.error,
            diverging=verdict.diverging,
            high_watermark=verdict.high_watermark,
            log_start_offset=verdict.log_start_offset,
            records=records,
        )
        self.carry_out_all(leader, effects)
        self.transmit(leader.broker_id, call[1].broker_id, ("fetched", call, answer))
        self.after(leader)

    def records_for(self, leader, from_offset, until_offset):
        """As many batches as the dice allow; some are damaged on the way."""
        found = leader.disk.read(from_offset, until_offset)[: self.dice.randint(1, 4)]
        records = b"".join(batch.content for batch in found)
        if records and not self.is_calm and self.dice.random() < 0.01:
            records = records[:-1] + bytes([records[-1] ^ 1])
        return records

    def on_fetched(self, call, answer):
        """Answers to earlier fetches come, too: what they are worth, the machine knows."""
        _, node, incarnation, position = call
        is_awaited = node.fetching == call
        if is_awaited and not answer.records and not answer.error and answer.diverging is None:
            node.fetching = ("idle", node.incarnation)
            self.later(IDLE_POLL_MS, ("poll", node, node.fetching))
        elif is_awaited:
            node.fetching = None
        self.feed(node, incarnation, lambda replica, now_ms: replica.on_answer(position, answer, now_ms))

    def on_poll(self, node, idle):
        if node.fetching is idle:
            node.fetching = None
            self.after(node)

    def on_fetch_timeout(self, call):
        _, node, incarnation, _ = call
        if node.fetching is call:
            node.fetching = None
            self.feed(node, incarnation, lambda replica, now_ms: replica.on_no_answer(now_ms) or [])

    def ask_bounds(self, node, leader_epoch):
        leader_id = node.replica.follower.assignment.leader_id
        call = node.asking = (next(self.numbers), node, node.incarnation, leader_epoch)
        self.later(REQUEST_TIMEOUT_MS, ("bounds_timeout", call))
        self.transmit(node.broker_id, leader_id, ("bounds_request", self.nodes[leader_id], call))

    def on_bounds_request(self, leader, call):
        role = leader.replica and leader.replica.leader
        if leader.is_up and role and role.leader_epoch == call[3]:
            bounds = (leader.replica.log.log_start_offset, leader.replica.log.log_end_offset)
            self.transmit(leader.broker_id, call[1].broker_id, ("bounds", call, bounds))

    def on_bounds(self, call, bounds):
        _, node, incarnation, leader_epoch = call
        start, end = bounds
        if node.asking == call:
            node.asking = None
            self.feed(
                node, incarnation,
                lambda replica, now_ms: replica.on_bounds(
                    leader_epoch, log_start_offset=start, log_end_offset=end, now_ms=now_ms
                ),
            )  # fmt: skip

    def on_bounds_timeout(self, call):
        _, node, incarnation, _ = call
        if node.asking is call:
            node.asking = None
            self.feed(node, incarnation, lambda replica, now_ms: replica.on_no_answer(now_ms) or [])

    def maybe_propose(self, node):
        request = node.queue.next_request(self.now_ms)
        if request is not None:
            call = node.proposing = (next(self.numbers), node, node.incarnation, request[PARTITION], node.broker_epoch)
            self.later(REQUEST_TIMEOUT_MS, ("proposal_timeout", call))
            self.transmit(node.broker_id, 0, ("proposal", call))

    def on_proposal(self, call):
        """One connection carries them, so they come in order and once; some late, after their sender gave up."""
        number, node, _, proposal, broker_epoch = call
        if number <= node.last_proposal:
            return
        node.last_proposal = number
        answer = self.controller.alter(node.broker_id, broker_epoch, proposal)
        self.transmit(0, node.broker_id, ("proposal_answer", call, answer))

    def on_proposal_answer(self, call, answer):
        _, node, incarnation, proposal, _ = call
        if node.proposing != call or node.incarnation != incarnation:
            return
        node.proposing = None
        if answer is None:
            node.queue.on_failed(self.now_ms)
            self.after(node)
        else:
            node.queue.on_answered([answer.error], self.now_ms)
            self.feed(node, incarnation, lambda replica, now_ms: replica.on_isr_answer(proposal, answer, now_ms))

    def on_proposal_timeout(self, call):
        if call[1].proposing is call:
            call[1].proposing = None
            call[1].queue.on_failed(self.now_ms)
            self.after(call[1])

    # Producers

    def on_produce(self, until_ms):
        if self.now_ms >= until_ms:
            return
        up = [n for n in self.nodes.values() if n.is_up and n.replica is not None and n.paused_until <= self.now_ms]
        leading = [node for node in up if node.replica.leader is not None]
        if up:
            self.produce(self.dice.choice(leading or up), self.dice.choice((1, -1, -1)))
        self.later(self.dice.randint(1, 60), ("produce", until_ms))

    def produce(self, node, acks):
        replica = node.replica
        refusal = replica.append_refusal(acks)
        if refusal is not None:
            self.counts["refused"] += 1
            return
        records = [Record(value=self.dice.randbytes(4), timestamp_ms=0) for _ in range(self.dice.randint(1, 3))]
        batch = build_batch(records, base_offset=node.disk.end, leader_epoch=replica.leader.leader_epoch)
        (added,) = batches_in(bytes(batch))
        self.append(node, [added])
        node.must_sync = True
        replica.on_appended(added.base_offset, added.next_offset)
        if acks == -1:
            request_id = next(self.numbers)
            node.appended[request_id] = added
            self.carry_out_all(node, replica.await_replication(request_id, added.next_offset))
        self.after(node)

    # Faults

    def on_fault(self, until_ms):
        if self.now_ms >= until_ms:
            return
        fault = self.dice.choices(
            (self.fault_crash, self.fault_crash_leader, self.fault_pause, self.fault_cut, self.fault_isolate,
             self.fault_elect, self.fault_stop, self.fault_wipe, self.fault_disk, self.fault_delete,
             self.fault_unclean),
            (15, 15, 10, 15, 8, 15, 6, 6, 4, 8, 4),
        )[0]  # fmt: skip
        fault(until_ms)
        self.later(int(self.dice.expovariate(1 / 200)), ("fault", until_ms))

    def any_node(self):
        return self.dice.choice(list(self.nodes.values()))

    def fault_crash(self, until_ms):
        self.crash_for_a_while(self.any_node())

    def fault_crash_leader(self, until_ms):
        leader = self.nodes.get(self.controller.assignment.leader_id)
        if leader is not None:
            self.crash_for_a_while(leader)

    def crash_for_a_while(self, node):
        if node.is_up:
            self.crash(node)
            self.later(self.dice.choice((1, 20, 100, 400, 1200)), ("start", node))

    def fault_pause(self, until_ms):
        self.any_node().paused_until = min(until_ms, self.now_ms + self.dice.randint(20, 1200))

    def fault_cut(self, until_ms):
        sender, receiver = self.dice.sample([0, *self.nodes], 2)
        self.cuts[sender, receiver] = min(until_ms, self.now_ms + self.dice.randint(50, 1500))

    def fault_isolate(self, until_ms):
        alone, end_ms = self.any_node().broker_id, min(until_ms, self.now_ms + self.dice.randint(50, 1500))
        for other in (0, *self.nodes):
            self.cuts[alone, other] = self.cuts[other, alone] = end_ms

    def fault_elect(self, until_ms):
        """One or two elections in a row."""
        for _ in range(self.dice.randint(1, 2)):
            self.controller.elect(self.any_node().broker_id)

    def fault_stop(self, until_ms):
        node = self.any_node()
        if node.is_up and self.controller.is_current(node.broker_id, node.broker_epoch):
            self.controller.stop(node.broker_id)
            self.later(self.dice.randint(20, 300), ("stopped", node, node.incarnation))

    def on_stopped(self, node, incarnation):
        if node.is_up and node.incarnation == incarnation:
            self.crash_for_a_while(node)

    def fault_wipe(self, until_ms):
        """The disk is lost; of fewer replicas at a time than acknowledge, so that some other one has everything."""
        node = self.any_node()
        wiped_count = sum(each.is_wiped for each in self.nodes.values())
        others = [n for n in self.controller.holders if n != node.broker_id and not self.nodes[n].is_wiped]
        if others and node.is_up and wiped_count < self.controller.min_count - 1:
            self.counts["wiped"] += 1
            self.crash_for_a_while(node)
            node.disk.wipe()
            node.watermark, node.is_wiped = 0, True

    def fault_disk(self, until_ms):
        """Writes fail until the broker is started again."""
        node = self.any_node()
        if node.is_up:
            node.is_healthy_disk = False
            self.later(self.dice.randint(50, 500), ("replaced", node))

    def on_replaced(self, node):
        node.is_healthy_disk = True
        if node.is_up:
            self.crash_for_a_while(node)

    def fault_delete(self, until_ms):
        node = self.nodes.get(self.controller.assignment.leader_id)
        if node is not None:
            self.feed(
                node, node.incarnation,
                lambda replica, now_ms: replica.advance_log_start(
                    self.dice.randint(replica.log.log_start_offset, replica.log.high_watermark)
                ),
            )  # fmt: skip

    def fault_unclean(self, until_ms):
        self.controller.elect_uncleanly()


def standing_of(node, broker_id):
    return node.standings.get(broker_id)
