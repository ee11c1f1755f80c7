"""Dynamic voters beside a real Kafka 4.3.1: its tools change a quorum of ours, a node of ours votes in a real one, and
the other way round; `pytest -m kafka`."""

import json
import re
import subprocess
import time

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from support.brokers import kafka_tools
from support.brokers.real_quorum import JAVA, LOGGING, RealQuorum
from support.quorum.our_quorum import OurQuorum

from broker_core.metadata.controller import encode_id
from broker_core.record.batch_reader import iter_headers

SECONDS = 90

pytestmark = pytest.mark.kafka


@pytest.fixture(autouse=True)
def needs_kafka():
    if reason := kafka_tools.why_unavailable():
        pytest.skip(reason)


def wait_until(condition):
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def metadata_quorum(controllers, *arguments):
    place = ("--bootstrap-controller", controllers)
    return kafka_tools.kafka_tool("org.apache.kafka.tools.MetadataQuorumCommand", *place, *arguments)


def voters_of(described):
    return {each.node_id: each for each in described.replicas if each.is_voter}


def add(quorum, controllers, properties, node_id):
    """By Kafka's tool, once the node follows."""
    wait_until(lambda: any(each.node_id == node_id and each.log_end_offset > 0 for each in described(quorum).replicas))

    def is_added():
        try:
            said = metadata_quorum(controllers, "--command-config", str(properties), "add-controller")
        except AssertionError as error:
            if "is not at the end of the log yet" in str(error) or "lagging behind" in str(error):
                return False  # a slow machine
            raise
        assert f"Added controller {node_id}" in said
        return True

    wait_until(is_added)
    assert node_id in voters_of(described(quorum))


def described(quorum, **options):
    return quorum.described(**options)[0]


def remove(controllers, voter):
    directory = encode_id(voter.directory_id)
    options = ("--controller-id", str(voter.node_id), "--controller-directory-id", directory)
    said = metadata_quorum(controllers, "remove-controller", *options)
    assert f"KRaft controller {voter.node_id} with directory id {directory}" in said and said.startswith("Removed")


def batches_of(folder):
    log = b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))
    return {header.base_offset: log[position : position + header.size_bytes] for position, header in iter_headers(log)}


def test_kafkas_tools_add_and_remove_voters_of_ours(tmp_path):
    with OurQuorum(tmp_path, is_dynamic=True) as ours:
        ours.start()
        first = described(ours, past=8)
        assert list(voters_of(first)) == [1] and first.leader_id == 1
        for node_id in (2, 3):
            add(ours, ours.bootstrap_controllers, ours.properties(node_id), node_id)
        shown = metadata_quorum(ours.bootstrap_controllers, "describe", "--status")
        told = json.loads(dict(re.findall(r"^(\w+):\s*(.*)$", shown, re.MULTILINE))["CurrentVoters"])
        directories = {node_id: encode_id(each.directory_id) for node_id, each in voters_of(described(ours)).items()}
        assert {each["id"]: each["directoryId"] for each in told} == directories
        assert {each["id"]: each["endpoints"] for each in told} == {
            node_id: [f"CONTROLLER://127.0.0.1:{port}"] for node_id, port in ours.ports.items()
        }
        remove(ours.bootstrap_controllers, voters_of(described(ours))[1])
        after = described(ours, past=first.high_watermark)
        assert set(voters_of(after)) == {2, 3} and after.leader_id in (2, 3)
        wait_until(lambda: 1 in {each.node_id for each in described(ours).replicas if not each.is_voter})
        (log,) = ours.metadata_folder(after.leader_id).glob("*.log")
        dumped = kafka_tools.kafka_tool(
            "org.apache.kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", str(log)
        )
        sets = [json.loads(text)["voters"] for text in re.findall(r"KRaftVoters:? (\{.*\})$", dumped, re.MULTILINE)]
        assert [{each["voterId"] for each in one} for one in sets] == [{1}, {1, 2}, {1, 2, 3}, {2, 3}]


def test_a_node_of_ours_becomes_a_voter_of_a_real_quorum_and_carries_it(tmp_path):
    with RealQuorum(tmp_path / "real", node_count=2, is_dynamic=True) as real:
        theirs = {node_id: real.ports[node_id]["CONTROLLER"] for node_id in real.node_ids}
        ours = OurQuorum(
            tmp_path / "ours", node_count=1, cluster_id=real.cluster_id, other_ports=theirs, is_dynamic=True
        )
        with ours:
            real.start()
            ours.start(3)
            settings = tmp_path / "real" / "2" / "server.properties"
            add(ours, real.bootstrap_controllers, settings, 2)
            add(ours, real.bootstrap_controllers, ours.properties(3), 3)
            before = described(ours)
            assert set(voters_of(before)) == {1, 2, 3}
            wait_until(lambda: voters_of(described(ours))[3].log_end_offset >= before.high_watermark)

            real.kill(before.leader_id)
            after = described(ours, other_than=before.leader_id, past=before.high_watermark)
            assert after.leader_id != before.leader_id
            other = 3 - before.leader_id
            wait_until(lambda: voters_of(described(ours))[3].log_end_offset > after.high_watermark)
            # The real one that is left can write only with the vote and the log of ours.
            admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{real.ports[other]['PLAINTEXT']}", "log_level": 0})
            admin.create_topics([NewTopic("carried", num_partitions=1, replication_factor=1)])["carried"].result(60)
            state = json.loads((ours.metadata_folder(3) / "quorum-state").read_text())
            assert (state["data_version"], state["leaderId"]) == (1, after.leader_id)

            real.start(before.leader_id)
            wait_until(lambda: voters_of(described(ours))[before.leader_id].log_end_offset > after.high_watermark)
            controllers = ",".join(f"127.0.0.1:{port}" for port in ours.ports.values())
            remove(controllers, voters_of(described(ours))[3])
            assert set(voters_of(described(ours))) == {1, 2}
            time.sleep(1)
            mine, real_log = batches_of(ours.metadata_folder(3)), batches_of(real.metadata_folder(other))
            both = mine.keys() & real_log.keys()
            assert len(both) > 10 and {offset for offset in both if mine[offset] != real_log[offset]} == set()


def test_a_real_node_becomes_a_voter_of_a_quorum_of_ours_and_leads_it_alone_at_last(tmp_path):
    with OurQuorum(tmp_path, node_count=2, is_dynamic=True) as ours:
        properties = ours.properties(2)
        kafka_tools.kafka_tool("kafka.tools.StorageTool", "format", "-t", ours.cluster_id, "-c", str(properties), "-N")
        ours.start(1)
        described(ours, past=8)
        command = [*JAVA, LOGGING, "-cp", f"{kafka_tools.JARS}/*", "kafka.Kafka", str(properties)]
        with (tmp_path / "2" / "node.log").open("ab") as log:
            real = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            add(ours, ours.bootstrap_controllers, properties, 2)
            before = described(ours)
            assert before.leader_id == 1 and set(voters_of(before)) == {1, 2}
            remove(ours.bootstrap_controllers, voters_of(before)[1])
            after = described(ours, past=before.high_watermark)
            assert (after.leader_id, set(voters_of(after))) == (2, {2})
            wait_until(lambda: any(each.node_id == 1 for each in described(ours).replicas))
            time.sleep(1)
            mine, theirs = batches_of(ours.metadata_folder(1)), batches_of(ours.metadata_folder(2))
            both = mine.keys() & theirs.keys()
            assert len(both) > 10 and {offset for offset in both if mine[offset] != theirs[offset]} == set()
        finally:
            real.kill()
            real.wait()
