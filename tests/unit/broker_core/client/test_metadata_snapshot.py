from dataclasses import replace

from kio.schema.errors import ErrorCode
from support.clients.recorded_wire import recorded_exchanges

from broker_core.client.metadata_snapshot import (
    MetadataSnapshot,
    PartitionMetadata,
    metadata_request,
    renewed,
    topic_view,
)
from broker_core.model.client_settings import BrokerAddress
from broker_core.protocol.api_table import message_types
from broker_core.protocol.message_reader import decode


def real_answer():
    exchange = recorded_exchanges()["metadata"]
    return decode(message_types(3, 12).response, memoryview(exchange.response), 9)[0]


def test_a_response_of_a_real_broker_is_decoded():
    view = renewed(MetadataSnapshot(), real_answer())
    assert view.brokers == {1: BrokerAddress(host="127.0.0.1", port=29092)}
    assert view.controller_id == 1
    assert view.topics["wire"].partitions == (PartitionMetadata(leader_id=1, leader_epoch=0),) * 2
    assert view.topics["wire"].has_all_leaders
    assert view.errors == {"none": ErrorCode.unknown_topic_or_partition}


def test_topics_missing_in_a_response_are_kept():
    other = replace(topic_view(real_answer().topics[0]), name="other")
    view = renewed(MetadataSnapshot(topics={"other": other, "none": replace(other, name="none")}), real_answer())
    assert sorted(view.topics) == ["other", "wire"]


def test_an_error_is_dropped_once_the_topic_exists():
    view = renewed(MetadataSnapshot(errors={"wire": ErrorCode.unknown_topic_or_partition}), real_answer())
    assert "wire" not in view.errors


def test_a_partition_missing_in_the_response_has_no_leader():
    topic = real_answer().topics[0]
    gap = replace(topic, partitions=topic.partitions[1:])
    assert [partition.leader_id for partition in topic_view(gap).partitions] == [-1, 1]
    assert not topic_view(gap).has_all_leaders


def test_a_huge_partition_number_allocates_no_long_list():
    topic = real_answer().topics[0]
    hostile = replace(topic, partitions=(replace(topic.partitions[0], partition_index=2**31 - 1),))
    assert len(topic_view(hostile).partitions) <= 2


def test_metadata_requests_do_not_create_topics():
    assert metadata_request(None).topics is None
    assert metadata_request([]).topics == ()
    assert metadata_request(["b", "a", "b"]).allow_auto_topic_creation is False
    assert [topic.name for topic in metadata_request(["b", "a", "b"]).topics] == ["a", "b"]
