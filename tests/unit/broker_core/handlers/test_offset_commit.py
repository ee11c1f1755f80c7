from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from support.clients.group_requests import commit, stable_member
from support.nodes.group_node import GroupNode, error_of

from broker_core.model.identifiers import TopicPartition


@pytest.fixture
def node(tmp_path):
    return GroupNode(tmp_path, topics=["t"])


def stored(node, group_id="g"):
    return node.runtime.coordinator.offsets.fetch(group_id)


@pytest.mark.parametrize("version", range(2, 11))
def test_every_version_stores_offsets_with_metadata(node, version):
    topic = node.topics.image.topics["t"].topic_id if version >= 10 else "t"
    assert commit(node, version, topic=topic, numbers=(0, 1)) == ["none", "none"]
    assert {partition: (held.offset, held.metadata) for partition, held in stored(node).items()} == {
        TopicPartition("t", 0): (5, "m"),
        TopicPartition("t", 1): (5, "m"),
    }


def test_the_topic_id_is_stored_with_the_offset(node):
    commit(node, 9)
    assert node.topics.image.topics["t"].topic_id.bytes in node.runtime.log[-1][1]


def test_null_metadata_is_stored_as_empty(node):
    commit(node, metadata=None)
    assert [held.metadata for held in stored(node).values()] == [""]


def test_missing_partitions_are_refused_and_the_rest_is_stored(node):
    assert commit(node, numbers=(0, 2)) == ["none", "unknown_topic_or_partition"]
    assert commit(node, topic="none") == ["unknown_topic_or_partition"]
    assert commit(node, 10, topic=UUID(int=9)) == ["unknown_topic_id"]
    assert list(stored(node)) == [TopicPartition("t", 0)]


def test_the_error_for_a_missing_group_depends_on_the_version(node):
    late = {"generation_id_or_member_epoch": 3, "member_id": "m"}
    assert commit(node, 9, **late) == ["group_id_not_found"]
    assert commit(node, 8, **late) == ["illegal_generation"]


def test_members_commit_in_their_generation(node):
    member_id = stable_member(node)
    assert commit(node, generation_id_or_member_epoch=1, member_id=member_id) == ["none"]
    assert commit(node, generation_id_or_member_epoch=2, member_id=member_id) == ["illegal_generation"]
    assert commit(node) == ["unknown_member_id"]


def test_a_client_without_read_access_to_group_or_topic_is_refused(tmp_path):
    node = GroupNode(tmp_path, has_authorizer=True, topics=["t"])
    assert commit(node, principal="User:eve") == ["group_authorization_failed"]
    assert commit(node) == ["none"]


def test_coordinator_errors_are_returned_per_partition(node):
    node.runtime.refusal = error_of(ErrorCode.coordinator_not_available)
    assert commit(node, numbers=(0, 1, 2)) == ["coordinator_not_available"] * 2 + ["unknown_topic_or_partition"]
