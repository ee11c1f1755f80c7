import pytest
from kio.schema.errors import ErrorCode
from support.clients.group_requests import stable_member
from support.nodes.group_node import GroupNode, ask, error_of

from broker_core.protocol.api_table import ApiKey


@pytest.fixture
def node(tmp_path):
    return GroupNode(tmp_path)


def beat(node, version=None, **fields):
    given = {"group_id": "g", "generation_id": 1, "member_id": "cli-id1"} | fields
    return ask(node, ApiKey.HEARTBEAT, version, **given).error_code.name


@pytest.mark.parametrize("version", range(5))
def test_every_version_accepts_heartbeats(node, version):
    stable_member(node)
    assert beat(node, version) == "none"
    assert beat(node, version, generation_id=2) == "illegal_generation"


def test_a_client_without_read_access_to_the_group_is_refused(tmp_path):
    node = GroupNode(tmp_path, has_authorizer=True)
    assert beat(node, principal="User:eve") == "group_authorization_failed"


@pytest.mark.parametrize(
    ("error_code", "told"),
    [
        (ErrorCode.coordinator_load_in_progress, "none"),
        (ErrorCode.coordinator_not_available, "coordinator_not_available"),
    ],
)
def test_during_loading_a_heartbeat_succeeds(node, error_code, told):
    node.runtime.refusal = error_of(error_code)
    assert beat(node) == told
