"""Directories formatted by us beside those of Kafka's own tool, and nodes that start in them; `pytest -m kafka`."""

import subprocess
import sys

import pytest
from confluent_kafka import Producer
from support.brokers import kafka_tools
from support.brokers.real_quorum import RealQuorum, kafkas_format
from support.quorum.our_quorum import OurQuorum
from support.quorum.snapshot_times import without_times

CLUSTER = "4L6g3nShT-eMCtK--X86sw"
VOTERS = "1@localhost:19093:JEXY6aqzQY-32P5TStzaFg,2@localhost:8083:MvDxzVmcRsaTz33bUuRU6A"
SECONDS = 90
STATIC = "controller.quorum.voters=1@localhost:19093"
SETTINGS = (
    "process.roles=broker,controller", "node.id=1", "controller.listener.names=CONTROLLER",
    "listeners=PLAINTEXT://localhost:19092,CONTROLLER://localhost:19093",
    "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
)  # fmt: skip
DYNAMIC = "controller.quorum.bootstrap.servers=localhost:19093"

SALT = "c2FsdCBvZiB0aGUgdXNlcg=="
USERS = (
    "--add-scram", f"SCRAM-SHA-256=[name=alice,salt={SALT},iterations=8192,password=secret]",
    "--add-scram", f'SCRAM-SHA-512=[name=bob,salt="{SALT}",saltedpassword="{SALT}"]',
)  # fmt: skip

pytestmark = pytest.mark.kafka


@pytest.fixture(autouse=True)
def needs_kafka():
    if reason := kafka_tools.why_unavailable():
        pytest.skip(reason)


def format_ours(configuration, cluster_id, *options):
    command = [sys.executable, "-m", "broker_core.cli.main", "storage", "format", "--config", str(configuration)]
    done = subprocess.run([*command, "--cluster-id", cluster_id, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def contents(folder):
    """By name: snapshots without times, properties without their comment and the directory's id."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            if path.name.endswith(".checkpoint"):
                data = without_times(data)
            else:
                assert path.name == "meta.properties"
                data = b"\n".join(line for line in data.split(b"\n") if not line.startswith((b"#", b"directory.id=")))
            found[str(path.relative_to(folder))] = data
    return found


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        ((STATIC,), ()),
        ((STATIC,), ("--release-version", "4.1-IV0")),
        ((STATIC,), USERS),
        ((DYNAMIC,), ("--initial-controllers", VOTERS)),
        ((DYNAMIC,), ("--no-initial-controllers",)),
        ((DYNAMIC,), ("--initial-controllers", VOTERS, "--feature", "transaction.version=1", "--feature",
                      "streams.version=0")),
        ((DYNAMIC,), ("--initial-controllers", VOTERS, "--release-version", "3.9")),
    ],
    ids=["static", "an older release", "users", "dynamic", "joining", "features", "a release before most features"],
)  # fmt: skip
def test_the_files_are_those_of_kafkas_tool_byte_for_byte_but_for_times_and_random_ids(tmp_path, settings, options):
    for name, run in (("ours", format_ours), ("theirs", kafkas_format)):
        configuration = tmp_path / f"{name}.properties"
        dirs = f"log.dirs={tmp_path}/{name}/first,{tmp_path}/{name}/second"
        configuration.write_text("\n".join([*SETTINGS, *settings, dirs]) + "\n")
        run(configuration, CLUSTER, *options)
    ours, theirs = contents(tmp_path / "ours"), contents(tmp_path / "theirs")
    assert {"first/meta.properties", "second/bootstrap.checkpoint"} <= ours.keys()
    assert ours == theirs


@pytest.mark.parametrize("is_dynamic", [False, True], ids=["static voters", "standalone"])
def test_a_real_node_starts_in_a_directory_that_we_formatted(tmp_path, is_dynamic):
    with RealQuorum(tmp_path, node_count=1, is_dynamic=is_dynamic, format_with=format_ours) as real:
        real.start()
        errors = []
        producer = Producer({"bootstrap.servers": real.bootstrap_servers, "acks": "all", "log_level": 0})
        producer.produce("made", b"one", on_delivery=lambda error, message: errors.append(error))
        assert producer.flush(SECONDS) == 0
        assert errors == [None]
        features = kafka_tools.kafka_tool(
            "org.apache.kafka.tools.FeatureCommand", "--bootstrap-server", real.bootstrap_servers, "describe"
        )
        levels = {line.split()[1]: line.split("FinalizedVersionLevel:")[1].split()[0] for line in features.splitlines()}
        assert (levels["metadata.version"], levels["transaction.version"]) == ("4.3-IV0", "2")
        assert levels["kraft.version"] == str(int(is_dynamic))


def test_a_controller_of_ours_starts_in_a_directory_that_kafkas_tool_formatted_for_static_voters(tmp_path):
    with OurQuorum(tmp_path, node_count=1) as ours:
        listener = f"listeners=CONTROLLER://127.0.0.1:{ours.ports[1]}"
        settings = ("process.roles=controller", "controller.listener.names=CONTROLLER", listener)
        kafkas_format(ours.properties(1, *settings), ours.cluster_id)
        ours.start()
        described, _ = ours.described(past=8)
        assert described.leader_id == 1


def test_a_controller_of_ours_starts_in_a_directory_that_kafkas_tool_formatted_for_a_dynamic_quorum(tmp_path):
    with OurQuorum(tmp_path, node_count=1, is_dynamic=True) as ours:
        kafkas_format(ours.properties(1), ours.cluster_id, "--standalone")
        ours.start()
        described, _ = ours.described(past=8)
        (voter,) = described.replicas
        assert described.leader_id == 1 and voter.directory_id is not None
