"""The administrator's commands at a real Kafka, and at real brokers over a controller of ours; `pytest -m kafka`."""

import json
import time
from contextlib import contextmanager

import pytest
from support.brokers import kafka_tools
from support.brokers.real_brokers import RealBrokers
from support.brokers.real_quorum import RealQuorum
from support.quorum.our_quorum import CLUSTER_ID, OurQuorum

from broker_core.cli.command_line import run

SECONDS = 90
SHORT_SESSION = ("broker.session.timeout.ms=5000", "auto.leader.rebalance.enable=false")

pytestmark = pytest.mark.kafka


@contextmanager
def kafkas_cluster(folder):
    with RealQuorum(folder, settings=SHORT_SESSION) as real:
        real.start()
        yield real, list(real.node_ids)


@contextmanager
def our_controllers_cluster(folder):
    with OurQuorum(folder / "ours", node_count=1, settings=SHORT_SESSION) as ours:
        ours.start()
        with RealBrokers(folder / "real", cluster_id=CLUSTER_ID, voters=ours.voters, broker_count=3) as real:
            real.start()
            yield real, list(real.broker_ids)


@pytest.fixture(scope="module", params=[kafkas_cluster, our_controllers_cluster])
def cluster(request, tmp_path_factory):
    if reason := kafka_tools.why_unavailable():
        pytest.skip(reason)
    with request.param(tmp_path_factory.mktemp("cluster")) as (nodes, ids):
        yield nodes, ids


@pytest.fixture
def streamlog(cluster, capsys):
    """The command with the brokers; JSON if there is any, else what it wrote on stderr."""
    nodes, _ = cluster

    def call(*words, status=0):
        capsys.readouterr()
        found = run([*map(str, words), "--bootstrap-server", nodes.bootstrap_servers])
        captured = capsys.readouterr()
        assert found == status, captured.err
        return json.loads(captured.out) if "--json" in words else captured.err

    return call


def wait_until(condition):
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def partitions(streamlog, *filters):
    found = streamlog("partitions", "list", *filters, "--json")
    return {(each["topic"], each["partition"]): each for each in found}


def states(streamlog):
    return {each["broker_id"]: each["state"] for each in streamlog("broker", "list", "--json")}


@pytest.fixture(autouse=True)
def topic(request, cluster, streamlog):
    """A topic of the test's own on brokers a:b and b:c, while all brokers run."""
    nodes, ids = cluster
    name = f"t{abs(hash(request.node.name))}"
    wait_until(lambda: states(streamlog) == dict.fromkeys(ids, "running"))
    a, b, c = ids
    streamlog("topic", "create", name, "--replica-assignment", f"{a}:{b},{b}:{c}")
    wait_until(lambda: not partitions(streamlog, "--under-replicated"))
    yield name
    for node_id in ids:
        if not nodes.is_running(node_id):
            nodes.start(node_id)


def test_brokers_topics_and_partitions_are_what_kafka_says(cluster, streamlog, topic):
    nodes, (a, b, c) = cluster
    streamlog("topic", "create", "many", "--partitions", "3", "--replication-factor", "3")
    wait_until(lambda: not partitions(streamlog, "--under-replicated"))
    found = partitions(streamlog, "--topic", topic)
    assert {number: (each["leader"], each["replicas"]) for (_, number), each in found.items()} == {
        0: (a, [a, b]),
        1: (b, [b, c]),
    }
    assert found[topic, 0]["elr"] == []
    described = streamlog("topic", "describe", "many", "--json")["partitions"]
    assert [sorted(each["replicas"]) for each in described] == [[a, b, c]] * 3
    everything = partitions(streamlog)
    for each in streamlog("broker", "list", "--json"):
        held = [found for found in everything.values() if each["broker_id"] in found["replicas"]]
        led = [found for found in held if found["leader"] == each["broker_id"]]
        assert (each["held_partitions"], each["led_partitions"]) == (len(held), len(led))
    shown = kafka_tools.kafka_tool(
        "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", nodes.bootstrap_servers, "--describe",
        "--topic", topic,
    )  # fmt: skip
    for (_, number), each in found.items():
        replicas = ",".join(map(str, each["replicas"]))
        assert f"Partition: {number}\tLeader: {each['leader']}\tReplicas: {replicas}\t" in shown


