import pytest
from kio.schema.errors import ErrorCode
from support.clients.group_requests import RANGE, join
from support.nodes.group_node import GroupNode, error_of


@pytest.fixture
def node(tmp_path):
    return GroupNode(tmp_path)


@pytest.mark.parametrize("version", range(10))
def test_every_version_lets_a_member_join_and_lead(node, version):
    answers = join(node, version)
    if version >= 4:
        assert answers[0].error_code is ErrorCode.member_id_required
        answers = join(node, version, member_id=answers[0].member_id)
    assert answers == []
    node.pass_ms(3_000)
    (answer,) = answers
    assert (answer.generation_id, answer.protocol_name, answer.leader) == (1, "range", answer.member_id)
    assert answer.member_id == "cli-id1"
    assert [bytes(member.metadata) for member in answer.members] == [RANGE[0]["metadata"]]


@pytest.mark.parametrize(("version", "name"), [(6, ""), (7, None), (9, None)])
def test_a_refusal_has_no_protocol(node, version, name):
    (answer,) = join(node, version, session_timeout=5_999)
    assert (answer.error_code, answer.protocol_name) == (ErrorCode.invalid_session_timeout, name)


def test_without_a_rebalance_timeout_the_session_timeout_is_used(node):
    join(node, 0, session_timeout=9_000)
    (member,) = node.runtime.coordinator.classic_groups.get("g").members.values()
    assert (member.rebalance_timeout_ms, member.client_host) == (9_000, "/127.0.0.1")


def test_a_client_without_read_access_to_the_group_is_refused(tmp_path):
    node = GroupNode(tmp_path, has_authorizer=True)
    (answer,) = join(node, principal="User:eve")
    assert (answer.error_code, answer.member_id) == (ErrorCode.group_authorization_failed, "")
    assert node.runtime.log == []


def test_coordinator_errors_are_returned(node):
    node.runtime.refusal = error_of(ErrorCode.coordinator_load_in_progress)
    (answer,) = join(node)
    assert answer.error_code is ErrorCode.coordinator_load_in_progress
