import pytest
from support.nodes.replica_builders import ReplicaNode

from broker_core.broker.coordination.producer_id_pool import ProducerIdPool
from broker_core.model.exceptions import CoordinatorLoadingError

METADATA_LOG = "__cluster_metadata-0/00000000000000000000.log"


@pytest.fixture
def node(tmp_path):
    return ReplicaNode(tmp_path / "log")


@pytest.fixture
def pool(node):
    return ProducerIdPool(node.topics)


def ask(pool, into):
    pool.when_held(lambda: into.append(pool.take()), into.append)
    return into


def test_only_the_first_id_waits_for_a_block(node, pool):
    taken = ask(pool, [])
    ask(pool, taken)
    assert taken == []
    node.jobs.run_all()
    ask(pool, taken)
    assert taken == [0, 1, 2]


def test_the_next_block_is_fetched_before_the_last_id_is_taken(node, pool):
    taken = ask(pool, [])
    node.jobs.run_all()
    for _ in range(950):
        ask(pool, taken)
    assert len(node.jobs) == 1, "one at a time"
    for _ in range(49):
        ask(pool, taken)
    ask(pool, taken)
    assert len(taken) == 1000
    node.jobs.run_all()
    assert taken == list(range(1001))
    assert pool.held_count == 999


def test_two_pools_never_assign_the_same_id(node, pool):
    other = ProducerIdPool(node.topics)
    taken = ask(pool, ask(other, []))
    node.jobs.run_all()
    assert sorted(taken) == [0, 1000]


def test_a_failed_allocation_fails_waiting_requests_and_the_next_one_retries(node, pool):
    node.fs.refuse("write", METADATA_LOG)
    told = ask(pool, ask(pool, []))
    node.jobs.run_all()
    assert [type(each) for each in told] == [CoordinatorLoadingError] * 2
    assert node.fs.refused == 1
    told = ask(pool, [])
    node.jobs.run_all()
    assert told == [0]
