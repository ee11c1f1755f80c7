"""Members that come, go, fall silent and misbehave: what holds whatever happens."""

import random

import pytest
from support.nodes.group_runner import GroupRunner

from broker_core.group.classic.classic_messages import JoinProtocol
from broker_core.group.classic.classic_states import ClassicState
from broker_core.model.identifiers import TopicPartition

GROUPS = ("g", "h")
PROTOCOLS = tuple(
    tuple(JoinProtocol(name=name, metadata=f"{name}{said}".encode()) for name in names)
    for names in (("range",), ("range", "sticky"), ("sticky", "range"))
    for said in "ab"
)


class ClassicCrowd:
    """Events by dice; `ids` are member ids that somebody was told at some time."""

    def __init__(self, seed):
        self.dice = random.Random(seed)
        self.runner = GroupRunner(max_size=3, offsets_retention_ms=30_000)
        self.ids = {group_id: [""] for group_id in GROUPS}
        self.generations = dict.fromkeys(GROUPS, 0)
        self.open = set()

    def step(self):
        group_id = self.dice.choice(GROUPS)
        action = self.dice.choice(
            [self.join, self.join, self.join, self.sync, self.sync, self.sync, self.beat, self.leave, self.commit,
             self.transact, self.wait, self.wait, self.delete, self.restart]
        )  # fmt: skip
        action(group_id)
        for answer in self.runner.answers.values():
            if getattr(answer, "member_id", "") and answer.member_id not in self.ids["g"] + self.ids["h"]:
                self.ids[group_id].append(answer.member_id)
        self.check()

    def who(self, group_id):
        """Usually one who is a member now."""
        group = self.runner.group(group_id)
        members = list(group.members) if group and self.dice.random() < 0.8 else []
        return self.dice.choice(members or self.ids[group_id])

    def now(self, group_id):
        group = self.runner.group(group_id)
        return (group.generation_id if group else 0) - (self.dice.random() < 0.1)

    def join(self, group_id):
        instance_id = self.dice.choice([None, None, "i", "j"])
        member_id = self.who(group_id) if self.dice.random() < 0.6 else ""
        group = self.runner.group(group_id)
        if group and member_id in group.members and self.dice.random() < 0.9:
            instance_id = group.members[member_id].group_instance_id
        options = {"requires_known_member_id": self.dice.random() < 0.7, "protocols": self.dice.choice(PROTOCOLS)}
        options["supports_skipping_assignment"] = self.dice.random() < 0.5
        self.runner.join(group_id, member_id, group_instance_id=instance_id, **options)

    def sync(self, group_id):
        group = self.runner.group(group_id)
        member_id = group.leader_id if group and group.leader_id and self.dice.random() < 0.5 else self.who(group_id)
        self.runner.sync(group_id, self.now(group_id), member_id, {member_id: b"all"})

    def beat(self, group_id):
        self.runner.heartbeat(group_id, self.now(group_id), self.who(group_id))

    def leave(self, group_id):
        self.runner.leave(group_id, *{self.who(group_id) for _ in range(self.dice.choice([1, 1, 3]))}, "@i")

    def commit(self, group_id):
        partition = TopicPartition("orders", self.dice.randrange(3))
        self.runner.commit(group_id, self.now(group_id), self.who(group_id), offsets={partition: 7})
        self.runner.commit(group_id, offsets={partition: 8})

    def transact(self, group_id):
        producer_id = self.dice.randrange(2)
        if self.runner.commit(group_id, producer_id=producer_id) == "none" and self.dice.random() < 0.5:
            self.runner.mark(producer_id, is_commit=self.dice.random() < 0.5)

    def wait(self, group_id):
        self.runner.pass_ms(self.dice.choice([1, 500, 3_000, 9_000, 61_000]))

    def delete(self, group_id):
        if self.dice.random() < 0.3:
            self.runner.expire_offsets()
        elif self.dice.random() < 0.3:
            self.runner.delete_group(group_id)

    def restart(self, group_id):
        if self.dice.random() < 0.2:
            self.runner.restart()
            self.generations = dict.fromkeys(GROUPS, 0)

    def check(self):
        for group_id in GROUPS:
            group = self.runner.group(group_id)
            if group is None:
                self.generations[group_id] = 0
                continue
            assert group.generation_id >= self.generations[group_id]
            self.generations[group_id] = group.generation_id
            assert (group.leader_id in group.members) if group.members else group.leader_id is None
            assert group.is_empty <= (not group.members)
            assert group.pending_syncs <= set(group.members)
            assert not group.pending_joins & set(group.members)
            for member in group.members.values():
                self.check_member(group, member)
        tickets = [t for g in self.runner.coordinator.classic_groups for m in g.members.values()
                   for t in (m.join_ticket, m.sync_ticket) if t is not None]  # fmt: skip
        assert sorted(tickets) == sorted(self.runner.parked), "a ticket is parked twice or forgotten"
        deadlines = {k: at for g in self.runner.coordinator.classic_groups for k, at in g.deadlines.items()}
        assert {k: at for k, at in self.runner.timers.items() if k in deadlines} == deadlines
        self.check_replay()

    def check_member(self, group, member):
        assert member.join_ticket is None or member.sync_ticket is None
        assert member.join_ticket is None or group.state is ClassicState.PREPARING_REBALANCE
        assert member.sync_ticket is None or group.state is ClassicState.COMPLETING_REBALANCE
        assert group.static_member_id(member.group_instance_id) in (None, member.member_id)
        session = f"classic-session:{len(group.group_id)}:{group.group_id}:{member.member_id}"
        assert session in group.deadlines or member.is_excused, "nothing would detect that it is gone"

    def check_replay(self):
        """What is stored is what the log says; a rebalance is not stored."""
        known, replayed = self.runner.coordinator, self.runner.replayed()
        assert {g.group_id for g in known.list_groups()} == {g.group_id for g in replayed.list_groups()}
        assert standing(known.offsets) == standing(replayed.offsets)
        for group in known.classic_groups:
            again = replayed.classic_groups.get(group.group_id)
            if group.state in (ClassicState.STABLE, ClassicState.EMPTY):
                assert group.as_stored() == again.as_stored()
                assert group.state is again.state


@pytest.mark.parametrize("seed", range(14))
def test_random_members_keep_all_invariants_and_every_request_is_answered(seed):
    crowd = ClassicCrowd(seed)
    for _ in range(120):
        crowd.step()
    crowd.runner.pass_ms(2_000_000)
    assert crowd.runner.parked == set()
    assert {group.state for group in crowd.runner.coordinator.classic_groups} <= {ClassicState.EMPTY}


def test_the_random_walk_reaches_every_state_and_the_relevant_errors():
    states, errors = set(), set()
    for seed in range(6):
        crowd = ClassicCrowd(seed)
        for _ in range(120):
            crowd.step()
            states |= {group.state for group in crowd.runner.coordinator.classic_groups}
        errors |= {reply.error_code.name for reply in crowd.runner.answers.values() if hasattr(reply, "error_code")}
    assert states == set(ClassicState) - {ClassicState.DEAD}
    assert errors >= {
        "none", "member_id_required", "unknown_member_id", "illegal_generation", "rebalance_in_progress",
        "fenced_instance_id", "group_max_size_reached", "non_empty_group",
    }  # fmt: skip


def standing(offsets):
    """All but what was rolled back, which who lives may forget before the log does."""
    held = {
        group_id: {partition: stored for partition, stored in of_group.items() if stored.value is not None}
        for group_id, of_group in offsets._committed.items()
    }
    return vars(offsets) | {"_committed": {group_id: of_group for group_id, of_group in held.items() if of_group}}
