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


def test_internal_topics_cannot_be_deleted(node):
    """Kafka deletes them, with all that its coordinators know."""
    ask(node, ApiKey.METADATA, topics=[{"name": "__consumer_offsets"}], allow_auto_topic_creation=True)
    pass_time(node, 1000)
    ((_, _, error),) = delete(node, *names("__consumer_offsets"))
    assert error == "invalid_request"
    (topic,) = ask(node, ApiKey.METADATA, topics=[{"name": "__consumer_offsets"}]).topics
    assert topic.error_code.name == "none"


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
