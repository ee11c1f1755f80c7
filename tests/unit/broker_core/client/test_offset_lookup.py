import pytest
from kio.schema.errors import ErrorCode
from support.brokers.scripted_broker import ScriptedBroker, offsets_answer
from support.clients.recorded_wire import recorded_exchanges

from broker_core.cluster import OffsetAndTimestamp
from broker_core.model.exceptions import InvalidRequestError
from broker_core.model.identifiers import IsolationLevel, OffsetSpec, TopicPartition
from broker_core.protocol.api_table import ApiKey, message_types
from broker_core.protocol.message_reader import decode

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def broker():
    with ScriptedBroker() as scripted:
        scripted.topics["t"] = 2
        yield scripted


def test_all_partitions_of_a_leader_share_one_request(broker):
    broker.script(ApiKey.LIST_OFFSETS, offsets_answer(("t", 0, 5), ("t", 1, 7)))
    found = broker.client().list_offsets(
        {T0: OffsetSpec.LATEST, T1: OffsetSpec.EARLIEST}, IsolationLevel.READ_COMMITTED
    )
    assert {partition: answer.offset for partition, answer in found.items()} == {T0: 5, T1: 7}
    (request,) = broker.asked(ApiKey.LIST_OFFSETS)
    assert request.isolation_level == 1
    asked = request.topics[0].partitions
    assert [(one.partition_index, one.timestamp) for one in asked] == [(0, -1), (1, -2)]


def test_a_timestamp_is_returned_only_for_timestamp_lookups(broker):
    broker.script(ApiKey.LIST_OFFSETS, offsets_answer(("t", 0, 5, 999), ("t", 1, 7, 888)))
    assert broker.client().list_offsets({T0: 900, T1: OffsetSpec.LATEST}) == {
        T0: OffsetAndTimestamp(offset=5, timestamp_ms=999),
        T1: OffsetAndTimestamp(offset=7, timestamp_ms=-1),
    }


def test_a_lookup_without_a_record_returns_none(broker):
    exchange = recorded_exchanges()["list offsets"]
    answer = decode(message_types(2, 7).response, memoryview(exchange.response), 9)[0]
    broker.topics["wire"] = 2
    broker.script(ApiKey.LIST_OFFSETS, answer)
    question = dict.fromkeys([TopicPartition("wire", 0), TopicPartition("wire", 1)], OffsetSpec.MAX_TIMESTAMP)
    assert broker.client().list_offsets(question) == {
        TopicPartition("wire", 0): OffsetAndTimestamp(offset=2, timestamp_ms=1002),
        TopicPartition("wire", 1): None,
    }


def test_a_retry_requests_only_missing_partitions(broker):
    broker.script(
        ApiKey.LIST_OFFSETS,
        offsets_answer(("t", 0, 5), ("t", 1, -1, -1, ErrorCode.leader_not_available)),
        offsets_answer(("t", 1, 7)),
    )
    found = broker.client().list_offsets({T0: OffsetSpec.LATEST, T1: OffsetSpec.LATEST})
    assert {partition: answer.offset for partition, answer in found.items()} == {T0: 5, T1: 7}
    second = broker.asked(ApiKey.LIST_OFFSETS)[1]
    assert [one.partition_index for one in second.topics[0].partitions] == [1]


def test_an_invalid_offset_spec_is_refused_before_sending(broker):
    with pytest.raises(InvalidRequestError, match="t-0: -4 is neither a timestamp in ms nor an offset spec"):
        broker.client().list_offsets({T0: -4})
    assert broker.requests == []
    assert broker.client().list_offsets({}) == {}


def test_bounds_are_ordered_even_if_the_log_changes_between_requests(broker):
    broker.script(
        ApiKey.LIST_OFFSETS, offsets_answer(("t", 0, 9)), offsets_answer(("t", 0, 8)), offsets_answer(("t", 0, 7))
    )
    bounds = broker.client().bounds(T0)
    assert bounds.log_start_offset <= bounds.last_stable_offset <= bounds.high_watermark <= bounds.log_end_offset
