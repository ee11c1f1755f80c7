from uuid import UUID

import pytest
from support.builders.builders import a_batch
from support.nodes.whole_node import (
    EVE,
    a_guarded_node,
    a_node,
    allow,
    ask,
    begin,
    fetch,
    make_topic,
    pass_time,
    produce,
    stop,
)

from broker_core.model.access_control import CLUSTER_NAME, Operation, ResourceType
from broker_core.protocol.api_table import ApiKey

UNKNOWN_ID = UUID("11111111-2222-3333-4444-555555555555")


@pytest.fixture
def node(tmp_path):
    return a_node(tmp_path / "log")


def names(*given):
    return [{"name": name, "topic_id": None} for name in given]


def ids(*given):
    return [{"name": None, "topic_id": topic_id} for topic_id in given]


def delete(node, *topics, principal="User:ANONYMOUS"):
    """(name, id, error) of each."""
    answer = ask(node, ApiKey.DELETE_TOPICS, topics=topics, timeout=5000, principal=principal)
    return [(each.name, each.topic_id, each.error_code.name) for each in answer.responses]


def names_there(node):
    return [topic.name for topic in ask(node, ApiKey.METADATA, 12, topics=None).topics if not topic.is_internal]


@pytest.mark.parametrize("version", range(1, 6))
def test_topics_are_deleted_by_name(node, version):
    make_topic(node, "t")
    make_topic(node, "u")
    answer = ask(node, ApiKey.DELETE_TOPICS, version, topic_names=["t", "nowhere"], timeout=5000)
    assert {each.name: each.error_code.name for each in answer.responses} == {
        "t": "none",
        "nowhere": "unknown_topic_or_partition",
    }
    assert names_there(node) == ["u"]


def test_from_version_6_on_topics_are_deleted_by_id_and_the_response_has_both(node):
    first, second = make_topic(node, "t"), make_topic(node, "u")
    assert delete(node, *ids(first)) == [("t", first, "none")]
    assert delete(node, *names("u")) == [("u", second, "none")]
    assert names_there(node) == []


def test_a_missing_topic_is_unknown(node):
    assert delete(node, *names("nowhere")) == [("nowhere", None, "unknown_topic_or_partition")]
    assert delete(node, *names("a b")) == [("a b", None, "unknown_topic_or_partition")]
    assert delete(node, *ids(UNKNOWN_ID)) == [(None, UNKNOWN_ID, "unknown_topic_id")]


def test_a_topic_has_either_a_name_or_an_id(node):
    topic_id = make_topic(node, "t")
    assert delete(node, {"name": "t", "topic_id": topic_id}) == [("t", topic_id, "invalid_request")]
    assert delete(node, {"name": None, "topic_id": None}) == [(None, None, "invalid_request")]
    assert names_there(node) == ["t"]


def test_a_duplicate_topic_is_refused_and_kept(node):
    topic_id = make_topic(node, "t")
    assert delete(node, *names("t", "t")) == [("t", None, "invalid_request")]
    assert delete(node, *ids(topic_id, topic_id)) == [(None, topic_id, "invalid_request")]
    assert delete(node, *names("t"), *ids(topic_id)) == [("t", topic_id, "invalid_request")]
    assert delete(node, *ids(topic_id), *names("t")) == [("t", topic_id, "invalid_request")]
    assert delete(node, *names("nowhere", "nowhere")) == [("nowhere", None, "invalid_request")]
    assert names_there(node) == ["t"]


def internal_names(node):
    return [topic.name for topic in ask(node, ApiKey.METADATA, 12, topics=None).topics if topic.is_internal]


def commit(node, group, offset):
    partition = {
        "partition_index": 0,
        "committed_offset": offset,
        "committed_leader_epoch": -1,
        "committed_metadata": "",
    }
    answer = ask(
        node,
        ApiKey.OFFSET_COMMIT,
        8,
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[{"name": "t", "partitions": [partition]}],
    )
    return answer.topics[0].partitions[0].error_code.name


def committed(node, group):
    answer = ask(
        node, ApiKey.OFFSET_FETCH, 7, group_id=group, topics=[{"name": "t", "partition_indexes": [0]}],
        require_stable=True,
    )  # fmt: skip
    assert answer.error_code.name == "none"
    return answer.topics[0].partitions[0].committed_offset


def groups(node):
    return [group.group_id for group in ask(node, ApiKey.LIST_GROUPS).groups]


@pytest.mark.parametrize("is_restarted", [False, True])
def test_with_the_topic_of_the_groups_all_groups_are_gone_and_the_next_commit_creates_it(tmp_path, is_restarted):
    """As in Kafka 4.3.1. It was refused."""
    node = a_node(tmp_path / "log")
    make_topic(node, "t")
    produce(node, "t", a_batch(3))
    assert commit(node, "g", 2) == "none"
    ((name, _, error),) = delete(node, *names("__consumer_offsets"))
    assert (name, error) == ("__consumer_offsets", "none")
    assert internal_names(node) == []
    if is_restarted:
        stop(node)
        node = a_node(tmp_path / "log")
    assert (groups(node), committed(node, "g")) == ([], -1)
    assert internal_names(node) == []
    assert commit(node, "h", 1) == "none"
    assert internal_names(node) == ["__consumer_offsets"]
    assert (groups(node), committed(node, "g"), committed(node, "h")) == (["h"], -1, 1)
    assert fetch(node, "t").high_watermark == 3
    stop(node)
    again = a_node(tmp_path / "log")
    assert (groups(again), committed(again, "h")) == (["h"], 1)


