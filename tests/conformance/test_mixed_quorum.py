"""Voters of ours and of a real Kafka in one quorum: they follow each other, and elect each other; `pytest -m kafka`."""

import subprocess
import time

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from support.brokers import kafka_tools
from support.brokers.real_quorum import JAVA, LOGGING, RealQuorum
from support.quorum.our_quorum import CLUSTER_ID, OurQuorum

from broker_core.record.batch_reader import iter_headers

SECONDS = 90
PATIENT = ("controller.quorum.fetch.timeout.ms=20000", "controller.quorum.election.timeout.ms=10000")
"""A voter with these votes, and does not stand for election itself within the test."""

pytestmark = pytest.mark.kafka


@pytest.fixture(autouse=True)
def needs_kafka():
    if reason := kafka_tools.why_unavailable():
        pytest.skip(reason)


def batches_of(folder):
    log = b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))
    return {header.base_offset: log[position : position + header.size_bytes] for position, header in iter_headers(log)}


def require_equal_batches(ours, theirs, *, at_least):
    both = ours.keys() & theirs.keys()
    assert len(both) >= at_least
    assert {offset for offset in both if ours[offset] != theirs[offset]} == set()


def wait_until(condition):
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def ends(described):
    return {each.node_id: each.log_end_offset for each in described.replicas if each.is_voter}


def has_both(described, *node_ids):
    """Whether both have everything that is committed."""
    return all(ends(described)[node_id] >= described.high_watermark > 0 for node_id in node_ids)


def test_a_voter_of_ours_beside_two_real_ones_keeps_their_log_and_gives_the_vote_that_elects(tmp_path):
    with RealQuorum(tmp_path / "real", node_count=2) as real:
        theirs = {node_id: real.ports[node_id]["CONTROLLER"] for node_id in real.node_ids}
        ours = OurQuorum(
            tmp_path / "ours", node_count=1, settings=PATIENT, cluster_id=real.cluster_id, other_ports=theirs
        )
        with ours:
            for node_id in real.node_ids:
                with (tmp_path / "real" / str(node_id) / "server.properties").open("a") as properties:
                    properties.write(f"controller.quorum.voters={ours.voters}\n")
            ours.start(3)
            real.start()
            admin = AdminClient({"bootstrap.servers": real.bootstrap_servers, "log_level": 0})
            admin.create_topics([NewTopic("before", num_partitions=3, replication_factor=2)])["before"].result(60)
            before, _ = ours.described()
            assert before.leader_id in (1, 2)
            wait_until(lambda: ends(ours.described()[0])[3] >= before.high_watermark)

            real.kill(before.leader_id)
            after, _ = ours.described(other_than=before.leader_id, past=before.high_watermark)
            assert (after.leader_id, after.leader_epoch) == (3 - before.leader_id, before.leader_epoch + 1)
            wait_until(lambda: ends(ours.described()[0])[3] >= after.high_watermark)
            voted = (ours.metadata_folder(3) / "quorum-state").read_text()
            assert (
                f'"leaderId":{after.leader_id},"leaderEpoch":{after.leader_epoch},"votedId":{after.leader_id}' in voted
            )
            time.sleep(1)
            require_equal_batches(
                batches_of(ours.metadata_folder(3)), batches_of(real.metadata_folder(after.leader_id)), at_least=10
            )


def test_a_real_controller_follows_a_leader_of_ours_and_votes_for_the_next_one(tmp_path):
    with OurQuorum(tmp_path) as quorum:
        properties = quorum.properties(
            3, "process.roles=controller", f"listeners=CONTROLLER://127.0.0.1:{quorum.ports[3]}",
            "controller.listener.names=CONTROLLER",
        )  # fmt: skip
        kafka_tools.kafka_tool("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties))
        quorum.start(1, 2)
        quorum.described(past=4)
        command = [*JAVA, LOGGING, "-cp", f"{kafka_tools.JARS}/*", "kafka.Kafka", str(properties)]
        with (tmp_path / "3" / "node.log").open("ab") as log:
            real = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            wait_until(lambda: ends(quorum.described()[0])[3] > 4)
            before, _ = quorum.described()
            assert before.leader_id in (1, 2)
            quorum.kill(before.leader_id)
            after, _ = quorum.described(other_than=before.leader_id, past=before.high_watermark)
            survivor = 3 - before.leader_id
            wait_until(lambda: has_both(quorum.described(other_than=before.leader_id)[0], survivor, 3))
            assert after.leader_epoch > before.leader_epoch
            time.sleep(1)
            ours = batches_of(quorum.metadata_folder(survivor))
            require_equal_batches(ours, batches_of(quorum.metadata_folder(3)), at_least=5)
        finally:
            real.kill()
            real.wait()
