"""Kafka's own DumpLogSegments decodes the records of our internal topics to what our coordinators say. For a real
Kafka's directory our coordinators say what the tool decodes."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest
from conformance.dumped_segments import Dumped, data_files, dump
from golden_data import unpack
from support.brokers import kafka_tools
from support.clients.transacting import SetClock, begin, init, write

from broker_core.cluster import GroupOffset
from broker_core.embedded.embedded_cluster import EmbeddedCluster
from broker_core.model.identifiers import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
DECISION = TopicPartition("__consumer_offsets", 0)


@pytest.fixture(scope="module", autouse=True)
def kafka_is_here():
    reason = kafka_tools.why_unavailable()
    if reason:
        pytest.skip(reason)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("ours") / "log"
    with EmbeddedCluster(path, create=True, clock=SetClock()) as cluster:
        cluster.create_topic("t", partition_count=2)
        for number in range(40):
            task = begin(cluster, f"task-{number % 4}", T0, T1)
            write(cluster, task, T0, "x")
            driver = init(cluster, "driver")
            decision = GroupOffset(offset=number, metadata=f"slots {number}")
            cluster.commit_offsets_in_transaction(driver, "decisions", {DECISION: decision})
            cluster.end_transaction(driver, commit=number % 5 != 4, together_with=[task])
        begin(cluster, "two-phase", T1, is_two_phase=True)
        init(cluster, "empty")
        cluster.commit_offsets("group", {T0: GroupOffset(offset=7, leader_epoch=0), T1: GroupOffset(offset=2**40)})
        cluster.commit_offsets("deleted", {T0: GroupOffset(offset=1)})
        cluster.delete_group("deleted")
        # One batch large enough to be compressed, and a compaction of everything.
        many = {TopicPartition("wide", number): GroupOffset(offset=1, metadata="m" * 3000) for number in range(100)}
        cluster.create_topic("wide", partition_count=100)
        cluster.commit_offsets("wide", many)
        for name in ("__transaction_state", "__consumer_offsets"):
            cluster.alter_topic_configs(name, {"internal.segment.bytes": "9000", "min.cleanable.dirty.ratio": "0"})
        init(cluster, "empty")
        cluster.commit_offsets("group", {T0: GroupOffset(offset=8)})
        assert all(report.error is None for report in cluster.maintain())
    return path


@pytest.fixture(scope="module")
def golden(tmp_path_factory):
    return unpack(tmp_path_factory.mktemp("golden")) / "log"


@pytest.fixture(scope="module")
def newest(folder, golden):
    """A function of directory, topic and decoder. Starting Java costs more than a dump, so one process makes both."""

    @cache
    def dumped(topic: str, decoder: str) -> Dumped:
        places = [path for directory in (folder, golden) for path in sorted(directory.glob(f"{topic}-*/*.log"))]
        return dump([path for path in places if path.stat().st_size], decoder)

    def find(directory: Path, topic: str, decoder: str) -> dict[str, dict[str, object] | None]:
        """The last value of each key, as JSON, that the tool shows, without markers and aborted records."""
        sections = [body for path, body in dumped(topic, decoder).sections.items() if path.is_relative_to(directory)]
        assert sections
        found: dict[str, dict[str, object] | None] = {}
        for section in sections:
            assert "isvalid: true" in section
            for key, payload in re.findall(r" key: (\{.*?\}\}) payload: (.*)$", section, re.MULTILINE):
                found[key] = None if payload == "<DELETE>" else json.loads(payload)["data"]
        return found

    return find


@pytest.mark.parametrize("whose", ["folder", "golden"])
def test_kafka_and_our_coordinator_agree_on_transactions(whose, newest, request):
    directory = request.getfixturevalue(whose)
    dumped = {
        json.loads(key)["data"]["transactionalId"]: value
        for key, value in newest(directory, "__transaction_state", "--transaction-log-decoder").items()
    }
    with EmbeddedCluster(directory, clock=SetClock()) as cluster:
        ours = {each.transactional_id: each for each in cluster.list_transactions()}
    assert ours.keys() == dumped.keys()
    for name, each in ours.items():
        value = dumped[name]
        assert value is not None
        assert value["transactionStatus"] == each.state
        assert (value["producerId"], value["producerEpoch"]) == (each.producer_id, each.producer_epoch)
        assert value["transactionTimeoutMs"] == each.timeout_ms
        partitions = value["transactionPartitions"] or []
        assert [(t["topic"], n) for t in partitions for n in t["partitionIds"]] == [
            (p.topic, p.partition) for p in each.partitions
        ]


@pytest.mark.parametrize("whose", ["folder", "golden"])
def test_kafka_and_our_coordinator_agree_on_committed_offsets(whose, newest, request):
    directory = request.getfixturevalue(whose)
    dumped = {}
    for key, value in newest(directory, "__consumer_offsets", "--offsets-decoder").items():
        described = json.loads(key)
        if described["type"] == "1" and value is not None:
            data = described["data"]
            place = data["group"], TopicPartition(data["topic"], data["partition"])
            dumped[place] = (value["offset"], value["leaderEpoch"], value["metadata"], value["commitTimestamp"])
    with EmbeddedCluster(directory, clock=SetClock()) as cluster:
        ours = {
            (group, partition): (each.offset, each.leader_epoch, each.metadata, each.commit_time_ms)
            for group in cluster.list_groups()
            for partition, each in cluster.fetch_offsets(group).items()
        }
    # The tool shows aborted records too: the last committed decision is number 38.
    last_dumped = dumped.pop(("decisions", DECISION), None)
    last_ours = ours.pop(("decisions", DECISION), None)
    assert ours == dumped
    if whose == "folder":
        assert last_ours is not None and last_dumped is not None
        assert (last_ours[0], last_dumped[0]) == (38, 38)
        assert len(ours) == 102


def test_kafka_finds_a_marker_for_each_end_and_no_error_in_any_file(folder):
    dumped = dump(data_files(folder), "--print-data-log")
    ends = {"COMMIT": 32, "ABORT": 8}
    for partition in (T0, T1):
        text = "".join(dumped.sections[path] for path in (folder / str(partition)).glob("*.log"))
        assert {kind: text.count(f"endTxnMarker: {kind}") for kind in ends} == ends