def join(node, member_id=""):
    fields = {"group_id": "g", "session_timeout": 10_000, "rebalance_timeout": 10_000, "protocol_type": "consumer"}
    protocols = [{"name": "range", "metadata": b""}]
    waiting = begin(
        node, ApiKey.JOIN_GROUP, 5, member_id=member_id, group_instance_id=None, protocols=protocols, **fields
    )
    node.jobs.run_all()
    return waiting


def join_with_an_id(node):
    return join(node, join(node).answer.member_id)


def test_members_are_unknown_once_the_topic_of_the_groups_is_deleted_and_join_again(node):
    make_topic(node, "t")
    first = join_with_an_id(node)
    pass_time(node, 10_000)
    assert first.answer.error_code.name == "none"
    # It waits for the first member, which never joins again.
    parked = join_with_an_id(node)
    assert parked.answer is None
    assert delete(node, *names("__consumer_offsets"))[0][2] == "none"
    pass_time(node, 0)
    assert parked.answer.error_code.name == "coordinator_not_available"
    beat = ask(
        node, ApiKey.HEARTBEAT, 3, group_id="g", generation_id=first.answer.generation_id,
        member_id=first.answer.member_id, group_instance_id=None,
    )  # fmt: skip
    assert beat.error_code.name == "unknown_member_id"
    again = join_with_an_id(node)
    pass_time(node, 10_000)
    assert (again.answer.error_code.name, len(again.answer.members)) == ("none", 1)


def test_a_commit_that_is_being_written_while_its_topic_is_deleted_is_refused_and_the_next_one_counts(node):
    make_topic(node, "t")
    assert commit(node, "g", 1) == "none"
    deletion = begin(node, ApiKey.DELETE_TOPICS, topics=names("__consumer_offsets"), timeout=5000)
    partition = {"partition_index": 0, "committed_offset": 2, "committed_leader_epoch": -1, "committed_metadata": ""}
    late = begin(
        node,
        ApiKey.OFFSET_COMMIT,
        8,
        group_id="late",
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[{"name": "t", "partitions": [partition]}],
    )
    node.jobs.run_all()
    assert deletion.answer.responses[0].error_code.name == "none"
    error = late.answer.topics[0].partitions[0].error_code.name
    assert error == "coordinator_not_available"
    assert committed(node, "late") == -1
    assert commit(node, "late", 3) == "none"
    assert (groups(node), committed(node, "late")) == (["late"], 3)


def test_delete_topic_enable_false_refuses_every_deletion(tmp_path):
    node = a_node(tmp_path / "log", delete_topic_enable="false")
    make_topic(node, "t")
    assert delete(node, *names("t", "nowhere")) == [
        ("t", None, "topic_deletion_disabled"),
        ("nowhere", None, "topic_deletion_disabled"),
    ]
    answer = ask(node, ApiKey.DELETE_TOPICS, 2, topic_names=["t"], timeout=5000)
    # Before version 3 there was no such error.
    assert answer.responses[0].error_code.name == "invalid_request"
    assert names_there(node) == ["t"]


def test_a_recreated_topic_is_another_one(tmp_path):
    node = a_node(tmp_path / "log")
    old = make_topic(node, "t")
    produce(node, "t", a_batch(3))
    delete(node, *names("t"))
    assert make_topic(node, "t") != old
    assert fetch(node, "t").high_watermark == 0
    assert produce(node, "t", a_batch(1)).base_offset == 0


def test_a_deleted_topic_stays_deleted_after_a_restart(tmp_path):
    node = a_node(tmp_path / "log")
    make_topic(node, "t")
    produce(node, "t", a_batch(3))
    delete(node, *names("t"))
    stop(node)
    again = a_node(tmp_path / "log")
    assert names_there(again) == []
    assert not [path.name for path in (tmp_path / "log").iterdir() if path.name.startswith("t-")]


def test_the_response_is_sent_only_once_the_change_is_durable(node):
    make_topic(node, "t")
    waiting = begin(node, ApiKey.DELETE_TOPICS, topics=names("t"), timeout=5000)
    assert waiting.answer is None
    node.jobs.run_all()
    assert waiting.answer.responses[0].error_code.name == "none"


def test_an_empty_request_gets_an_empty_response(node):
    assert delete(node) == []
    assert ask(node, ApiKey.DELETE_TOPICS, 1, topic_names=[], timeout=5000).responses == ()


def test_with_describe_but_not_delete_access_the_name_is_returned(tmp_path):
    node = a_guarded_node(tmp_path / "log")
    topic_id = make_topic(node, "t")
    refused = "topic_authorization_failed"
    found = delete(node, *names("t", "nowhere"), principal=EVE)
    assert sorted(found) == [("nowhere", None, refused), ("t", None, refused)]
    assert delete(node, *ids(topic_id), principal=EVE) == [(None, topic_id, refused)]
    assert delete(node, *ids(UNKNOWN_ID), principal=EVE) == [(None, UNKNOWN_ID, "unknown_topic_id")]
    allow(node, EVE, Operation.DESCRIBE, ResourceType.TOPIC, "t")
    assert delete(node, *ids(topic_id), principal=EVE) == [("t", topic_id, refused)]
    assert delete(node, *names("t"), principal=EVE) == [("t", None, refused)]
    assert names_there(node) == ["t"]


@pytest.mark.parametrize("right", [(ResourceType.TOPIC, "t"), (ResourceType.CLUSTER, CLUSTER_NAME)])
def test_delete_access_to_the_topic_or_to_all_topics_deletes_it(tmp_path, right):
    node = a_guarded_node(tmp_path / "log")
    topic_id = make_topic(node, "t")
    allow(node, EVE, Operation.DELETE, *right)
    assert delete(node, *names("t"), principal=EVE) == [("t", topic_id, "none")]
