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
)

from broker_core.model.access_control import Operation, ResourceType
from broker_core.model.identifiers import TopicPartition
from broker_core.protocol.api_table import ApiKey


@pytest.fixture
def node(tmp_path):
    node = a_node(tmp_path / "log")
    make_topic(node, "t", 2)
    for _ in range(4):
        produce(node, "t", a_batch(2))
    return node


def request(*places, name="t"):
    partitions = [{"partition_index": number, "offset": offset} for number, offset in places]
    return {"topics": [{"name": name, "partitions": partitions}], "timeout": 1000}


def delete(node, *places, name="t", **more):
    """{partition: (error, low watermark)}"""
    (topic,) = ask(node, ApiKey.DELETE_RECORDS, **request(*places, name=name), **more).topics
    assert topic.name == name
    return {each.partition_index: (each.error_code.name, each.low_watermark) for each in topic.partitions}


def test_records_below_the_offset_are_deleted(node):
    assert delete(node, (0, 3)) == {0: ("none", 3)}
    assert fetch(node, "t", 2).error_code.name == "offset_out_of_range"
    answer = fetch(node, "t", 3)
    assert (answer.log_start_offset, answer.high_watermark, len(answer.records) > 0) == (3, 8, True)


def test_the_log_start_never_goes_back(node):
    delete(node, (0, 5))
    assert delete(node, (0, 2)) == {0: ("none", 5)}
    assert fetch(node, "t", 5).log_start_offset == 5


def test_minus_1_is_the_high_watermark(node):
    assert delete(node, (0, -1), (1, -1)) == {0: ("none", 8), 1: ("none", 0)}


@pytest.mark.parametrize("offset", [9, -2])
def test_an_offset_beyond_the_high_watermark_is_refused(node, offset):
    assert delete(node, (0, offset)) == {0: ("offset_out_of_range", -1)}
    assert fetch(node, "t", 0).log_start_offset == 0


def test_deleting_to_the_end_deletes_all_records(node):
    assert delete(node, (0, 8)) == {0: ("none", 8)}
    assert produce(node, "t", a_batch(1)).base_offset == 8


def test_each_partition_is_answered_separately(node):
    unknown = ("unknown_topic_or_partition", -1)
    assert delete(node, (0, 4), (7, 0), (-1, 0)) == {0: ("none", 4), 7: unknown, -1: unknown}
    assert delete(node, (0, 0), name="nowhere") == {0: unknown}


def test_compacted_topics_refuse_delete_records(node):
    make_topic(node, "table", cleanup_policy="compact")
    make_topic(node, "both", cleanup_policy="compact,delete")
    assert delete(node, (0, 0), name="table") == {0: ("policy_violation", -1)}
    assert delete(node, (0, 0), name="both") == {0: ("none", 0)}


def test_of_a_duplicate_partition_the_last_entry_applies(node):
    assert delete(node, (0, 5), (0, 3)) == {0: ("none", 3)}
    assert delete(node, (0, 4), (0, 99)) == {0: ("offset_out_of_range", -1)}
    assert fetch(node, "t", 3).log_start_offset == 3


def test_internal_topics_refuse_delete_records(node):
    topics = [{"name": "__consumer_offsets"}]
    ask(node, ApiKey.METADATA, topics=topics, allow_auto_topic_creation=True)
    pass_time(node, 1000)
    assert delete(node, (0, 0), name="__consumer_offsets") == {0: ("invalid_topic_exception", -1)}


@pytest.mark.parametrize("version", [0, 1, 2])
def test_an_empty_request_gets_an_empty_response(node, version):
    assert ask(node, ApiKey.DELETE_RECORDS, version, topics=[], timeout=1000).topics == ()


def test_the_response_waits_for_the_disk(node):
    waiting = begin(node, ApiKey.DELETE_RECORDS, **request((0, 3)))
    assert waiting.answer is None
    node.jobs.run_all()
    assert waiting.answer.topics[0].partitions[0].low_watermark == 3


def test_without_delete_access_the_request_is_refused_before_any_lookup(tmp_path):
    node = a_guarded_node(tmp_path / "log")
    make_topic(node, "t")
    produce(node, "t", a_batch(2))
    for name in ("t", "nowhere"):
        assert delete(node, (0, 1), name=name, principal=EVE) == {0: ("topic_authorization_failed", -1)}
    allow(node, EVE, Operation.DELETE, ResourceType.TOPIC, "t")
    assert delete(node, (0, 1), principal=EVE) == {0: ("none", 1)}


def test_partitions_that_followers_have_not_deleted_in_time_are_told_with_what_they_have(node, monkeypatch):
    """As in Kafka: the records are deleted here already, and there when the follower hears of it."""
    slow = node.replicas.get(TopicPartition("t", 0))
    late = []
    slow.delete_records = lambda offset, on_done, on_error, on_here: late.append(on_done)
    monkeypatch.setattr(type(slow), "awaits_followers", property(lambda replica: replica is slow))
    waiting = begin(node, ApiKey.DELETE_RECORDS, **request((0, 3), (1, -1)))
    node.jobs.run_all()
    pass_time(node, 999)
    assert waiting.answer is None
    pass_time(node, 1)
    told = {
        each.partition_index: (each.error_code.name, each.low_watermark) for each in waiting.answer.topics[0].partitions
    }
    assert told == {0: ("request_timed_out", 0), 1: ("none", 0)}
    late[0](3)


def test_the_leader_is_waited_for_beyond_the_time_and_its_followers_are_not(node):
    slow = node.replicas.get(TopicPartition("t", 0))
    here = []
    slow.delete_records = lambda offset, on_done, on_error, on_here: here.append(on_here)
    waiting = begin(node, ApiKey.DELETE_RECORDS, **request((0, 3)))
    pass_time(node, 5000)
    assert waiting.answer is None
    here[0]()
    (partition,) = waiting.answer.topics[0].partitions
    assert (partition.error_code.name, partition.low_watermark) == ("request_timed_out", 0)
