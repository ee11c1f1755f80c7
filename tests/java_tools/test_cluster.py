"""kafka-cluster.sh, kafka-broker-api-versions.sh, kafka-features.sh; and tools that do nothing on a single node."""

import json
import re
from pathlib import Path

import pytest

from broker_core.protocol.served_versions import SERVED_VERSIONS


def test_the_cluster_has_an_id_and_one_broker(tools, broker):
    (line,) = tools.run("ClusterTool", "cluster-id").lines
    properties = (broker.folder / "data" / "meta.properties").read_text()
    assert line == f"Cluster ID: {re.search('^cluster.id=(.*)$', properties, re.MULTILINE).group(1)}"
    (row,) = tools.table("ClusterTool", "list-endpoints")
    assert (row["ID"], row["HOST"], row["PORT"]) == ("1", "127.0.0.1", str(broker.ports["PLAINTEXT"]))


def test_every_served_api_is_announced_with_its_versions(tools, is_real):
    said = tools.run("BrokerApiVersionsCommand").out
    announced = {
        int(key): (int(first), int(last or first))
        for key, first, last in re.findall(r"\((\d+)\): (\d+)(?: to (\d+))? \[usable", said)
    }
    ours = {int(key): (span[0], span[-1]) for key, span in SERVED_VERSIONS.items()}
    assert {key: span for key, span in announced.items() if not is_real or key in ours} == ours


def test_features_are_described(tools):
    found = dict(
        re.findall(r"Feature: (\S+).*FinalizedVersionLevel: (\S+)", tools.run("FeatureCommand", "describe").out)
    )
    assert found["transaction.version"] == "2"
    assert found["group.version"] == "1"
    assert found["metadata.version"] == "4.3-IV0"


@pytest.fixture
def only_ours(is_real):
    if is_real:
        pytest.skip("a real Kafka does these")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("LeaderElectionCommand", "--election-type", "preferred", "--all-topic-partitions"), "ELECT_LEADERS"),
        (("ReassignPartitionsCommand", "--list"), "LIST_PARTITION_REASSIGNMENTS"),
        (("MetadataQuorumCommand", "describe", "--status"), "DESCRIBE_QUORUM"),
    ],
)
def test_what_needs_a_cluster_is_refused_by_name(only_ours, tools, words, sentence):
    said = tools.refused(*words)
    assert f"The node does not support {sentence}" in said


def test_quotas_are_set_described_and_removed(tools):
    of_user = ("ConfigCommand", "--user", "limited", "--client-defaults")
    tools.run(*of_user, "--alter", "--add-config", "consumer_byte_rate=2048,request_percentage=12.5")
    said = tools.run(*of_user, "--describe").out
    assert "consumer_byte_rate=2048.0" in said
    assert "request_percentage=12.5" in said
    tools.run(*of_user, "--alter", "--delete-config", "consumer_byte_rate,request_percentage")
    assert "request_percentage" not in tools.run(*of_user, "--describe").out


def test_a_reassignment_is_refused(only_ours, tools, tmp_path):
    file: Path = tmp_path / "moves.json"
    file.write_text(json.dumps({"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1]}]}))
    for action in ("--execute", "--verify"):
        said = tools.refused("ReassignPartitionsCommand", "--reassignment-json-file", file, action)
        assert "The node does not support LIST_PARTITION_REASSIGNMENTS" in said


def test_settings_that_need_a_restart_are_not_changed(only_ours, tools):
    words = ("ConfigCommand", "--alter", "--broker-defaults", "--add-config", "log.retention.ms=1")
    assert "set them in its properties file" in tools.refused(*words)


def test_a_running_broker_is_not_unregistered(only_ours, tools):
    said = tools.run("ClusterTool", "unregister", "--id", 1).out
    assert "does not support the broker unregistration API" in said
