import pytest
from kio.schema.errors import ErrorCode
from support.clients.group_requests import commit, stable_member
from support.nodes.group_node import GroupNode, ask, error_of

from broker_core.protocol.api_table import ApiKey


@pytest.fixture
def node(tmp_path):
    return GroupNode(tmp_path, topics=["t", "other"])


def deleted(node, group_id="g", *, topics=("t",), numbers=(0,), **options):
    named = [{"name": each, "partitions": [{"partition_index": number} for number in numbers]} for each in topics]
    answer = ask(node, ApiKey.OFFSET_DELETE, group_id=group_id, topics=named, **options)
    errors = [partition.error_code.name for topic in answer.topics for partition in topic.partitions]
    return errors or answer.error_code.name


def test_offsets_are_deleted_except_of_subscribed_topics(node):
    member_id = stable_member(node)
    for topic in ("t", "other"):
        commit(node, topic=topic, generation_id_or_member_epoch=1, member_id=member_id)
    assert deleted(node, topics=("t", "other", "none")) == [
        "group_subscribed_to_topic", "none", "unknown_topic_or_partition",
    ]  # fmt: skip
    assert [each.topic for each in node.runtime.coordinator.offsets.fetch("g")] == ["t"]


def test_missing_partitions_are_refused(node):
    commit(node)
    assert deleted(node, numbers=(0, 2)) == ["none", "unknown_topic_or_partition"]


def test_a_group_error_is_the_top_level_error(node):
    assert deleted(node, "none") == "group_id_not_found"
    stable_member(node, protocol_type="connect")
    assert deleted(node) == "non_empty_group"
    node.runtime.refusal = error_of(ErrorCode.coordinator_not_available)
    assert deleted(node) == "coordinator_not_available"


def test_a_client_without_delete_access_to_the_group_is_refused(tmp_path):
    node = GroupNode(tmp_path, has_authorizer=True, topics=["t"])
    assert deleted(node, principal="User:eve") == "group_authorization_failed"
