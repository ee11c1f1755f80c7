import pytest
from kio.schema.errors import ErrorCode
from support.clients.group_requests import stable_member
from support.nodes.group_node import GroupNode, ask, error_of

from broker_core.protocol.api_table import ApiKey


@pytest.fixture
def node(tmp_path):
    return GroupNode(tmp_path)


def leave(node, version=None, *member_ids, **fields):
    given = {"group_id": "g", "member_id": member_ids[0], "members": [{"member_id": each} for each in member_ids]}
    return ask(node, ApiKey.LEAVE_GROUP, version, **given | fields)


@pytest.mark.parametrize("version", range(6))
def test_every_version_lets_a_member_leave(node, version):
    member_id = stable_member(node)
    answer = leave(node, version, member_id)
    assert answer.error_code is ErrorCode.none
    again = leave(node, version, member_id)
    if version >= 3:
        assert [member.error_code.name for member in answer.members] == ["none"]
        assert [member.error_code.name for member in again.members] == ["unknown_member_id"]
        assert again.error_code is ErrorCode.none
    else:
        assert again.error_code is ErrorCode.unknown_member_id
    assert node.runtime.coordinator.describe("g").state == "Empty"


def test_a_client_without_read_access_to_the_group_is_refused(tmp_path):
    node = GroupNode(tmp_path, has_authorizer=True)
    answer = leave(node, None, "m", principal="User:eve")
    assert (answer.error_code, answer.members) == (ErrorCode.group_authorization_failed, ())


def test_coordinator_errors_are_returned(node):
    node.runtime.refusal = error_of(ErrorCode.coordinator_not_available)
    assert leave(node, None, "m").error_code is ErrorCode.coordinator_not_available
