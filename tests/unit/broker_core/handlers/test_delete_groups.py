import pytest
from kio.schema.errors import ErrorCode
from support.clients.group_requests import commit, stable_member
from support.nodes.group_node import GroupNode, ask, error_of

from broker_core.protocol.api_table import ApiKey


@pytest.fixture
def node(tmp_path):
    node = GroupNode(tmp_path, topics=["t"])
    stable_member(node)
    commit(node, group_id="simple")
    return node


def deleted(node, *group_ids, version=None, **options):
    answer = ask(node, ApiKey.DELETE_GROUPS, version, groups_names=group_ids, **options)
    return [(result.group_id, result.error_code.name) for result in answer.results]


@pytest.mark.parametrize("version", range(3))
def test_each_group_is_deleted_separately(node, version):
    assert deleted(node, "g", "simple", "none", "simple", version=version) == [
        ("g", "non_empty_group"), ("simple", "none"), ("none", "group_id_not_found"),
    ]  # fmt: skip
    assert [group.group_id for group in node.runtime.coordinator.list_groups()] == ["g"]
    assert deleted(node, version=version) == []


def test_a_client_without_delete_access_to_a_group_is_refused(tmp_path):
    node = GroupNode(tmp_path, has_authorizer=True)
    assert deleted(node, "g", principal="User:eve") == [("g", "group_authorization_failed")]


def test_coordinator_errors_are_returned_per_group(node):
    node.runtime.refusal = error_of(ErrorCode.coordinator_not_available)
    assert deleted(node, "g") == [("g", "coordinator_not_available")]
