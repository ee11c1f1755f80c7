import pytest
from support.builders.builders import a_batch
from support.nodes.whole_node import EVE, a_guarded_node, a_node, allow, ask, begin, make_topic, produce

from broker_core.model.access_control import Operation, ResourceType
from broker_core.protocol.api_table import ApiKey


@pytest.fixture
def node(tmp_path):
    node = a_node(tmp_path / "log")
    make_topic(node, "t", 2)
    return node


def wish(name, count, assignments=None):
    return {"name": name, "count": count, "assignments": assignments and [{"broker_ids": each} for each in assignments]}


def grow(node, *wishes, version=None, validate_only=False, principal="User:ANONYMOUS"):
    """{name: error}"""
    fields = {"topics": wishes, "timeout": 5000, "validate_only": validate_only}
    answer = ask(node, ApiKey.CREATE_PARTITIONS, version, principal=principal, **fields)
    assert len({each.name for each in answer.results}) == len(answer.results)
    return {each.name: each.error_code.name for each in answer.results}


def partition_count(node, name="t"):
    (topic,) = ask(node, ApiKey.METADATA, topics=[{"name": name}]).topics
    return len(topic.partitions)


@pytest.mark.parametrize("version", range(4))
def test_new_partitions_are_writable_when_answered(node, version):
    assert grow(node, wish("t", 4), version=version) == {"t": "none"}
    assert partition_count(node) == 4
    answer = produce(node, "t", a_batch(1), partition=3)
    assert (answer.error_code.name, answer.base_offset) == ("none", 0)


@pytest.mark.parametrize("count", [2, 1, 0, -1])
def test_the_partition_count_only_grows(node, count):
    assert grow(node, wish("t", count)) == {"t": "invalid_partitions"}
    assert partition_count(node) == 2


@pytest.mark.parametrize(
    ("wished", "expected"),
    [
        (wish("t", 4, [[1], [1]]), "none"),
        (wish("t", 4, [[1]]), "invalid_replica_assignment"),
        (wish("t", 3, [[1], [1]]), "invalid_replica_assignment"),
        (wish("t", 3, [[]]), "invalid_replica_assignment"),
        (wish("t", 3, [[9]]), "invalid_replica_assignment"),
        (wish("t", 3, [[1, 1]]), "invalid_replica_assignment"),
        (wish("t", 2, [[9]]), "invalid_partitions"),
    ],
    ids=["right", "too few", "too many", "nobody", "a stranger", "twice", "no growth"],
)
def test_an_assignment_names_this_node_for_each_new_partition(node, wished, expected):
    assert grow(node, wished) == {"t": expected}
    assert partition_count(node) == (4 if expected == "none" else 2)


def test_an_empty_assignment_is_refused(node):
    fields = {"name": "t", "count": 3, "assignments": []}
    (result,) = ask(node, ApiKey.CREATE_PARTITIONS, topics=[fields], timeout=1000, validate_only=False).results
    assert result.error_code.name == "invalid_replica_assignment"


def test_validate_only_changes_nothing(node):
    assert grow(node, wish("t", 3), validate_only=True) == {"t": "none"}
    assert grow(node, wish("t", 1), validate_only=True) == {"t": "invalid_partitions"}
    assert partition_count(node) == 2


def test_each_topic_is_answered_separately_and_a_duplicate_once(node):
    for name in ("u", "v"):
        make_topic(node, name)
    found = grow(node, wish("t", 3), wish("nowhere", 2), wish("u", 2), wish("u", 3), wish("v", 1), wish("a b", 2))
    assert found == {
        "t": "none",
        "nowhere": "unknown_topic_or_partition",
        "u": "invalid_request",
        "v": "invalid_partitions",
        "a b": "unknown_topic_or_partition",
    }
    assert (partition_count(node), partition_count(node, "u")) == (3, 1)


def test_an_empty_request_gets_an_empty_response(node):
    assert grow(node) == {}


def test_the_response_is_sent_only_once_the_change_is_durable(node):
    waiting = begin(node, ApiKey.CREATE_PARTITIONS, topics=[wish("t", 3)], timeout=5000, validate_only=False)
    assert waiting.answer is None
    node.jobs.run_all()
    assert waiting.answer.results[0].error_code.name == "none"


def test_without_alter_access_existing_and_missing_topics_are_refused(tmp_path):
    node = a_guarded_node(tmp_path / "log")
    make_topic(node, "t")
    refused = "topic_authorization_failed"
    assert grow(node, wish("t", 2), wish("nowhere", 2), principal=EVE) == {"t": refused, "nowhere": refused}
    assert partition_count(node) == 1
    allow(node, EVE, Operation.ALTER, ResourceType.TOPIC, "t")
    assert grow(node, wish("t", 2), principal=EVE) == {"t": "none"}
