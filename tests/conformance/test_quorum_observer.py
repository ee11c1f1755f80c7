"""Our observer of a real Kafka's quorum of three: equal logs and images at each offset, through failover and restart.

One cluster serves the module; `pytest -m kafka tests/conformance/test_quorum_observer.py` takes some minutes.
"""

import json
import re
import threading
import time
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from image_history import answered, first_difference
from support.brokers import kafka_tools
from support.brokers.real_quorum import RealQuorum

from broker_core.client.quorum_description import describe_quorum
from broker_core.client.quorum_follower import QuorumFollower
from broker_core.client.quorum_leader import cluster_id_of
from broker_core.model.client_settings import parse_client_settings
from broker_core.raft.quorum_values import ReplicaIdentity
from broker_core.record.batch_reader import iter_headers, records_of
from broker_core.storage.os_file_system import OsFileSystem
from broker_core.storage.quorum_log import QuorumLog

SECONDS = 120
SETTINGS = (
    "metadata.log.max.record.bytes.between.snapshots=30000", "internal.metadata.log.segment.bytes=40000",
    "metadata.max.retention.bytes=50000", "metadata.max.idle.interval.ms=100",
)  # fmt: skip

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    if reason := kafka_tools.why_unavailable():
        pytest.skip(reason)
    with RealQuorum(tmp_path_factory.mktemp("quorum"), settings=SETTINGS) as quorum:
        quorum.start()
        yield quorum


class FollowedQuorum:
    """An observer in a thread; `stop()` leaves its directory for the next one."""

    def __init__(self, cluster, folder, node_id=98):
        self.folder = folder
        settings = parse_client_settings({"bootstrap.servers": cluster.bootstrap_controllers})
        identity = ReplicaIdentity(node_id=node_id, directory_id=uuid4(), cluster_id=cluster.cluster_id)
        self.follower = QuorumFollower(settings, identity, QuorumLog(OsFileSystem(), str(folder)))
        self.is_stopping, self.error = False, None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def wait_until(self, condition):
        deadline = time.monotonic() + SECONDS
        while not condition(self.follower):
            assert self.error is None, self.error
            state = (self.follower.image_offset, self.follower.observer.election)
            assert time.monotonic() < deadline, f"not after {SECONDS} s: {state}"
            time.sleep(0.05)

    def stop(self):
        self.is_stopping = True
        self._thread.join(SECONDS)
        self.follower.close()
        assert self.error is None, self.error
        return self.follower

    def _run(self):
        try:
            self.follower.run(until=lambda: self.is_stopping)
        except Exception as error:
            self.error = error


def make_topics(cluster, *names, partitions=3):
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    new = [NewTopic(name, num_partitions=partitions, replication_factor=3) for name in names]
    for made in admin.create_topics(new, request_timeout=60).values():
        made.result()


def logged(folder):
    return b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))


def batches_of(folder):
    return {
        header.base_offset: log[position : position + header.size_bytes]
        for log in [logged(folder)]
        for position, header in iter_headers(log)
    }


def require_equal_logs(observed, cluster, node_id):
    """Asserts that every batch in both logs has the same bytes; returns their number."""
    ours, theirs = batches_of(observed), batches_of(cluster.metadata_folder(node_id))
    both = ours.keys() & theirs.keys()
    assert {offset for offset in both if ours[offset] != theirs[offset]} == set()
    return len(both)


def require_kafkas_image_at_every_offset(folder):
    """The records of the observer's log, replayed by Kafka's own classes and by ours."""
    log = logged(folder)
    records = [
        (record.offset, record.value)
        for position, header in iter_headers(log)
        if not header.is_control
        for record in records_of(log, position)
    ]
    assert first_difference(answered(records)) is None
    return len(records)


