import random

import pytest
from kio.schema.errors import ErrorCode
from support.nodes.consumer_group_runner import ConsumerGroupRunner

from broker_core.group.classic.classic_messages import JoinProtocol, JoinRequest
from broker_core.group.consumer.consumer_settings import ConsumerGroupSettings
from broker_core.group.group_descriptions import GroupType
from broker_core.group.offsets.offset_messages import CommitRequest

GROUP = "g"
TOPICS = ("t", "u", "v")


class GroupConsumer:
    """A consumer: it gives up what it is no longer assigned when it gets round to it, and tells of it thereafter."""

    def __init__(self, runner, name, topics, instance_id=None):
        self.runner, self.name, self.topics, self.instance_id = runner, name, topics, instance_id
        self.epoch, self.owned, self.assigned = 0, {}, {}

    def heartbeat(self):
        fields = {"instance_id": self.instance_id} if self.instance_id else {}
        if self.epoch == 0:
            reply = self.runner.join(GROUP, self.name, *self.topics, **fields)
        else:
            reply = self.runner.heartbeat(GROUP, self.name, self.epoch, owned=self.owned, **fields)
        if reply.error_code is not ErrorCode.none:
            assert reply.error_code in (ErrorCode.unknown_member_id, ErrorCode.fenced_member_epoch), reply
            self.epoch, self.owned, self.assigned = 0, {}, {}
            return
        self.epoch = reply.member_epoch
        if reply.assignment is not None:
            self.assigned = self.runner.by_name(reply.assignment)

    def subscribe(self, topics):
        self.topics = topics
        if self.epoch:
            reply = self.runner.heartbeat(GROUP, self.name, self.epoch, topics=topics, instance_id=self.instance_id)
            if reply.assignment is not None:
                self.assigned = self.runner.by_name(reply.assignment)
            self.epoch = reply.member_epoch

    def settle(self):
        self.owned = {topic: list(numbers) for topic, numbers in self.assigned.items() if topic in self.runner.topics}

    def leave(self):
        if self.epoch:
            self.runner.heartbeat(GROUP, self.name, -1, instance_id=self.instance_id)

    def pairs(self):
        return {(topic, partition) for topic, numbers in self.owned.items() for partition in numbers}


class ConsumerCrowd:
    def __init__(self, seed):
        self.dice = random.Random(seed)
        self.runner = ConsumerGroupRunner(ConsumerGroupSettings(assignment_interval_ms=self.dice.choice((0, 1_000))))
        self.clients, self.count = [], 0
        for topic in TOPICS:
            self.runner.create(topic, self.dice.randint(1, 4))

    def some_topics(self):
        return self.dice.sample(TOPICS, self.dice.randint(1, len(TOPICS)))

    def come(self):
        self.count += 1
        instance_id = f"i{self.count}" if self.dice.random() < 0.3 else None
        self.clients.append(GroupConsumer(self.runner, f"m{self.count}", self.some_topics(), instance_id))

    def go(self):
        if len(self.clients) > 1:
            self.clients.pop(self.dice.randrange(len(self.clients))).leave()

    def die(self):
        """Dies without leaving the group; the others keep sending heartbeats until its session times out."""
        if len(self.clients) > 1:
            self.clients.pop(self.dice.randrange(len(self.clients)))
            for _ in range(10):
                self.runner.wait(5_000)
                self.everybody("heartbeat")

    def act(self):
        client = self.dice.choice(self.clients) if self.clients else None
        what = self.dice.choices(
            ("heartbeat", "settle", "subscribe", "come", "go", "die", "grow", "restart"), (30, 20, 4, 5, 3, 1, 1, 1)
        )[0]
        if what in ("come", "go", "die"):
            getattr(self, what)()
        elif what == "grow":
            topic = self.dice.choice(TOPICS)
            self.runner.grow(topic, self.runner.topics[topic].partition_count + 1)
        elif what == "restart":
            self.runner.restart()
        elif client is not None:
            client.subscribe(self.some_topics()) if what == "subscribe" else getattr(client, what)()
        self.runner.wait(self.dice.randint(0, 900))
        self.check_nothing_is_owned_twice()

    def everybody(self, what):
        for client in self.clients:
            getattr(client, what)()
            self.check_nothing_is_owned_twice()

    def check_nothing_is_owned_twice(self):
        owned = [pair for client in self.clients for pair in client.pairs()]
        assert len(owned) == len(set(owned))

    def check_all_is_owned(self):
        wanted = {topic for client in self.clients for topic in client.topics}
        expected = {
            (topic, partition) for topic in wanted for partition in range(self.runner.topics[topic].partition_count)
        }
        assert set().union(*(client.pairs() for client in self.clients)) == expected
        for client in self.clients:
            assert {topic for topic, _ in client.pairs()} <= set(client.topics)


@pytest.mark.parametrize("seed", range(12))
def test_with_random_joins_and_leaves_every_partition_is_owned_once_and_never_twice(seed):
    crowd = ConsumerCrowd(seed)
    crowd.come()
    for _ in range(90):
        crowd.act()
    for _ in range(2 * len(crowd.clients) + 6):
        crowd.everybody("heartbeat")
        crowd.everybody("settle")
        crowd.runner.wait(1_100)
    crowd.check_all_is_owned()
    assert crowd.runner.groups.describe(GROUP).state == "Stable"


