import pytest
from support.builders.builders import a_batch, a_transactional_batch
from support.nodes.whole_node import EVE, a_guarded_node, a_node, allow, ask, make_topic, produce

from broker_core.model.access_control import Operation, ResourceType
from broker_core.protocol.api_table import ApiKey


@pytest.fixture
def node(tmp_path):
    node = a_node(tmp_path / "log")
    make_topic(node, "t", 2)
    return node


def producers(node, *partitions, name="t", **more):
    """{partition: (error, [entry])}"""
    topics = [{"name": name, "partition_indexes": partitions}]
    (topic,) = ask(node, ApiKey.DESCRIBE_PRODUCERS, topics=topics, **more).topics
    return {each.partition_index: (each.error_code.name, list(each.active_producers)) for each in topic.partitions}


def new_producer(node, transactional_id=None):
    answer = ask(node, ApiKey.INIT_PRODUCER_ID, 4, transactional_id=transactional_id, transaction_timeout=60_000,
                 producer_id=-1, producer_epoch=-1)  # fmt: skip
    assert answer.error_code.name == "none"
    return answer.producer_id


def test_an_unwritten_partition_has_no_producers(node):
    produce(node, "t", a_batch(1))
    assert producers(node, 0, 1) == {0: ("none", []), 1: ("none", [])}


def test_an_idempotent_producer_is_shown_with_its_last_record(node):
    producer_id = new_producer(node)
    produce(node, "t", a_batch(2, producer=(producer_id, 0, 0)))
    ((_, (entry,)),) = producers(node, 0).values()
    assert (entry.producer_id, entry.producer_epoch, entry.last_sequence) == (producer_id, 0, 1)
    assert (entry.coordinator_epoch, entry.current_txn_start_offset) == (-1, -1)
    assert entry.last_timestamp == 1_700_000_000_001


def test_an_open_transaction_is_shown_with_its_first_offset_until_it_ends(node):
    producer_id = new_producer(node, "mine")
    produce(node, "t", a_batch(3))
    batch = a_transactional_batch(2, producer_id=producer_id)
    assert produce(node, "t", batch, version=12, transactional_id="mine").error_code.name == "none"
    ((_, (entry,)),) = producers(node, 0).values()
    assert (entry.producer_id, entry.current_txn_start_offset, entry.coordinator_epoch) == (producer_id, 3, -1)


def test_a_missing_topic_is_unknown(node):
    unknown = ("unknown_topic_or_partition", [])
    assert producers(node, 7, -1) == {7: unknown, -1: unknown}
    assert producers(node, 0, name="nowhere") == {0: unknown}


def test_an_empty_request_gets_an_empty_response(node):
    assert producers(node) == {}
    assert ask(node, ApiKey.DESCRIBE_PRODUCERS, topics=[]).topics == ()


def test_a_client_without_read_access_is_refused(tmp_path):
    node = a_guarded_node(tmp_path / "log")
    make_topic(node, "t")
    for name in ("t", "nowhere"):
        assert producers(node, 0, name=name, principal=EVE) == {0: ("topic_authorization_failed", [])}
    allow(node, EVE, Operation.READ, ResourceType.TOPIC, "t")
    assert producers(node, 0, principal=EVE) == {0: ("none", [])}