def test_partitions_move_and_kafkas_tool_says_so(cluster, streamlog, topic, tmp_path):
    nodes, (_, b, c) = cluster
    dry = streamlog("partitions", "reassign", "--topic", topic, "--replicas", f"{c},{b}", "--dry-run", "--json")
    assert [each["after"] for each in dry] == [[c, b], [b, c]]
    path = tmp_path / "moves.json"
    entries = [{"topic": topic, "partition": 0, "replicas": [c, b], "log_dirs": ["any", "any"]}]
    path.write_text(json.dumps({"version": 1, "partitions": entries}))
    assert streamlog("partitions", "reassign", "--file", path, "--json")[0]["error"] is None
    wait_until(lambda: streamlog("partitions", "reassign", "--list", "--json") == [])
    wait_until(lambda: partitions(streamlog, "--topic", topic)[topic, 0]["replicas"] == [c, b])
    verified = kafka_tools.kafka_tool(
        "org.apache.kafka.tools.reassign.ReassignPartitionsCommand", "--bootstrap-server", nodes.bootstrap_servers,
        "--reassignment-json-file", str(path), "--verify",
    )  # fmt: skip
    assert f"Reassignment of partition {topic}-0 is completed." in verified


def test_what_the_controller_refuses_is_told_for_each_partition(streamlog, topic):
    words = ("partitions", "reassign", "--topic", topic)
    refused = streamlog(*words, "--partition", "0", "--replicas", "9", status=1)
    assert f"{topic}-0: The manual partition assignment includes broker 9, but no such broker is registered." in refused
    refused = streamlog(*words, "--partition", "5", "--replicas", "9", status=1)
    assert refused == f"streamlog: Topic '{topic}' has no partition 5: it has 2 partitions.\n"
    assert "called 0 reassignments off" in streamlog("partitions", "reassign", "--cancel", "--all")


def test_a_killed_broker_is_fenced_and_leads_again_when_it_is_elected(cluster, streamlog, topic):
    nodes, (_, b, c) = cluster
    nodes.kill(b)
    wait_until(lambda: states(streamlog)[b] == "fenced")
    wait_until(lambda: partitions(streamlog, "--topic", topic, "--under-replicated").keys() == {(topic, 0), (topic, 1)})
    assert partitions(streamlog, "--topic", topic)[topic, 1]["leader"] == c
    one = ("--topic", topic, "--partition", "1")
    refused = streamlog("partitions", "elect", "--preferred", *one, status=1)
    assert refused.startswith(f"streamlog: {topic}-1: The preferred leader was not available.")
    nodes.start(b)
    wait_until(lambda: states(streamlog)[b] == "running" and not partitions(streamlog, "--under-replicated"))
    done = streamlog("partitions", "elect", "--preferred", "--all", "--json")
    assert {"topic": topic, "partition": 1, "result": "elected", "error": None} in done
    wait_until(lambda: partitions(streamlog, "--topic", topic)[topic, 1]["leader"] == b)
    assert streamlog("partitions", "elect", "--preferred", "--topic", topic) == (
        "elected leaders of 0 partitions; not needed for 2\n"
    )


def test_an_unclean_election_ends_that_a_partition_has_no_leader(cluster, streamlog, topic):
    nodes, (_, b, c) = cluster
    if isinstance(nodes, RealQuorum):
        pytest.skip("without two of the three nodes there is no quorum")
    nodes.kill(c)
    wait_until(lambda: partitions(streamlog, "--topic", topic)[topic, 1]["isr"] == [b])
    nodes.kill(b)
    wait_until(lambda: (topic, 1) in partitions(streamlog, "--offline"))
    one = ("--topic", topic, "--partition", "1")
    refused = streamlog("partitions", "elect", "--unclean", *one, status=1)
    assert refused.startswith(f"streamlog: {topic}-1: Eligible topic partition leaders are not available.")
    nodes.start(c)
    wait_until(lambda: states(streamlog)[c] == "running")
    assert (topic, 1) in partitions(streamlog, "--offline")
    streamlog("partitions", "elect", "--unclean", *one)
    wait_until(lambda: partitions(streamlog, "--topic", topic)[topic, 1]["leader"] == c)


def test_a_broker_that_is_gone_is_unregistered_and_comes_back_when_it_is_started(cluster, streamlog):
    nodes, (a, b, c) = cluster
    nodes.kill(c)
    wait_until(lambda: states(streamlog)[c] == "fenced")
    assert streamlog("broker", "unregister", c) == f"unregistered broker {c}\n"
    wait_until(lambda: states(streamlog) == {a: "running", b: "running", c: "gone"})
    refused = streamlog("broker", "unregister", c, status=1)
    assert refused == f"streamlog: unregister broker {c}: Broker ID {c} is not currently registered\n"
    nodes.start(c)
    wait_until(lambda: states(streamlog) == {a: "running", b: "running", c: "running"})
