import pytest
from kio.schema.errors import ErrorCode
from support.clients.group_requests import join, stable_member, sync
from support.nodes.group_node import GroupNode, error_of


@pytest.fixture
def node(tmp_path):
    return GroupNode(tmp_path)


@pytest.mark.parametrize("version", range(6))
def test_every_version_lets_the_leader_assign_and_followers_wait(node, version):
    joins = [join(node, 3) for _ in range(2)]
    node.pass_ms(6_000)
    leader, follower = (answers[0].member_id for answers in joins)
    waiting = sync(node, follower, version)
    assert waiting == []
    led = sync(node, leader, version, assignments=[{"member_id": follower, "assignment": b"F"}])
    assert [bytes(answers[0].assignment) for answers in (led, waiting)] == [b"", b"F"]
    if version >= 5:
        assert (waiting[0].protocol_type, waiting[0].protocol_name) == ("consumer", "range")


@pytest.mark.parametrize("field", ["protocol_type", "protocol_name"])
def test_from_version_5_on_the_protocol_is_required(node, field):
    member_id = stable_member(node)
    assert sync(node, member_id, **{field: None})[0].error_code is ErrorCode.inconsistent_group_protocol
    assert sync(node, member_id, 4)[0].error_code is ErrorCode.none


def test_a_client_without_read_access_to_the_group_is_refused(tmp_path):
    node = GroupNode(tmp_path, has_authorizer=True)
    assert sync(node, "m", principal="User:eve")[0].error_code is ErrorCode.group_authorization_failed


def test_coordinator_errors_are_returned(node):
    node.runtime.refusal = error_of(ErrorCode.coordinator_not_available)
    assert sync(node, "m")[0].error_code is ErrorCode.coordinator_not_available
