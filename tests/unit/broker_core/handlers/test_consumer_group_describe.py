import pytest
from kio.schema.errors import ErrorCode
from support.clients.group_requests import stable_member
from support.nodes.group_node import ask, error_of
from support.nodes.modern_group_node import ModernGroupNode

from broker_core.protocol.api_table import ApiKey


def join(node, **fields):
    given = {"group_id": "g", "member_id": "m", "member_epoch": 0, "rebalance_timeout": 60_000, "topic_partitions": ()}
    return ask(node, ApiKey.CONSUMER_GROUP_HEARTBEAT, **given | {"subscribed_topic_names": ("t",)} | fields)


def described(node, version=None, **fields):
    answer = ask(node, ApiKey.CONSUMER_GROUP_DESCRIBE, version, **{"group_ids": ("g", "none")} | fields)
    return {group.group_id: group for group in answer.groups}


@pytest.mark.parametrize("version", [0, 1])
def test_every_version_describes_groups(tmp_path, version):
    node = ModernGroupNode(tmp_path, topics=["t"])
    join(node, instance_id="i", rack_id="r")
    groups = described(node, version)
    known, unknown = groups["g"], groups["none"]
    assert (known.group_state, known.group_epoch, known.assignment_epoch, known.assignor_name) == (
        "Stable", 2, 2, "uniform",
    )  # fmt: skip
    (member,) = known.members
    assert (member.member_id, member.instance_id, member.rack_id, member.member_epoch) == ("m", "i", "r", 2)
    assert (member.client_id, member.client_host) == ("cli", "/127.0.0.1")
    assert (member.subscribed_topic_names, member.subscribed_topic_regex) == (("t",), "")
    for assignment in (member.assignment, member.target_assignment):
        (each,) = assignment.topic_partitions
        assert (each.topic_id, each.topic_name, each.partitions) == (node.facts["t"].topic_id, "t", (0, 1))
    if version >= 1:
        assert member.member_type == 1
    assert (unknown.error_code, unknown.error_message) == (ErrorCode.group_id_not_found, "Group none not found.")


def test_a_classic_group_is_not_described_as_a_consumer_group(tmp_path):
    node = ModernGroupNode(tmp_path)
    stable_member(node)
    assert described(node)["g"].error_message == "Group g is not a consumer group."


def test_authorized_operations_are_returned_on_request(tmp_path):
    node = ModernGroupNode(tmp_path, topics=["t"])
    join(node)
    assert described(node)["g"].authorized_operations == -(2**31)
    asked = described(node, include_authorized_operations=True)
    assert asked["g"].authorized_operations == sum(1 << operation for operation in (3, 6, 8, 10, 11))
    assert asked["none"].authorized_operations == -(2**31)


def test_groups_without_access_or_name_are_refused_separately(tmp_path):
    node = ModernGroupNode(tmp_path, has_authorizer=True, topics=["t"])
    join(node)
    assert {group.error_code for group in described(node, principal="User:eve").values()} == {
        ErrorCode.group_authorization_failed
    }
    assert described(node, group_ids=("", "g"))[""].error_code is ErrorCode.invalid_group_id


def test_coordinator_errors_are_returned_per_group(tmp_path):
    node = ModernGroupNode(tmp_path)
    node.runtime.refusal = error_of(ErrorCode.coordinator_not_available)
    assert {group.error_code for group in described(node).values()} == {ErrorCode.coordinator_not_available}
