"""Three real Kafka nodes and three of ours, all broker and controller, in one dynamic quorum; a cluster moves from the
ones to the others by `streamlog` alone. Real nodes are 1 to 3, ours 4 to 6."""

from __future__ import annotations

import io
import itertools
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from confluent_kafka.admin import NewTopic
from support.brokers.reachable_broker import free_ports
from support.brokers.real_quorum import RealQuorum
from support.cluster.client_place import ClientPlace
from support.quorum.our_broker import wait_until

from broker_core.cli.command_line import run
from broker_core.server.local.cluster_layout import NodePlace
from broker_core.server.local.node_process import NodeProcess

REAL, OURS = (1, 2, 3), (4, 5, 6)
SECONDS = 120
_SHARED = (
    "controller.listener.names=CONTROLLER", "inter.broker.listener.name=PLAINTEXT", "offsets.topic.num.partitions=4",
    "offsets.topic.replication.factor=3", "transaction.state.log.replication.factor=3",
    "transaction.state.log.num.partitions=4", "transaction.state.log.min.isr=2", "group.initial.rebalance.delay.ms=0",
)  # fmt: skip


def streamlog(*words):
    """Exit code, stdout and stderr."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = run([*map(str, words)])
    return status, out.getvalue(), err.getvalue()


class OurNode(NodeProcess):
    """Formatted without voters: it joins as an observer."""

    def __init__(self, folder: Path, node_id: int, ports, cluster_id: str, controllers: str):
        folder.mkdir(parents=True)
        port, controller_port = ports
        super().__init__(
            NodePlace(node_id=node_id, folder=folder, port=port, controller_port=controller_port), cluster_id
        )
        lines = [
            *_SHARED, "process.roles=broker,controller", f"node.id={node_id}", f"log.dirs={self.path}",
            f"controller.quorum.bootstrap.servers={controllers}",
            f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
            f"advertised.listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        ]  # fmt: skip
        self.place.properties_path.write_text("\n".join(lines) + "\n")
        words = ("--config", self.place.properties_path, "--cluster-id", cluster_id, "--no-initial-controllers")
        status, _, err = streamlog("storage", "format", *words)
        assert status == 0, err


class MovingCluster(ClientPlace):
    """A context manager that kills what still runs."""

    def __init__(self, folder: Path):
        self._folder, self._names = folder, itertools.count()
        numbers = free_ports(2 * len(OURS))
        ports = {node_id: (numbers[2 * place], numbers[2 * place + 1]) for place, node_id in enumerate(OURS)}
        self.real = RealQuorum(folder / "real", is_dynamic=True)
        ours = ",".join(f"127.0.0.1:{ports[node_id][1]}" for node_id in OURS)
        controllers = f"{self.real.bootstrap_controllers},{ours}"
        for node_id in REAL:  # the last one of a setting's lines counts
            lines = [*_SHARED, f"controller.quorum.bootstrap.servers={controllers}"]
            with self.properties(node_id).open("a") as file:
                file.write("\n".join(lines) + "\n")
        self.ours = {
            node_id: OurNode(folder / str(node_id), node_id, ports[node_id], self.real.cluster_id, controllers)
            for node_id in OURS
        }

    def __enter__(self):
        try:
            self.real.start()
            for node_id in REAL[1:]:
                self.add_voter(node_id)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for node in self.ours.values():
            node.kill()
        self.real.__exit__()

    def properties(self, node_id):
        if node_id in REAL:
            return self._folder / "real" / str(node_id) / "server.properties"
        return self.ours[node_id].place.properties_path

    def address(self, node_id):
        port = self.real.ports[node_id]["PLAINTEXT"] if node_id in REAL else self.ours[node_id].place.port
        return f"127.0.0.1:{port}"

    @property
    def bootstrap_servers(self):
        return ",".join(map(self.address, (*REAL, *OURS)))

    def make_topic(self, name, partition_count):
        admin = self.admin()  # gives up what it waits for when it goes out of scope
        config = {"min.insync.replicas": "2"}
        made = NewTopic(name, num_partitions=partition_count, replication_factor=3, config=config)
        admin.create_topics([made])[name].result(SECONDS)
        return name

    # -- the steps of docs/moving.md --

    def asked(self, *words):
        """The JSON of a command that succeeds."""
        status, out, err = streamlog(*words, "--bootstrap-server", self.bootstrap_servers)
        assert status == 0, err
        return json.loads(out) if out.strip() else None

    def check(self, *leaving):
        """What is not in order, with its verdict."""
        words = ("--leaving", ",".join(map(str, leaving)), "--bootstrap-server", self.bootstrap_servers, "--json")
        status, out, err = streamlog("migrate", "check", *words)
        found = json.loads(out) if out.strip() else [{"subject": "no answer", "verdict": err, "found": ""}]
        left = {each["subject"]: f"{each['verdict']}: {each['found']}" for each in found if each["verdict"] != "ok"}
        assert (status == 0) == (not left), err
        return left

    def wait_checked(self, *leaving, open_subjects=()):
        """Until nothing else is left."""
        wait_until(
            lambda: set(self.check(*leaving)) == set(open_subjects), seconds=SECONDS, story=lambda: self.check(*leaving)
        )

    def move_partitions(self, replacements):
        """Returns when all are moved and their preferred replicas lead."""
        pairs = ",".join(f"{old}={new}" for old, new in replacements.items())
        planned = self.asked("migrate", "plan", "--replace", pairs)
        plan = self._folder / "moves.json"
        plan.write_text(json.dumps(planned))
        self.asked("partitions", "reassign", "--file", plan, "--json")
        self.wait_checked()
        self.asked("partitions", "elect", "--preferred", "--all", "--json")
        return len(planned["partitions"])

    def voters(self):
        found = self.asked("quorum", "describe", "--json")["replicas"]
        return {each["node_id"]: each["directory_id"] for each in found if each["is_voter"]}

    def add_voter(self, node_id):
        def is_added():
            words = ("--config", self.properties(node_id), "--bootstrap-server", self.bootstrap_servers)
            self.said = streamlog("quorum", "add", *words)
            return self.said[0] == 0

        wait_until(is_added, seconds=SECONDS, story=lambda: self.said)
        assert node_id in self.voters()

    def remove_voter(self, node_id):
        def is_removed():
            voters = self.voters()
            if node_id in voters:
                words = ("--controller-id", node_id, "--controller-directory-id", voters[node_id])
                self.said = streamlog("quorum", "remove", *words, "--bootstrap-server", self.bootstrap_servers)
            return node_id not in self.voters()

        wait_until(is_removed, seconds=SECONDS, story=lambda: self.said)

    def stop(self, *node_ids):
        for node_id in node_ids:
            if node_id in REAL:
                self.real.stop(node_id)
            else:
                self.ours[node_id].stop()
            self.asked("broker", "unregister", node_id)

    def start(self, *node_ids):
        for node_id in node_ids:
            if node_id in REAL:
                self.real.start(node_id)
            else:
                self.ours[node_id].start()
