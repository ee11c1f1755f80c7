"""A killed node is fenced at once, not when its session is over; `pytest -m long`. Here a session takes minutes."""

import pytest
from support.cluster.tested_cluster import TestedCluster, wait_for

SESSION_MS = 600_000
TEST_SECONDS = 60

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    settings = {"broker.session.timeout.ms": str(SESSION_MS), "broker.heartbeat.interval.ms": "300"}
    with TestedCluster(tmp_path_factory.mktemp("fencing") / "nodes", settings=settings) as nodes:
        yield nodes
        for node in nodes.nodes:
            node.kill()  # a stop in order would wait for sessions


@pytest.mark.parametrize("who", ["a broker", "the active controller's node"])
def test_others_lead_for_a_killed_node_and_its_next_process_may_register(cluster, who):
    controller_id = cluster.controller_id
    killed_id = controller_id if who != "a broker" else min(cluster.ids - {controller_id})
    first, second = sorted(cluster.ids - {killed_id})
    topic = cluster.make_topic(replicas=(killed_id, first, second))
    cluster.hit(killed_id, "killed")
    wait_for(lambda: cluster.leader_of(topic) in (first, second), TEST_SECONDS)
    assert cluster.in_sync_replicas(topic) == {first, second}
    cluster.heal()
    cluster.wait_in_sync(topic, cluster.ids)
