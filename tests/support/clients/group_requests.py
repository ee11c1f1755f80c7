"""Requests of group members in any version, as clients send them."""

from support.nodes.group_node import ask, send

from broker_core.protocol.api_table import ApiKey

RANGE = ({"name": "range", "metadata": b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"},)


def join(node, version=None, **fields):
    """The list that the answer will be in."""
    given = {"group_id": "g", "session_timeout": 10_000, "rebalance_timeout": 60_000, "protocol_type": "consumer"}
    return send(node, ApiKey.JOIN_GROUP, version, **given | {"protocols": RANGE} | fields)


def sync(node, member_id, version=None, **fields):
    given = {"group_id": "g", "generation_id": 1, "protocol_type": "consumer", "protocol_name": "range"}
    return send(node, ApiKey.SYNC_GROUP, version, **given | {"member_id": member_id, "assignments": ()} | fields)


def stable_member(node, group_id="g", **fields):
    """Its id; it is assigned b"A"."""
    joined = join(node, 3, group_id=group_id, **fields)
    node.pass_ms(3_000)
    member_id = joined[0].member_id
    sync(node, member_id, group_id=group_id, assignments=[{"member_id": member_id, "assignment": b"A"}])
    return member_id


def commit(node, version=9, *, topic="t", offset=5, numbers=(0,), metadata="m", **fields):
    """Errors' names."""
    named = {"topic_id": topic} if version >= 10 else {"name": topic}
    partitions = [
        {"partition_index": number, "committed_offset": offset, "committed_metadata": metadata} for number in numbers
    ]
    given = {"group_id": "g", "generation_id_or_member_epoch": -1} | fields
    answer = ask(node, ApiKey.OFFSET_COMMIT, version, topics=[{**named, "partitions": partitions}], **given)
    (answered,) = answer.topics
    assert (answered.topic_id if version >= 10 else answered.name) == topic
    return [each.error_code.name for each in answered.partitions]
