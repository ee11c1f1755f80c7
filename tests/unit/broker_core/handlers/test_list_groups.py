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


@pytest.mark.parametrize("version", range(6))
def test_every_version_lists_all_groups(node, version):
    groups = ask(node, ApiKey.LIST_GROUPS, version).groups
    assert {(group.group_id, group.protocol_type) for group in groups} == {("g", "consumer"), ("simple", "")}
    if version >= 4:
        assert {group.group_state for group in groups} == {"Stable", "Empty"}
    if version >= 5:
        assert {group.group_type for group in groups} == {"classic"}


def test_groups_are_filtered_by_state_and_type(node):
    answer = ask(node, ApiKey.LIST_GROUPS, 5, states_filter=("stable",), types_filter=("Classic",))
    assert [group.group_id for group in answer.groups] == ["g"]
    assert ask(node, ApiKey.LIST_GROUPS, 5, types_filter=("consumer",)).groups == ()


def test_groups_without_describe_access_are_omitted(tmp_path):
    node = GroupNode(tmp_path, has_authorizer=True)
    stable_member(node)
    assert ask(node, ApiKey.LIST_GROUPS, principal="User:eve").groups == ()
    assert len(ask(node, ApiKey.LIST_GROUPS).groups) == 1


def test_coordinator_errors_are_returned(node):
    node.runtime.refusal = error_of(ErrorCode.coordinator_load_in_progress)
    assert ask(node, ApiKey.LIST_GROUPS).error_code is ErrorCode.coordinator_load_in_progress
