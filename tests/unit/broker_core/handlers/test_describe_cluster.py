import pytest
from support.nodes.whole_node import EVE, a_guarded_node, a_node, allow, ask

from broker_core.model.access_control import CLUSTER_NAME, Operation, ResourceType
from broker_core.protocol.api_table import ApiKey

NOT_ASKED_FOR = -(2**31)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_cluster_is_this_node(tmp_path, version):
    node = a_node(tmp_path / "log")
    answer = ask(node, ApiKey.DESCRIBE_CLUSTER, version, include_cluster_authorized_operations=False)
    (broker,) = answer.brokers
    assert (answer.error_code.name, answer.error_message) == ("none", None)
    assert (answer.cluster_id, answer.controller_id) == (node.cluster.cluster_id, node.cluster.node_id)
    assert (broker.broker_id, broker.host, broker.rack) == (node.cluster.node_id, "127.0.0.1", None)
    assert (getattr(broker, "is_fenced", False), getattr(answer, "endpoint_type", 1)) == (False, 1)
    assert answer.cluster_authorized_operations == NOT_ASKED_FOR


@pytest.mark.parametrize(
    ("endpoint_type", "expected"),
    [(2, "mismatched_endpoint_type"), (3, "unsupported_endpoint_type"), (0, "unsupported_endpoint_type")],
)
def test_a_broker_endpoint_refuses_the_controller_endpoint_type(tmp_path, endpoint_type, expected):
    node = a_node(tmp_path / "log")
    answer = ask(node, ApiKey.DESCRIBE_CLUSTER, endpoint_type=endpoint_type)
    assert (answer.error_code.name, answer.brokers) == (expected, ())
    assert (answer.cluster_id, answer.controller_id, answer.endpoint_type) == ("", -1, 1)


def test_version_0_has_no_endpoint_type(tmp_path):
    assert ask(a_node(tmp_path / "log"), ApiKey.DESCRIBE_CLUSTER, 0).error_code.name == "none"


def test_operations_are_returned_on_request_with_describe_access(tmp_path):
    node = a_guarded_node(tmp_path / "log")
    asked = {"include_cluster_authorized_operations": True}
    assert ask(node, ApiKey.DESCRIBE_CLUSTER, principal=EVE, **asked).cluster_authorized_operations == 0
    allow(node, EVE, Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)
    answer = ask(node, ApiKey.DESCRIBE_CLUSTER, principal=EVE, **asked)
    assert answer.cluster_authorized_operations == 1 << Operation.ALTER | 1 << Operation.DESCRIBE
    everything = ask(node, ApiKey.DESCRIBE_CLUSTER, **asked).cluster_authorized_operations
    assert everything == sum(1 << number for number in (5, 7, 8, 9, 10, 11, 12))
