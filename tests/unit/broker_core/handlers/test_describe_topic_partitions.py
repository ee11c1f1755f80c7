import pytest
from support.nodes.whole_node import EVE, a_guarded_node, a_node, allow, ask, make_topic

from broker_core.model.access_control import Operation, ResourceType
from broker_core.protocol.api_table import ApiKey


@pytest.fixture
def node(tmp_path):
    node = a_node(tmp_path / "log")
    make_topic(node, "a", 3)
    make_topic(node, "b", 2)
    return node


def look(node, *names, limit=2000, cursor=None, principal="User:ANONYMOUS"):
    cursor = cursor and {"topic_name": cursor[0], "partition_index": cursor[1]}
    return ask(node, ApiKey.DESCRIBE_TOPIC_PARTITIONS, topics=[{"name": name} for name in names],
               response_partition_limit=limit, cursor=cursor, principal=principal)  # fmt: skip


def page(node, *names, **more):
    """([(topic, partitions)], the cursor of the next page)"""
    answer = look(node, *names, **more)
    topics = [(topic.name, [each.partition_index for each in topic.partitions]) for topic in answer.topics
              if not topic.is_internal]  # fmt: skip
    after = answer.next_cursor
    return topics, after and (after.topic_name, after.partition_index)


def test_topics_are_sorted_by_name_with_their_partitions(node):
    assert page(node, "b", "a") == ([("a", [0, 1, 2]), ("b", [0, 1])], None)
    assert page(node, "a", "a") == ([("a", [0, 1, 2])], None)


def test_without_names_all_topics_are_described(node):
    assert page(node) == ([("a", [0, 1, 2]), ("b", [0, 1])], None)


def test_partitions_match_metadata_and_operations_are_always_included(node):
    (topic,) = look(node, "b").topics
    partition = topic.partitions[0]
    (described,) = ask(node, ApiKey.METADATA, topics=[{"name": "b"}]).topics
    assert (topic.topic_id, topic.is_internal) == (described.topic_id, False)
    assert topic.topic_authorized_operations == sum(1 << number for number in (3, 4, 5, 6, 7, 8, 10, 11))
    assert (partition.error_code.name, partition.leader_id, partition.leader_epoch) == ("none", node.cluster.node_id, 0)
    assert (partition.replica_nodes, partition.isr_nodes, partition.offline_replicas) == (
        (node.cluster.node_id,), (node.cluster.node_id,), (),
    )  # fmt: skip
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ((), ())


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (1, ([("a", [0])], ("a", 1))),
        (2, ([("a", [0, 1])], ("a", 2))),
        (3, ([("a", [0, 1, 2])], ("b", 0))),
        (4, ([("a", [0, 1, 2]), ("b", [0])], ("b", 1))),
        (5, ([("a", [0, 1, 2]), ("b", [0, 1])], None)),
        (0, ([("a", [0])], ("a", 1))),
        (-1, ([("a", [0])], ("a", 1))),
    ],
)
def test_a_page_ends_at_its_limit_with_a_cursor(node, limit, expected):
    assert page(node, "a", "b", limit=limit) == expected


@pytest.mark.parametrize(
    ("cursor", "expected"),
    [
        (("a", 0), [("a", [0, 1, 2]), ("b", [0, 1])]),
        (("a", 2), [("a", [2]), ("b", [0, 1])]),
        (("a", 3), [("a", []), ("b", [0, 1])]),
        (("b", 1), [("b", [1])]),
    ],
)
def test_a_page_begins_at_its_cursor(node, cursor, expected):
    assert page(node, "a", "b", cursor=cursor) == (expected, None)


def test_without_names_a_cursor_may_refer_to_a_missing_topic(node):
    assert page(node, cursor=("aa", 0)) == ([("b", [0, 1])], None)
    assert page(node, cursor=("z", 0)) == ([], None)


@pytest.mark.parametrize("cursor", [("a", -1), ("aa", 0), ("z", 0)])
def test_an_invalid_cursor_is_refused(node, cursor):
    answer = look(node, "a", "b", cursor=cursor)
    assert [(topic.error_code.name, topic.partitions) for topic in answer.topics] == [("invalid_request", ())] * 2


def test_pages_cover_everything(node):
    found, cursor = [], None
    while True:
        topics, cursor = page(node, "a", "b", limit=2, cursor=cursor)
        found += [(name, number) for name, numbers in topics for number in numbers]
        if cursor is None:
            break
    assert found == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1)]


def test_a_missing_topic_does_not_count_toward_the_page_limit(node):
    assert page(node, "a", "nowhere", limit=3) == ([("a", [0, 1, 2])], ("nowhere", 0))
    answer = look(node, "a", "above", "a b", "nowhere", limit=4)
    assert {topic.name: topic.error_code.name for topic in answer.topics} == {
        "a": "none",
        "a b": "invalid_topic_exception",
        "above": "unknown_topic_or_partition",
        "nowhere": "unknown_topic_or_partition",
    }


def test_topics_without_access_are_refused_by_name_and_hidden_from_a_list(tmp_path):
    node = a_guarded_node(tmp_path / "log")
    for name in ("a", "b"):
        make_topic(node, name)
    allow(node, EVE, Operation.DESCRIBE, ResourceType.TOPIC, "a")
    answer = look(node, "a", "b", "nowhere", principal=EVE)
    assert {topic.name: topic.error_code.name for topic in answer.topics} == {
        "a": "none",
        "b": "topic_authorization_failed",
        "nowhere": "topic_authorization_failed",
    }
    assert all(topic.topic_id is None and not topic.partitions for topic in answer.topics if topic.name != "a")
    assert page(node, principal=EVE) == ([("a", [0])], None)
