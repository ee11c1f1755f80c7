from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from support.clients.group_requests import commit
from support.nodes.group_node import GroupNode, ask, error_of

from broker_core.protocol.api_table import ApiKey


@pytest.fixture
def node(tmp_path):
    node = GroupNode(tmp_path, topics=["t"])
    commit(node)
    return node


def named(node, version, topic="t"):
    if version < 10 or isinstance(topic, UUID):
        return topic
    return node.topics.image.topics[topic].topic_id


def fetch(node, version=9, *, group_ids=("g",), topics=("t",), numbers=(0, 1), principal="User:admin", **fields):
    """Of each group its error, or (topic, partition, offset, text, error) of each partition."""
    key = "topic_id" if version >= 10 else "name"
    asked = None
    if topics is not None:
        asked = [{key: named(node, version, topic), "partition_indexes": numbers} for topic in topics]
    if version >= 8:
        given = {"groups": [{"group_id": group_id, "topics": asked} for group_id in group_ids]}
    else:
        given = {"group_id": group_ids[0], "topics": asked}
    answer = ask(node, ApiKey.OFFSET_FETCH, version, principal=principal, **given, **fields)
    groups = answer.groups if version >= 8 else [answer]
    assert version < 8 or [group.group_id for group in groups] == list(group_ids)
    return [
        group.error_code.name
        if getattr(group, "error_code", ErrorCode.none) is not ErrorCode.none
        else [
            (getattr(topic, key), each.partition_index, each.committed_offset, each.metadata, each.error_code.name)
            for topic in group.topics
            for each in topic.partitions
        ]
        for group in groups
    ]


@pytest.mark.parametrize("version", range(1, 11))
def test_every_version_fetches_offsets_with_metadata(node, version):
    topic = named(node, version)
    assert fetch(node, version) == [[(topic, 0, 5, "m", "none"), (topic, 1, -1, "", "none")]]


@pytest.mark.parametrize("version", range(2, 11))
def test_all_offsets_of_a_group_are_fetched(node, version):
    assert fetch(node, version, topics=None) == [[(named(node, version), 0, 5, "m", "none")]]


@pytest.mark.parametrize("version", [8, 9, 10])
def test_one_request_fetches_several_groups(node, version):
    commit(node, group_id="h", offset=6)
    topic = named(node, version)
    assert fetch(node, version, group_ids=("h", "none", "g"), numbers=(0,)) == [
        [(topic, 0, 6, "m", "none")], [(topic, 0, -1, "", "none")], [(topic, 0, 5, "m", "none")],
    ]  # fmt: skip


def test_a_missing_topic_has_no_offset_and_an_unknown_id_is_an_error(node):
    assert fetch(node, topics=("none",), numbers=(0,)) == [[("none", 0, -1, "", "none")]]
    unknown = UUID(int=9)
    assert fetch(node, 10, topics=(unknown,), numbers=(0,)) == [[(unknown, 0, -1, "", "unknown_topic_id")]]


@pytest.mark.parametrize("version", [1, 2, 7, 8])
def test_without_describe_access_to_the_group_the_error_depends_on_the_version(tmp_path, version):
    node = GroupNode(tmp_path, has_authorizer=True, topics=["t"])
    expected = "group_authorization_failed"
    if version == 1:
        expected = [("t", 0, -1, "", "group_authorization_failed")]
    assert fetch(node, version, numbers=(0,), principal="User:eve") == [expected]


def test_coordinator_errors_are_returned_per_group(node):
    node.runtime.refusal = error_of(ErrorCode.coordinator_load_in_progress)
    assert fetch(node, group_ids=("g", "h")) == ["coordinator_load_in_progress"] * 2
