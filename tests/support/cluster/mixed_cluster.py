"""A broker of ours in a cluster of real Kafka nodes: one combined node, or several. Ours has the id 98."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic
from support.brokers import kafka_tools
from support.brokers.real_quorum import RealQuorum
from support.clients.confluent_clients import read_all
from support.cluster.client_place import ClientPlace
from support.quorum.our_broker import OurBroker, log_of, wait_until

from broker_core.coordinator.key_partition import key_partition

OURS = 98
INTERNAL = ("__consumer_offsets", "__transaction_state")
SECONDS = 90
PLACES = [[OURS, 1], [1, OURS]] * 2
"""Of the internal topics."""
_COUNTS = [
    *("offsets.topic.replication.factor=2", "transaction.state.log.replication.factor=2"),
    *(f"offsets.topic.num.partitions={len(PLACES)}", f"transaction.state.log.num.partitions={len(PLACES)}"),
]


class MixedCluster(ClientPlace):
    """A context manager that starts all and kills what still runs.

    The internal topics have four partitions: ours is the preferred leader of every other, and node 1 of the rest.
    """

    def __init__(self, folder: Path, *, real_count=1, real_settings=(), our_settings=()):
        self.real = RealQuorum(folder / "real", node_count=real_count, settings=[*_COUNTS, *real_settings])
        self.ours = OurBroker(
            folder / "ours", controllers=self.real.bootstrap_controllers, node_id=OURS, settings=our_settings
        )
        self._folder, self._names = folder, itertools.count()

    def __enter__(self):
        try:
            self.real.start()
            self.ours.start()
            for name in INTERNAL:
                self.make_topic(PLACES, name, cleanup__policy="compact")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.ours.kill()
        self.real.__exit__()

    @property
    def bootstrap_servers(self):
        return f"{self.real.bootstrap_servers},{self.ours.address}"

    def heal(self):
        """All nodes run, and take part."""
        for node_id in self.real.node_ids:
            if not self.real.is_running(node_id):
                self.real.start(node_id)
        if not self.ours.is_running:
            self.ours.start()
        everybody = {*self.real.node_ids, OURS}
        wait_until(lambda: set(self.admin().list_topics(timeout=30).brokers) == everybody, story=self.story)
        for name in INTERNAL:
            preferred = [place[0] for place in PLACES]
            self.wait_in_sync(name, *map(set, PLACES))
            if self.leaders(name) != preferred:
                self.elect_preferred(name)
                self.wait_led(name, *preferred)

    # -- topics --

    def make_topic(self, replicas, name=None, **configs):
        """Its partitions on these nodes, each the preferred leader of its own."""
        name = name or self.name()
        given = {key.replace("__", "."): str(value) for key, value in configs.items()}
        made = NewTopic(name, num_partitions=len(replicas), replica_assignment=replicas, config=given)
        admin = self.admin()  # gives up what it waits for when it goes out of scope
        admin.create_topics([made])[name].result(SECONDS)
        self.wait_in_sync(name, *map(set, replicas))
        return name

    def partitions(self, topic):
        """As a real node knows them."""
        address = next(f"127.0.0.1:{self.real.ports[each]['PLAINTEXT']}" for each in self.real.running_ids)
        admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
        found = admin.list_topics(topic, timeout=30).topics[topic].partitions
        return [partition for _, partition in sorted(found.items())]

    def in_sync(self, topic):
        return [set(each.isrs) for each in self.partitions(topic)]

    def leaders(self, topic):
        return [each.leader for each in self.partitions(topic)]

    def wait_in_sync(self, topic, *wanted):
        """Until the in-sync replicas of each partition are these."""
        wait_until(lambda: self.in_sync(topic) == list(wanted), story=lambda: f"{self.in_sync(topic)} {self.story()}")

    def wait_led(self, topic, *wanted):
        wait_until(lambda: self.leaders(topic) == list(wanted), story=lambda: f"{self.leaders(topic)} {self.story()}")

    def name_coordinated_by(self, node_id):
        """A new name that this node coordinates as long as it leads what it prefers to lead."""
        return next(name for name in iter(self.name, None) if PLACES[_partition_of(name)][0] == node_id)

    def coordinators(self, group, transactional_id):
        return tuple(
            self.leaders(internal)[_partition_of(name)]
            for internal, name in zip(INTERNAL, (group, transactional_id), strict=True)
        )

    def elect_preferred(self, topic):
        """With Kafka's tool."""
        plan = self._plan({"partitions": [{"topic": topic, "partition": each.id} for each in self.partitions(topic)]})
        self._tool("LeaderElectionCommand", "--election-type", "preferred", "--path-to-json-file", plan)

    def reassign(self, topic, replicas):
        """With Kafka's tool; returns when the move is over."""
        moved = [{"topic": topic, "partition": number, "replicas": each} for number, each in enumerate(replicas)]
        plan = self._plan({"version": 1, "partitions": moved})
        self._tool("reassign.ReassignPartitionsCommand", "--reassignment-json-file", plan, "--execute")
        wait_until(lambda: [each.replicas for each in self.partitions(topic)] == replicas, story=self.story)
        self.wait_in_sync(topic, *map(set, replicas))

    def _plan(self, content):
        path = self._folder / "plan.json"
        path.write_text(json.dumps(content))
        return str(path)

    def _tool(self, command, *arguments):
        kafka_tools.kafka_tool(
            f"org.apache.kafka.tools.{command}", "--bootstrap-server", self.bootstrap_servers, *arguments
        )

    # -- what is there --

    def log_at(self, node_id, topic, partition):
        if node_id == OURS:
            return self.ours.log_of(topic, partition)
        return log_of(self._folder / "real" / str(node_id) / "data" / f"{topic}-{partition}")

    def assert_replicas_are_equal(self, topic):
        """Byte for byte, once nobody writes any more."""
        replicas = [each.replicas for each in self.partitions(topic)]
        for number, nodes in enumerate(replicas):
            wait_until(
                lambda number=number, nodes=nodes: len({self.log_at(each, topic, number) for each in nodes}) == 1,
                story=lambda number=number: f"{topic}-{number} differs\n{self.story()}",
            )
        assert any(self.log_at(nodes[0], topic, number) for number, nodes in enumerate(replicas)), f"{topic} is empty"

    def assert_once_and_in_order(self, topic, writer):
        """What the writer knows as acknowledged is all there is, on every replica."""
        stored = read_all(self, topic)
        for number in range(len(self.partitions(topic))):
            values = [message.value() for message in stored if message.partition() == number]
            assert values == writer.acknowledged[number]
            assert [int(value) for value in values] == sorted({int(value) for value in values})
        self.assert_replicas_are_equal(topic)

    def errors(self):
        """The lines that the real nodes logged as errors, and tracebacks and errors of ours."""
        logs = [self._folder / "real" / str(each) / "node.log" for each in self.real.node_ids]
        lines = [line for log in logs for line in log.read_text(errors="replace").splitlines()]
        theirs = [line for line in lines if re.search(r"\] (ERROR|FATAL) ", line)]
        return theirs + [line for line in self.ours.said.splitlines() if re.search(r" ERROR |^Traceback", line)]

    def story(self):
        return "\n".join([self.ours.log_end(), *self.errors()[-10:]])


def _partition_of(name):
    return key_partition(name, len(PLACES))