def test_a_member_without_heartbeats_is_removed_after_its_session():
    runner = ConsumerGroupRunner()
    runner.create("t", 2)
    assert runner.join(GROUP, "a", "t").member_epoch == 2
    runner.wait(44_999)
    assert runner.heartbeat(GROUP, "a", 2).error_code is ErrorCode.none
    runner.wait(44_999)
    assert not runner.groups.is_empty(GROUP)
    runner.wait(1)
    assert runner.groups.is_empty(GROUP)
    assert runner.heartbeat(GROUP, "a", 2).error_code is ErrorCode.unknown_member_id


def test_an_absent_static_member_is_removed_after_its_session():
    runner = ConsumerGroupRunner()
    runner.create("t", 2)
    runner.join(GROUP, "a", "t", instance_id="i")
    runner.heartbeat(GROUP, "a", -2, instance_id="i")
    runner.wait(40_000)
    assert runner.join(GROUP, "b", "t", instance_id="i").assignment == runner.by_id({"t": [0, 1]})
    runner.wait(10_000)
    assert list(runner.group(GROUP).members) == ["b"]
    runner.heartbeat(GROUP, "b", -2, instance_id="i")
    runner.wait(45_000)
    assert runner.groups.is_empty(GROUP)


def test_after_a_restart_members_continue_with_a_new_session():
    runner = ConsumerGroupRunner()
    runner.create("t", 2)
    epoch = runner.join(GROUP, "a", "t").member_epoch
    runner.wait(44_000)
    runner.restart()
    runner.wait(44_000)
    reply = runner.heartbeat(GROUP, "a", epoch, owned={"t": [0, 1]})
    assert (reply.error_code, reply.member_epoch, reply.assignment) == (ErrorCode.none, epoch, None)
    runner.restart()
    runner.wait(45_000)
    assert runner.groups.is_empty(GROUP)


def test_target_assignments_are_separated_by_the_assignment_interval():
    runner = ConsumerGroupRunner(ConsumerGroupSettings(assignment_interval_ms=1_000))
    runner.create("t", 2)
    assert runner.join(GROUP, "a", "t").member_epoch == 2
    runner.wait(10)
    early = runner.join(GROUP, "b", "t")
    assert (early.member_epoch, early.assignment) == (2, {})
    assert runner.groups.describe(GROUP).state == "Assigning"
    runner.wait(990)
    assert runner.heartbeat(GROUP, "b", 2).member_epoch == 3


def test_a_full_group_refuses_only_new_members():
    runner = ConsumerGroupRunner(ConsumerGroupSettings(max_size=1))
    runner.create("t", 1)
    assert runner.join(GROUP, "a", "t").error_code is ErrorCode.none
    assert runner.join(GROUP, "b", "t").error_code is ErrorCode.group_max_size_reached
    assert runner.join(GROUP, "a", "t").error_code is ErrorCode.none


def test_in_version_0_the_coordinator_generates_the_member_id():
    runner = ConsumerGroupRunner()
    runner.create("t", 1)
    reply = runner.join(GROUP, "", "t", has_own_id=False)
    assert reply.member_id
    assert list(runner.group(GROUP).members) == [reply.member_id]
    assert runner.join(GROUP, "", "t").error_code is ErrorCode.invalid_request


def test_groups_are_listed_with_their_protocol_and_state():
    runner = ConsumerGroupRunner()
    runner.create("t", 1)
    runner.join(GROUP, "a", "t")
    (found,) = runner.coordinator.list_groups(types=["consumer"])
    assert (found.group_id, found.protocol_type, found.state, found.group_type) == (
        GROUP, "consumer", "Stable", GroupType.CONSUMER,
    )  # fmt: skip
    assert runner.groups.is_subscribed_to(GROUP, "t")
    assert not runner.groups.is_subscribed_to(GROUP, "u")


def test_deleting_an_empty_group_leaves_no_records():
    runner = ConsumerGroupRunner()
    runner.create("t", 1)
    runner.join(GROUP, "a", "t", topic_regex="t.*")
    runner.heartbeat(GROUP, "a", -1)
    runner._carry_out(runner.coordinator.delete_group(99, GROUP))
    assert runner.answers[99].error_code is ErrorCode.none
    assert not runner.groups.has(GROUP)
    runner.restart()
    assert not runner.groups.has(GROUP)


def test_earlier_offsets_do_not_make_a_group_classic():
    runner = ConsumerGroupRunner()
    runner.create("t", 1)
    runner.ask(runner.coordinator.on_commit_offsets, CommitRequest(group_id=GROUP, offsets={}))
    runner.join(GROUP, "a", "t")
    runner.restart()
    assert [each.group_type for each in runner.coordinator.list_groups()] == [GroupType.CONSUMER]


def test_an_empty_classic_group_becomes_a_consumer_group_and_back():
    runner = ConsumerGroupRunner()
    runner.create("t", 1)
    joining = JoinRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="other",
        protocols=(JoinProtocol(name="p"),),
        requires_known_member_id=False,
    )
    runner.send(runner.coordinator.on_join, joining)
    runner.wait(60_000)
    assert runner.coordinator.classic_groups.get(GROUP).is_empty
    assert runner.join(GROUP, "a", "t").member_epoch == 2
    assert runner.coordinator.classic_groups.get(GROUP) is None
    runner.heartbeat(GROUP, "a", -1)
    ticket = runner.send(runner.coordinator.on_join, joining)
    runner.wait(100)
    assert runner.answers[ticket].error_code is ErrorCode.none
    assert not runner.groups.has(GROUP)
    assert runner.heartbeat(GROUP, "a", 2).error_code is ErrorCode.group_id_not_found
