"""Classic members do as a cooperative consumer does: what is taken from it is given up, then it joins again."""

import pytest
from kio.schema.errors import ErrorCode
from support.nodes.consumer_group_runner import ConsumerGroupRunner

from broker_core.group.classic.classic_messages import (
    HeartbeatRequest,
    JoinProtocol,
    JoinRequest,
    LeaveRequest,
    LeavingMember,
    SyncRequest,
)
from broker_core.group.consumer.consumer_protocol import decode_assignment, encode_assignment
from broker_core.group.consumer.consumer_settings import ConsumerGroupSettings

GROUP = "g"


def subscription(topics, owned):
    """Version 1."""
    empty = encode_assignment({}, b"\x00\x01")
    named = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    with_owned = encode_assignment({topic: frozenset(numbers) for topic, numbers in owned.items()}, b"\x00\x01")
    return empty[:2] + len(topics).to_bytes(4, "big") + named + empty[-4:] + with_owned[2:-4]


class ClassicClient:
    """`leads`: of a classic group it shares out partitions itself, by turns."""

    def __init__(self, runner, topics, instance_id=None):
        self.runner, self.topics, self.instance_id = runner, topics, instance_id
        self.member_id, self.generation, self.owned = "", -1, {}
        self.ticket, self.waits_for, self.members = None, None, ()

    def join(self):
        request = JoinRequest(
            group_id=GROUP,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=30_000,
            protocol_type="consumer",
            protocols=(JoinProtocol(name="range", metadata=subscription(self.topics, self.owned)),),
        )
        self.ticket, self.waits_for = self.runner.send(self.runner.coordinator.on_join, request), "join"

    def sync(self):
        shares = {}
        for number, member in enumerate(self.members):
            numbers = [
                partition
                for partition in range(self.runner.topics["t"].partition_count)
                if partition % len(self.members) == number
            ]
            shares[member.member_id] = encode_assignment({"t": frozenset(numbers)}, b"\x00\x01")
        request = SyncRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=shares,
        )
        self.ticket, self.waits_for = self.runner.send(self.runner.coordinator.on_sync, request), "sync"

    def go_on(self):
        """One step of what the client would do next."""
        if self.waits_for is None:
            request = HeartbeatRequest(group_id=GROUP, generation_id=self.generation, member_id=self.member_id)
            reply = self.runner.ask(self.runner.coordinator.on_heartbeat, request)
            if reply.error_code is not ErrorCode.none:
                self.restart(reply.error_code)
            return
        reply = self.runner.answers.get(self.ticket)
        if reply is None:
            return
        waited_for, self.waits_for = self.waits_for, None
        if reply.error_code is ErrorCode.member_id_required:
            self.member_id = reply.member_id
            self.join()
        elif reply.error_code is not ErrorCode.none:
            self.restart(reply.error_code)
        elif waited_for == "join":
            self.member_id, self.generation = reply.member_id, reply.generation_id
            self.members = reply.members
            self.sync()
        else:
            before, told = self.owned, decode_assignment(reply.assignment).partitions
            self.owned = {topic: sorted(numbers) for topic, numbers in told.items()}
            lost = {(topic, each) for topic, numbers in before.items() for each in numbers} - self.pairs()
            if lost:
                self.join()

    def restart(self, error_code):
        if error_code in (ErrorCode.unknown_member_id, ErrorCode.illegal_generation):
            self.owned = {}
        if error_code is ErrorCode.unknown_member_id:
            self.member_id = ""
        self.join()

    def leave(self):
        leaving = LeaveRequest(group_id=GROUP, members=(LeavingMember(member_id=self.member_id),))
        return self.runner.ask(self.runner.coordinator.on_leave, leaving)

    def pairs(self):
        return {(topic, each) for topic, numbers in self.owned.items() for each in numbers}


class ModernClient:
    def __init__(self, runner, name, topics):
        self.runner, self.name, self.topics = runner, name, topics
        self.epoch, self.owned = 0, {}

    def go_on(self):
        if self.epoch == 0:
            reply = self.runner.join(GROUP, self.name, *self.topics)
        else:
            reply = self.runner.heartbeat(GROUP, self.name, self.epoch, owned=self.owned)
        assert reply.error_code is ErrorCode.none, reply
        self.epoch = reply.member_epoch
        if reply.assignment is not None:
            self.owned = self.runner.by_name(reply.assignment)

    def pairs(self):
        return {(topic, each) for topic, numbers in self.owned.items() for each in numbers}


def go_on(runner, *clients, rounds=12):
    for _ in range(rounds):
        for client in clients:
            client.go_on()
            owned = [pair for each in clients for pair in each.pairs()]
            assert len(owned) == len(set(owned)), "a partition has two owners"
        runner.wait(500)


def everything(runner):
    return {("t", number) for number in range(runner.topics["t"].partition_count)}


def a_classic_group(count=2, settings=None):
    runner = ConsumerGroupRunner(settings)
    runner.create("t", 6)
    clients = [ClassicClient(runner, ["t"]) for _ in range(count)]
    for client in clients:
        client.join()
    go_on(runner, *clients)
    assert set().union(*(client.pairs() for client in clients)) == everything(runner)
    return runner, clients


