import pytest
from kio.schema.errors import ErrorCode
from support.clients.group_requests import stable_member
from support.nodes.group_node import GroupNode, ask, error_of

from broker_core.protocol.api_table import ApiKey


def described(node, version=None, **fields):
    answer = ask(node, ApiKey.DESCRIBE_GROUPS, version, **{"groups": ("g", "none")} | fields)
    return {group.group_id: group for group in answer.groups}


@pytest.mark.parametrize("version", range(7))
def test_every_version_describes_groups(tmp_path, version):
    node = GroupNode(tmp_path)
    member_id = stable_member(node)
    groups = described(node, version)
    known, unknown = groups["g"], groups["none"]
    assert (known.group_state, known.protocol_type, known.protocol_data) == ("Stable", "consumer", "range")
    (member,) = known.members
    assert (member.member_id, member.client_id, member.client_host) == (member_id, "cli", "/127.0.0.1")
    assert bytes(member.member_assignment) == b"A"
    assert unknown.group_state == "Dead"
    assert unknown.error_code.name == ("group_id_not_found" if version >= 6 else "none")
    if version >= 6:
        assert (known.error_message, unknown.error_message) == (None, "Group none not found.")


def test_authorized_operations_are_returned_on_request(tmp_path):
    node = GroupNode(tmp_path)
    assert described(node)["none"].authorized_operations == -(2**31)
    for version in (3, 5):
        asked = described(node, version, include_authorized_operations=True)["none"]
        assert asked.authorized_operations == sum(1 << operation for operation in (3, 6, 8, 10, 11))
    assert described(node, 6, include_authorized_operations=True)["none"].authorized_operations == -(2**31)


def test_groups_without_describe_access_are_refused_separately(tmp_path):
    node = GroupNode(tmp_path, has_authorizer=True)
    assert {group.error_code.name for group in described(node, principal="User:eve").values()} == {
        "group_authorization_failed"
    }


def test_coordinator_errors_are_returned_per_group(tmp_path):
    node = GroupNode(tmp_path)
    node.runtime.refusal = error_of(ErrorCode.coordinator_not_available)
    assert {group.error_code.name for group in described(node).values()} == {"coordinator_not_available"}