def test_it_follows_live_through_a_dead_leader_and_its_own_restart(cluster, tmp_path):
    folder = tmp_path / "__cluster_metadata-0"
    make_topics(cluster, "before")
    observed = FollowedQuorum(cluster, folder)
    observed.wait_until(lambda follower: "before" in follower.image.topics)
    leader_id = observed.follower.observer.election.leader_id
    epoch = observed.follower.observer.election.leader_epoch

    settings = parse_client_settings({"bootstrap.servers": cluster.bootstrap_controllers})
    assert cluster_id_of(settings) == cluster.cluster_id
    described = describe_quorum(settings)
    assert (described.leader_id, described.leader_epoch) == (leader_id, epoch)
    assert [replica.node_id for replica in described.replicas if not replica.is_voter and replica.node_id == 98] == [98]

    cluster.kill(leader_id)
    observed.wait_until(lambda follower: follower.observer.election.leader_epoch > epoch)
    observed.wait_until(lambda follower: follower.observer.election.leader_id not in (-1, leader_id))
    reached = observed.follower.image_offset
    observed.wait_until(lambda follower: follower.image_offset > reached)
    stopped_at = observed.stop().observer.log_end_offset

    cluster.start(leader_id)
    make_topics(cluster, "after")
    again = FollowedQuorum(cluster, folder)
    assert again.follower.observer.log_end_offset >= stopped_at
    again.wait_until(lambda follower: "after" in follower.image.topics)
    follower = again.stop()
    assert {"before", "after"} <= set(follower.image.topics)
    assert require_equal_logs(folder, cluster, follower.observer.election.leader_id) > 50
    if min(path.name for path in folder.glob("*.log")).startswith("0" * 20):
        assert require_kafkas_image_at_every_offset(folder) > 50


def test_a_log_that_was_truncated_after_a_snapshot_restarts_at_its_end(cluster, tmp_path):
    folder = tmp_path / "__cluster_metadata-0"
    observed = FollowedQuorum(cluster, folder, node_id=97)
    observed.wait_until(lambda follower: follower.image_offset > 0)
    stopped_at = observed.stop().observer.log_end_offset

    leader_id = describe_leader(cluster)
    deadline = time.monotonic() + 4 * SECONDS  # Kafka checks once a minute what to delete
    number = 0
    while first_offset(cluster, leader_id) <= stopped_at:
        assert time.monotonic() < deadline, "the leader deletes nothing"
        make_topics(cluster, f"filling-{number}", partitions=20)
        number += 1
        time.sleep(1)

    again = FollowedQuorum(cluster, folder, node_id=97)
    again.wait_until(lambda follower: follower.image_offset > first_offset(cluster, leader_id))
    again.wait_until(lambda follower: f"filling-{number - 1}" in follower.image.topics)
    follower = again.stop()
    (snapshot,) = folder.glob("*.checkpoint")
    assert int(snapshot.name[:20]) > stopped_at, "no snapshot was installed"
    assert require_equal_logs(folder, cluster, leader_id) > 0
    assert snapshot.read_bytes() == (cluster.metadata_folder(leader_id) / snapshot.name).read_bytes()
    assert len(follower.image.partitions) >= 20 * number
    require_readable_by_kafkas_tools(folder, snapshot)


def describe_leader(cluster):
    return describe_quorum(parse_client_settings({"bootstrap.servers": cluster.bootstrap_controllers})).leader_id


def first_offset(cluster, node_id):
    return int(min(path.name for path in cluster.metadata_folder(node_id).glob("*.log"))[:20])


def require_readable_by_kafkas_tools(folder, snapshot):
    dumped = kafka_tools.kafka_tool(
        "org.apache.kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files",
        ",".join(map(str, [*sorted(folder.glob("*.log")), snapshot])),
    )  # fmt: skip
    payloads = [json.loads(text) for text in re.findall(r"payload: (\{.*\})$", dumped, re.MULTILINE)]
    assert {"TOPIC_RECORD", "PARTITION_RECORD", "REGISTER_BROKER_RECORD"} <= {each["type"] for each in payloads}
    shown = kafka_tools.metadata_shell(snapshot, "ls", "/image/topics/byName")
    assert "filling-0" in shown.split()
