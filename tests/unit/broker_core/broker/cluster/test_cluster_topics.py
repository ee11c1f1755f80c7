from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from support.nodes.replicated_nodes import ReplicatedNodes

from broker_core.model.exceptions import BrokerUnavailableError
from broker_core.protocol.api_table import message_types
from broker_core.protocol.message_builder import build


@pytest.fixture
def brokers(tmp_path):
    return ReplicatedNodes(tmp_path, 1)


@pytest.fixture
def heard():
    return []


def create(node, heard, name="new", **configs):
    node.topics.create_topic(
        name,
        partition_count=2,
        configs=configs,
        on_reply=lambda topic: heard.append(topic.name),
        on_error=lambda error: heard.append(error.error_code),
    )


def answer(node, key, version, **values):
    _, on_answer, _ = node.controller.asked[-1]
    on_answer(build(message_types(key, version).response, values))


def created(node, code=ErrorCode.none, name="new"):
    answer(node, 19, 7, topics=[{"name": name, "error_code": code, "error_message": "why", "configs": []}])


def test_a_topic_is_created_by_the_controller_and_told_once_this_broker_knows_it(brokers, heard):
    node = brokers[1]
    create(node, heard, **{"retention.ms": "5"})
    ((message, _, _),) = node.controller.asked
    (topic,) = message.topics
    assert (topic.name, topic.num_partitions, topic.replication_factor) == ("new", 2, -1)
    assert [(each.name, each.value) for each in topic.configs] == [("retention.ms", "5")]
    created(node)
    assert heard == []
    brokers.create("new", replicas=(1,), partition_count=2)
    assert heard == ["new"]


def test_an_internal_topic_is_created_with_its_own_factor_and_number_of_partitions(brokers, heard):
    topics = brokers[1].topics
    assert topics.internal_partition_count("__consumer_offsets") == 4
    topics.make_internal_topic("__consumer_offsets", on_reply=heard.append, on_error=heard.append)
    ((message, _, _),) = brokers[1].controller.asked
    (topic,) = message.topics
    assert (topic.num_partitions, topic.replication_factor) == (4, 3)
    assert ("cleanup.policy", "compact") in [(each.name, each.value) for each in topic.configs]
    brokers.create("__consumer_offsets", replicas=(1,), partition_count=2)
    assert topics.internal_partition_count("__consumer_offsets") == 2


def test_a_topic_that_the_broker_does_not_hear_of_is_not_waited_for_for_ever(brokers, heard):
    node = brokers[1]
    create(node, heard)
    created(node)
    node.clock.ms += 10_000
    node.timers.fire(node.clock.ms)
    assert heard == [ErrorCode.request_timed_out]
    brokers.create("new", replicas=(1,))
    assert heard == [ErrorCode.request_timed_out]


@pytest.mark.parametrize("code", [ErrorCode.topic_already_exists, ErrorCode.invalid_replication_factor])
def test_the_controllers_refusal_is_told(brokers, heard, code):
    create(brokers[1], heard)
    created(brokers[1], code)
    assert heard == [code]


def test_a_controller_that_does_not_answer_is_told(brokers, heard):
    create(brokers[1], heard)
    _, _, on_error = brokers[1].controller.asked[0]
    on_error(BrokerUnavailableError("gone", address=""))
    assert heard == [ErrorCode.network_exception]


def test_a_topic_is_deleted_by_its_id(brokers, heard):
    brokers.create(replicas=(1,))
    node = brokers[1]
    node.topics.delete_topic(
        "t", on_reply=lambda topic: heard.append(topic.name), on_error=lambda error: heard.append(error.error_code)
    )
    message, _, _ = node.controller.asked[-1]
    (asked,) = message.topics
    assert (asked.name, asked.topic_id) == (None, UUID(int=1000))
    answer(node, 20, 6, responses=[{"name": "t", "topic_id": UUID(int=1000), "error_code": ErrorCode.none}])
    assert heard == ["t"]


def test_producer_ids_come_from_the_controller_in_blocks(brokers, heard):
    node = brokers[1]
    node.topics.allocate_producer_ids(
        lambda block: heard.append((block.first_id, block.id_count)), lambda error: heard.append(error.error_code)
    )
    ((message, _, _),) = node.controller.asked
    assert (message.broker_id, message.broker_epoch) == (1, 10)
    answer(node, 67, 0, producer_id_start=3000, producer_id_len=1000)
    answer(node, 67, 0, error_code=ErrorCode.stale_broker_epoch, producer_id_start=0, producer_id_len=0)
    assert heard == [(3000, 1000), ErrorCode.stale_broker_epoch]


def test_other_changes_are_refused_here(brokers, heard):
    brokers[1].topics.change(lambda controller: None, heard.append, lambda error: heard.append(error.error_code))
    assert heard == [ErrorCode.invalid_request]
