"""A story of a controller from one seed: brokers come, die, lose what was not on the disk, stop and come back; leaders
write, and ask for other ISRs, also with what is out of date; topics change; the controller fails over.

After each step the invariants hold. What brokers have of each partition is counted beside the controller: a leader that
was elected cleanly has everything that was ever acknowledged.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from support.controller.small_cluster import CountingDice, SmallCluster

from broker_core.controller import isr_changes, leader_elections
from broker_core.controller.broker_registrations import plan_unregistration
from broker_core.controller.cluster_controller import AppendRecords, ClusterController, SendAnswer
from broker_core.controller.config_plans import ConfigChange, plan_config_changes
from broker_core.controller.isr_changes import IsrProposal
from broker_core.controller.producer_id_plans import plan_producer_ids
from broker_core.controller.topic_plans import plan_more_partitions, plan_topic_deletion
from broker_core.coordinator.contract import CoordinatorResult
from broker_core.metadata.config_resource import ConfigResource
from broker_core.metadata.metadata_image import MetadataImage
from broker_core.metadata.metadata_records import PartitionChangeRecord
from broker_core.model.exceptions import StreamlogError

BROKERS = (1, 2, 3, 4)
SESSION_MS = 9_000


@dataclass
class Data:
    """Of one partition: how many writes were acknowledged, and how many of them each broker has."""

    acknowledged: int = 0
    has: dict[int, int] = field(default_factory=dict)


class StoryCluster(SmallCluster):
    """Commits are delayed now and then; answers are held against them."""

    def __init__(self, dice, **fields):
        self.committed = 0
        self.story_dice = dice
        super().__init__(**fields)

    def carry_out(self, effects):
        for effect in effects:
            match effect:
                case AppendRecords(from_offset=from_offset, records=records):
                    assert from_offset == len(self.log), "records are not where the controller has them"
                    self.log += records
                case SendAnswer(request_id=request_id, reply=reply):
                    assert self.committed >= self.needed[request_id], "answered before it was committed"
                    self.answers[request_id] = reply

    def ask(self, plan):
        self.requests += 1
        request_id, before = self.requests, len(self.log)
        effects = self.controller.request(request_id, lambda controller, now_ms: plan(controller.facts), self.now_ms)
        written = sum(len(effect.records) for effect in effects if isinstance(effect, AppendRecords))
        self.needed[request_id] = before + written
        self.carry_out(effects)
        if self.story_dice.random() < 0.9:
            self.commit()
        return self.answers.get(request_id)

    def commit(self):
        self.committed = len(self.log)
        self.carry_out(self.controller.on_committed(self.committed))

    needed: dict[int, int]


class ControllerStory:
    def __init__(self, seed, controller_type=ClusterController):
        self.dice = random.Random(seed)
        StoryCluster.needed = {}
        self.controller_type = controller_type
        self.cluster = StoryCluster(self.dice, controller_type=controller_type)
        self.cluster.dice = CountingDice(seed * 7919)
        self.incarnation = dict.fromkeys(BROKERS, 0)
        self.alive: set[int] = set()
        self.clean_epoch = dict.fromkeys(BROKERS, -1)
        self.heard = {}
        self.data: dict[tuple, Data] = {}
        self.stale: list[IsrProposal] = []
        self.epochs: dict[tuple, tuple[int, int, int]] = {}
        self.blocks: set[int] = set()
        self.checked = self.cluster.controller.next_offset
        self.counted = 0
        self.image = MetadataImage()

    def run(self, steps):
        acts = [self.start, self.beat, self.beat, self.beat, self.crash, self.stop, self.wait, self.write, self.write,
                self.write, self.propose, self.propose, self.propose, self.propose_stale, self.elect, self.create,
                self.grow, self.delete, self.set_minimum, self.unregister, self.old_heartbeat, self.fail_over,
                self.producer_ids, self.lose_directory]  # fmt: skip
        for broker_id in BROKERS[:3]:
            self.start(broker_id)
            self.beat(broker_id)
        for _ in range(steps):
            act = self.dice.choice(acts)
            try:
                act()
            except StreamlogError as error:
                assert error.error_code.value != -1, error
            self.check()
        self.silence()
        return self

    # What brokers and admins do

    def registered(self):
        return self.cluster.image.registrations.brokers

    def some(self, among):
        found = sorted(among)
        return self.dice.choice(found) if found else None

    def start(self, broker_id=None):
        broker_id = self.some(set(BROKERS) - self.alive) if broker_id is None else broker_id
        if broker_id is None:
            return
        cluster, before = self.cluster, self.registered().get(broker_id)
        last_ms, last_epoch = self.heard.get(broker_id, (None, None))
        has_session = before is not None and last_epoch == before.broker_epoch and cluster.now_ms < last_ms + SESSION_MS
        self.incarnation[broker_id] += 1
        previous = self.clean_epoch[broker_id]
        try:
            cluster.register(broker_id, incarnation=self.incarnation[broker_id], previous_epoch=previous)
        except StreamlogError:
            assert has_session, "refused without a session"
            return
        assert not has_session, "taken while the session of another incarnation lives"
        if previous == -1:
            self.lose_records(broker_id)
        self.clean_epoch[broker_id] = -1
        self.alive.add(broker_id)

    def lose_records(self, broker_id):
        for data in self.data.values():
            if broker_id in data.has:
                data.has[broker_id] = self.dice.randint(0, data.has[broker_id])

    def beat(self, broker_id=None, **wishes):
        broker_id = self.some(self.alive) if broker_id is None else broker_id
        if broker_id is None or broker_id not in self.registered():
            return None
        cluster = self.cluster
        before = self.registered()[broker_id]
        offset = len(cluster.log) - 1 - self.dice.choice((0, 0, 0, 2, 10))
        record_at = max(at for at, each in enumerate(cluster.log) if getattr(each, "incarnation_id", None) is not None
                        and getattr(each, "broker_id", None) == broker_id)  # fmt: skip
        lowest = min((self.offsets[other] for other in self.offsets if other != broker_id and self.is_live(other)),
                     default=len(cluster.log))  # fmt: skip
        self.requested = cluster.beat(broker_id, offset=offset, **wishes)
        self.offsets[broker_id] = offset
        after = self.registered()[broker_id]
        self.heard[broker_id] = (cluster.now_ms, before.broker_epoch)
        if before.fenced and not after.fenced:
            assert offset >= record_at, "unfenced before it knew its own registration"
        if before.in_controlled_shutdown and after.fenced and not before.fenced:
            left_at = max(at for at, each in enumerate(cluster.log) if getattr(each, "in_controlled_shutdown", 0) == 1
                          and each.broker_id == broker_id)  # fmt: skip
            assert lowest >= left_at, "let go before the others knew"
        return after

    def is_live(self, broker_id):
        """By the image alone."""
        broker = self.registered().get(broker_id)
        return broker is not None and not broker.fenced and not broker.in_controlled_shutdown

    @property
    def offsets(self):
        return self.__dict__.setdefault("_offsets", {})

    def crash(self):
        broker_id = self.some(self.alive)
        if broker_id is not None:
            self.alive.discard(broker_id)

    def stop(self):
        broker_id = self.some(self.alive)
        if broker_id is None or broker_id not in self.registered():
            return
        epoch = self.registered()[broker_id].broker_epoch
        after = self.beat(broker_id, want_stop=True)
        if after is not None and after.fenced:
            self.alive.discard(broker_id)
            self.clean_epoch[broker_id] = epoch

    def wait(self):
        self.cluster.pass_time(self.dice.choice((100, 1_000, 4_000, 9_000)))
        self.cluster.commit()

    def old_heartbeat(self):
        broker_id = self.some(self.registered())
        if broker_id is None:
            return
        try:
            self.cluster.beat(broker_id, epoch=self.registered()[broker_id].broker_epoch - 1)
        except StreamlogError:
            return
        raise AssertionError("a heartbeat of an earlier registration counted")

    def lose_directory(self):
        broker_id = self.some(self.alive & set(self.registered()))
        if broker_id is not None and self.dice.random() < 0.2:
            self.beat(broker_id, want_fence=True)

    def unregister(self):
        broker_id = self.some(self.registered())
        if broker_id is not None and self.dice.random() < 0.2:
            self.cluster.ask(lambda facts: plan_unregistration(facts, broker_id))
            self.alive.discard(broker_id)

    # Topics

    def places(self):
        image = self.cluster.image
        return [(topic.topic_id, number) for _, topic in sorted(image.topics.items())
                for number, _ in image.partitions.rows_of(topic.topic_id)]  # fmt: skip

    def create(self):
        names = [name for name in ("a", "b", "c") if name not in self.cluster.image.topics]
        if names:
            count = self.dice.choice((1, 2))
            factor = min(self.dice.choice((1, 2, 3, 3)), max(1, len(self.registered())))
            configs = {"min_insync_replicas": self.dice.choice("122")} if self.dice.random() < 0.7 else {}
            if self.dice.random() < 0.1:
                configs["unclean_leader_election_enable"] = "true"
            self.cluster.create(names[0], partitions=count, factor=factor, **configs)

    def grow(self):
        name = self.some(self.cluster.image.topics)
        if name is not None and self.cluster.image.topics[name].partition_count < 4:
            count = self.cluster.image.topics[name].partition_count + 1
            self.cluster.ask(lambda facts: plan_more_partitions(facts, name, count, None, entropy=self.cluster.dice))

    def delete(self):
        name = self.some(self.cluster.image.topics)
        if name is not None and self.dice.random() < 0.3:
            topic_id = self.cluster.image.topics[name].topic_id
            self.cluster.ask(lambda facts: plan_topic_deletion(facts, topic_id))

    def set_minimum(self):
        name = self.some(self.cluster.image.topics)
        if name is not None:
            change = ConfigChange(name="min.insync.replicas", value=self.dice.choice("123"))
            self.cluster.ask(lambda facts: plan_config_changes(facts, ConfigResource.TOPIC, name, [change]))

    def write(self):
        """With acks=all, where enough are in sync."""
        place = self.dice.choice(self.places()) if self.places() else None
        if place is None:
            return
        state, data = self.cluster.image.partition(*place), self.data.setdefault(place, Data())
        minimum = self.cluster.facts.min_insync_replicas(self.cluster.image.topic_by_id(place[0]).name)
        is_enough = state.leader in self.alive and len(state.isr) >= min(minimum, len(state.replicas))
        if is_enough and set(state.isr) <= self.alive:
            data.acknowledged += 1
            for member in state.isr:
                data.has[member] = data.acknowledged

    def proposal(self, place):
        state, brokers = self.cluster.image.partition(*place), self.registered()
        if state.leader not in self.alive:
            return None
        others = [replica for replica in state.replicas if replica != state.leader]
        possible = [member for member in others if member in self.alive or member in state.isr]
        members = [state.leader, *(member for member in possible if self.dice.random() < 0.8)]
        isr = [(member, brokers[member].broker_epoch if member in brokers else -1) for member in members]
        return IsrProposal(
            leader_id=state.leader, topic_id=place[0], number=place[1], leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch, isr=isr, recovery_state=0,
        )  # fmt: skip

    def propose(self):
        place = self.dice.choice(self.places()) if self.places() else None
        proposal = None if place is None else self.proposal(place)
        if proposal is None:
            return
        if self.dice.random() < 0.3:
            self.stale.append(proposal)
            return
        data = self.data.setdefault(place, Data())
        before = self.cluster.image.partition(*place).isr
        found = self.apply(proposal)
        if found.record is not None:
            for member, _ in proposal.isr:
                if member not in before:  # the leader asks for it when it has caught up
                    data.has[member] = data.has.get(proposal.leader_id, 0)

    def propose_stale(self):
        if self.stale:
            proposal = self.stale.pop(self.dice.randrange(len(self.stale)))
            state = self.cluster.image.partition(proposal.topic_id, proposal.number)
            found = self.apply(proposal)
            if state is not None and state.partition_epoch != proposal.partition_epoch:
                assert found.record is None, "a change of an ISR on a state that is gone was applied"
            elif found.record is not None:
                data = self.data.setdefault((proposal.topic_id, proposal.number), Data())
                for member, _ in proposal.isr:
                    if member not in state.isr:
                        data.has[member] = data.has.get(proposal.leader_id, 0)

    def apply(self, proposal):
        found = isr_changes.plan_isr_change(self.cluster.facts, proposal)
        if found.record is not None:
            self.cluster.ask(lambda facts: CoordinatorResult(records=(found.record,), reply=None))
        return found

    def elect(self):
        place = self.dice.choice(self.places()) if self.places() else None
        if place is None:
            return
        name = self.cluster.image.topic_by_id(place[0]).name
        is_unclean = self.dice.random() < 0.3
        found = leader_elections.plan_election(self.cluster.facts, name, place[1], is_unclean=is_unclean)
        if isinstance(found, PartitionChangeRecord):
            self.cluster.ask(lambda facts: CoordinatorResult(records=(found,), reply=None))

    def producer_ids(self):
        broker_id = self.some(self.registered())
        if broker_id is None:
            return
        epoch = self.registered()[broker_id].broker_epoch
        plan = plan_producer_ids(self.cluster.facts, broker_id, epoch)
        self.cluster.ask(lambda facts: plan)
        assert plan.reply.first_id not in self.blocks, "a block of producer ids was given twice"
        self.blocks.add(plan.reply.first_id)

    # The controller

    def fail_over(self):
        """What is not committed is lost, or not."""
        cluster = self.cluster
        self.check()
        if self.dice.random() < 0.5:
            cluster.commit()
        elif cluster.committed < len(cluster.log):
            return  # the counts here cannot go back: only committed logs fail over
        image = MetadataImage()
        for record in cluster.log:
            image.replay(record)
        assert image == cluster.image, "the image is not what the log says"
        cluster.controller = self.controller_type(
            image, next_offset=len(cluster.log), cluster_id="cluster", entropy=cluster.dice, now_ms=cluster.now_ms
        )
        cluster.carry_out(cluster.controller.begin(cluster.now_ms))
        for broker_id, broker in image.registrations.brokers.items():
            self.offsets[broker_id] = -1
            if broker.fenced:
                self.heard.pop(broker_id, None)
            else:
                self.heard[broker_id] = (cluster.now_ms, broker.broker_epoch)

    def silence(self):
        """Nobody beats any more: all are fenced."""
        self.cluster.pass_time(SESSION_MS)
        self.check()
        fenced = {broker_id: broker.fenced for broker_id, broker in self.registered().items()}
        assert all(fenced.values()), f"still live after a session without heartbeats: {fenced}"

    # Invariants

    def check(self):
        log = self.cluster.log
        for record in log[self.counted :]:
            self.count(record)
            self.image.replay(record)
        self.counted = len(log)
        for place in self.places():
            self.check_partition(place)
        epochs = [broker.broker_epoch for broker in self.registered().values()]
        assert len(set(epochs)) == len(epochs), "two brokers have one epoch"

    def count(self, record):
        if not isinstance(record, PartitionChangeRecord) or record.leader < 0:
            return
        place = (record.topic_id, record.partition_id)
        data, before = self.data.setdefault(place, Data()), self.image.partition(*place)
        if before is None or record.leader == before.leader:
            return
        has = data.has.get(record.leader, 0)
        if record.leader in (*before.isr, *before.eligible_leader_replicas):
            assert has == data.acknowledged, f"elected cleanly with {has} of {data.acknowledged} records"
        else:
            assert 1 in (record.leader_recovery_state, before.leader_recovery_state), "not said to be recovering"
            data.acknowledged = has
            data.has = {member: min(count, has) for member, count in data.has.items()}

    def check_partition(self, place):
        state = self.cluster.image.partition(*place)
        members, eligible = set(state.isr), set(state.eligible_leader_replicas)
        assert state.leader == -1 or state.leader in members, f"the leader is not in sync: {state}"
        assert members <= set(state.replicas) and len(members) == len(state.isr), f"an ISR that is none: {state}"
        assert eligible <= set(state.replicas) and not eligible & members, f"wrong eligible leaders: {state}"
        assert all(map(self.is_live, members)), f"in sync and not live: {state}"
        assert members or state.leader == -1
        before = self.epochs.get(place)
        now = (state.leader_epoch, state.partition_epoch, state.leader)
        if before is not None:
            assert now[0] >= before[0] and now[1] >= before[1], f"epochs fall: {before} {now}"
            assert now[2] == before[2] or now[0] > before[0], f"another leader in the same epoch: {before} {now}"
        self.epochs[place] = now


def a_story(seed, steps=60, controller_type=ClusterController):
    return ControllerStory(seed, controller_type).run(steps)