def test_a_classic_group_converts_to_a_consumer_group_and_back_with_every_partition_owned_once():
    runner, classic = a_classic_group()
    modern = ModernClient(runner, "new", ["t"])
    go_on(runner, *classic, modern)
    assert runner.groups.has(GROUP)
    assert runner.coordinator.classic_groups.get(GROUP) is None
    assert [len(client.pairs()) for client in (*classic, modern)] == [2, 2, 2]
    assert {member.is_classic for member in runner.groups.describe(GROUP).members} == {True, False}
    runner.heartbeat(GROUP, "new", -1)
    modern.owned = {}
    go_on(runner, *classic)
    assert not runner.groups.has(GROUP)
    assert set().union(*(client.pairs() for client in classic)) == everything(runner)
    assert runner.coordinator.describe(GROUP).state == "Stable"


def test_a_migration_survives_restarts():
    runner, classic = a_classic_group()
    modern = ModernClient(runner, "new", ["t"])
    go_on(runner, *classic, modern, rounds=2)
    runner.restart()
    go_on(runner, *classic, modern)
    assert [len(client.pairs()) for client in (*classic, modern)] == [2, 2, 2]
    runner.heartbeat(GROUP, "new", -1)
    runner.restart()
    assert not runner.groups.has(GROUP)
    assert len(runner.coordinator.classic_groups.get(GROUP).members) == 2


def test_classic_members_may_join_a_consumer_group_and_leave_it():
    runner = ConsumerGroupRunner()
    runner.create("t", 4)
    modern = ModernClient(runner, "new", ["t"])
    modern.go_on()
    late = ClassicClient(runner, ["t"])
    late.join()
    go_on(runner, modern, late)
    assert [len(client.pairs()) for client in (modern, late)] == [2, 2]
    assert late.leave().members[0].error_code is ErrorCode.none
    late.owned = {}
    go_on(runner, modern)
    assert modern.pairs() == everything(runner)
    assert late.leave().members[0].error_code is ErrorCode.unknown_member_id


def test_a_classic_member_that_does_not_rejoin_is_removed():
    runner, (quiet,) = a_classic_group(count=1)
    modern = ModernClient(runner, "new", ["t"])
    modern.go_on()
    request = HeartbeatRequest(group_id=GROUP, generation_id=quiet.generation, member_id=quiet.member_id)
    for _ in range(7):
        assert runner.ask(runner.coordinator.on_heartbeat, request).error_code is ErrorCode.rebalance_in_progress
        runner.wait(5_000)
        if runner.ask(runner.coordinator.on_heartbeat, request).error_code is ErrorCode.unknown_member_id:
            break
    assert list(runner.group(GROUP).members) == ["new"]


def test_a_classic_member_with_an_old_generation_is_refused():
    runner, (client,) = a_classic_group(count=1)
    ModernClient(runner, "new", ["t"]).go_on()
    request = HeartbeatRequest(group_id=GROUP, generation_id=client.generation + 1, member_id=client.member_id)
    assert runner.ask(runner.coordinator.on_heartbeat, request).error_code is ErrorCode.illegal_generation
    request = HeartbeatRequest(group_id=GROUP, generation_id=2, member_id="new")
    assert runner.ask(runner.coordinator.on_heartbeat, request).error_code is ErrorCode.unknown_member_id


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (ConsumerGroupSettings(is_upgrade_enabled=False), "online upgrade is disabled"),
        (ConsumerGroupSettings(max_size=1), "exceeds the consumer group maximum size"),
    ],
)
def test_a_classic_group_that_cannot_be_upgraded_is_unchanged(settings, why):
    runner, classic = a_classic_group(settings=settings)
    reply = runner.join(GROUP, "new", "t")
    assert reply.error_code is ErrorCode.group_id_not_found
    assert why in reply.error_message
    assert not runner.groups.has(GROUP)
    go_on(runner, *classic)
    assert set().union(*(client.pairs() for client in classic)) == everything(runner)


def test_a_refused_consumer_member_does_not_change_the_classic_group():
    runner, classic = a_classic_group()
    reply = runner.join(GROUP, "new", topic_regex="(")
    assert reply.error_code is ErrorCode.invalid_regular_expression
    go_on(runner, *classic)
    assert not runner.groups.has(GROUP)
    assert runner.coordinator.describe(GROUP).state == "Stable"


def test_a_group_of_another_protocol_type_is_not_upgraded():
    runner = ConsumerGroupRunner()
    request = JoinRequest(
        group_id=GROUP, member_id="", session_timeout_ms=10_000, rebalance_timeout_ms=9_000, protocol_type="connect",
        protocols=(JoinProtocol(name="p"),), requires_known_member_id=False,
    )  # fmt: skip
    runner.send(runner.coordinator.on_join, request)
    runner.wait(100)
    assert "does not use the consumer embedded protocol" in runner.join(GROUP, "new", "t").error_message


def test_without_downgrade_classic_members_stay_in_the_consumer_group():
    runner, classic = a_classic_group(
        settings=ConsumerGroupSettings(is_downgrade_enabled=False, assignment_interval_ms=0)
    )
    modern = ModernClient(runner, "new", ["t"])
    go_on(runner, *classic, modern)
    runner.heartbeat(GROUP, "new", -1)
    go_on(runner, *classic)
    assert runner.groups.has(GROUP)
    assert set().union(*(client.pairs() for client in classic)) == everything(runner)


def test_replacing_the_last_consumer_member_by_a_classic_one_downgrades_the_group():
    runner = ConsumerGroupRunner()
    runner.create("t", 2)
    runner.join(GROUP, "new", "t", instance_id="i")
    twin = ClassicClient(runner, ["t"], instance_id="i")
    twin.join()
    go_on(runner, twin)
    assert not runner.groups.has(GROUP)
    assert twin.pairs() == everything(runner)
