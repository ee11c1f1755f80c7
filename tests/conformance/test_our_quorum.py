"""Kafka's own tools at controllers of ours, and at the files that they leave; `pytest -m kafka`."""

import json
import re

import pytest
from support.brokers import kafka_tools
from support.quorum.our_quorum import CLUSTER_ID, OurQuorum

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def quorum(tmp_path_factory):
    if reason := kafka_tools.why_unavailable():
        pytest.skip(reason)
    with OurQuorum(tmp_path_factory.mktemp("quorum")) as quorum:
        quorum.start()
        quorum.described(past=4)
        yield quorum


def metadata_quorum(quorum, *arguments):
    controllers = ("--bootstrap-controller", quorum.bootstrap_controllers)
    return kafka_tools.kafka_tool("org.apache.kafka.tools.MetadataQuorumCommand", *controllers, *arguments)


def test_kafka_metadata_quorum_describes_the_status(quorum):
    described, _ = quorum.described()
    shown = dict(re.findall(r"^(\w+):\s*(.*)$", metadata_quorum(quorum, "describe", "--status"), re.MULTILINE))
    assert shown["ClusterId"] == CLUSTER_ID
    assert (int(shown["LeaderId"]), int(shown["LeaderEpoch"])) == (described.leader_id, described.leader_epoch)
    assert int(shown["HighWatermark"]) >= described.high_watermark
    assert int(shown["MaxFollowerLag"]) <= 1
    assert sorted(voter["id"] for voter in json.loads(shown["CurrentVoters"])) == [1, 2, 3]
    assert json.loads(shown["CurrentObservers"]) == []


def test_kafka_metadata_quorum_describes_the_replication(quorum):
    shown = metadata_quorum(quorum, "describe", "--replication")
    rows = [line.split() for line in shown.splitlines()[1:] if line.strip()]
    assert sorted((row[0], row[-1]) for row in rows) == sorted(
        (str(node_id), "Leader" if node_id == quorum.described()[0].leader_id else "Follower")
        for node_id in quorum.node_ids
    )


def test_dump_log_segments_reads_the_log_of_a_controller_of_ours(quorum):
    before, _ = quorum.described()
    quorum.kill(before.leader_id)
    after, _ = quorum.described(other_than=before.leader_id, past=before.high_watermark)
    quorum.start(before.leader_id)
    quorum.described(past=after.high_watermark + 2)
    for node_id in quorum.node_ids:
        (log,) = quorum.metadata_folder(node_id).glob("*.log")
        dumped = kafka_tools.kafka_tool(
            "org.apache.kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", str(log)
        )
        assert not re.search(r"(?i)isvalid: false|error|could not|exception", dumped), dumped[-2000:]
        kinds = [json.loads(text)["type"] for text in re.findall(r"payload: (\{.*\})$", dumped, re.MULTILINE)]
        features = ["FEATURE_LEVEL_RECORD"] * 6
        assert kinds[:9] == ["BEGIN_TRANSACTION_RECORD", *features, "CONFIG_RECORD", "END_TRANSACTION_RECORD"]
        assert set(kinds[9:]) == {"NO_OP_RECORD", "REGISTER_CONTROLLER_RECORD"}
        leaders = re.findall(r"LeaderChange: (\{.*\})$", dumped, re.MULTILINE)
        assert len(leaders) >= 2 and json.loads(leaders[0])["voters"] == [{"voterId": n} for n in (1, 2, 3)]


def test_kafkas_tools_read_a_snapshot_of_a_controller_of_ours(tmp_path):
    if reason := kafka_tools.why_unavailable():
        pytest.skip(reason)
    with OurQuorum(
        tmp_path, settings=("metadata.log.max.record.bytes.between.snapshots=300", "metadata.max.idle.interval.ms=50")
    ) as quorum:
        quorum.start()
        quorum.described(past=20)
        quorum.stop(1)
        (snapshot,) = quorum.metadata_folder(1).glob("*.checkpoint")
        files = ",".join(map(str, [snapshot, *sorted(quorum.metadata_folder(1).glob("*.log"))]))
        dumped = kafka_tools.kafka_tool(
            "org.apache.kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", files
        )
        assert "SnapshotHeader" in dumped and "SnapshotFooter" in dumped and "FEATURE_LEVEL_RECORD" in dumped
        assert not re.search(r"(?i)isvalid: false|could not|exception", dumped), dumped[-2000:]
        assert "features" in kafka_tools.metadata_shell(snapshot, "ls", "/image").split()
