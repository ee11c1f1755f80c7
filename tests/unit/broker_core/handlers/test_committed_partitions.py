from uuid import UUID

from support.clients.group_requests import commit
from support.nodes.group_node import GroupNode


def test_topics_are_returned_in_the_requested_order(tmp_path):
    node = GroupNode(tmp_path, topics=["b", "a"])
    assert commit(node, topic="b", numbers=(1, 0, 7)) == ["none", "none", "unknown_topic_or_partition"]
    assert commit(node, 10, topic=UUID(int=5), numbers=(0, 1)) == ["unknown_topic_id"] * 2
    a_id = node.topics.image.topics["a"].topic_id
    assert commit(node, 10, topic=a_id, numbers=(0,)) == ["none"]
