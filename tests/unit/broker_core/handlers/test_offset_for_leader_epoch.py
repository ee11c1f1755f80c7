import pytest
from support.builders.builders import a_batch
from support.nodes.whole_node import EVE, a_guarded_node, a_node, allow, ask, make_topic, produce

from broker_core.model.access_control import CLUSTER_NAME, Operation, ResourceType
from broker_core.protocol.api_table import ApiKey

UNKNOWN = (-1, -1)


@pytest.fixture
def node(tmp_path):
    node = a_node(tmp_path / "log")
    make_topic(node, "t", 2)
    produce(node, "t", a_batch(4))
    return node


def end_of(node, epoch=0, *, name="t", partition=0, current=-1, version=None, principal="User:ANONYMOUS"):
    """(error, leader epoch, end offset)."""
    asked = {"partition": partition, "current_leader_epoch": current, "leader_epoch": epoch}
    topics = [{"topic": name, "partitions": [asked]}]
    answer = ask(node, ApiKey.OFFSET_FOR_LEADER_EPOCH, version, replica_id=-1, topics=topics, principal=principal)
    (found,) = answer.topics[0].partitions
    assert (answer.topics[0].topic, found.partition) == (name, partition)
    return found.error_code.name, found.leader_epoch, found.end_offset


@pytest.mark.parametrize("version", [2, 3, 4])
def test_the_current_epoch_ends_at_the_log_end(node, version):
    assert end_of(node, version=version) == ("none", 0, 4)


@pytest.mark.parametrize("epoch", [1, 5, -1])
def test_an_unknown_epoch_has_no_end(node, epoch):
    assert end_of(node, epoch) == ("none", *UNKNOWN)


def test_an_epoch_before_the_first_one_ends_at_the_log_start(node):
    assert end_of(node, -2) == ("none", -2, 0)


def test_an_empty_log_ends_its_leaders_epoch_at_0(node):
    assert end_of(node, 0, partition=1) == ("none", 0, 0)
    assert end_of(node, 1, partition=1) == ("none", *UNKNOWN)


@pytest.mark.parametrize(
    ("current", "expected"), [(1, "unknown_leader_epoch"), (-2, "fenced_leader_epoch"), (0, "none"), (-1, "none")]
)
def test_a_wrong_leader_epoch_is_refused(node, current, expected):
    assert end_of(node, current=current)[0] == expected


@pytest.mark.parametrize(("name", "partition"), [("nowhere", 0), ("t", 2), ("t", -1), ("a b", 0)])
def test_a_missing_topic_is_unknown(node, name, partition):
    assert end_of(node, name=name, partition=partition) == ("unknown_topic_or_partition", *UNKNOWN)


def test_an_empty_request_gets_an_empty_response(node):
    assert ask(node, ApiKey.OFFSET_FOR_LEADER_EPOCH, replica_id=-1, topics=[]).topics == ()


@pytest.mark.parametrize(
    "right",
    [
        (Operation.DESCRIBE, ResourceType.TOPIC, "t"),
        (Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME),
    ],
    ids=["who may describe the topic", "a broker"],
)
def test_an_invalid_replica_id_is_refused(tmp_path, right):
    node = a_guarded_node(tmp_path / "log")
    make_topic(node, "t")
    assert end_of(node, principal=EVE) == ("topic_authorization_failed", *UNKNOWN)
    assert end_of(node, name="nowhere", principal=EVE) == ("topic_authorization_failed", *UNKNOWN)
    allow(node, EVE, *right)
    assert end_of(node, principal=EVE) == ("none", 0, 0)
