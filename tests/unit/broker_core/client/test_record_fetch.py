import struct
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.schema.types import ProducerId, TopicName
from kio.static.primitive import i32, i64
from support.brokers.scripted_broker import ScriptedBroker, offsets_answer, schema_of
from support.clients.recorded_wire import recorded_exchanges
from support.runs.examples import examples

from broker_core.client.record_fetch import whole_batches
from broker_core.client.wire_values import duration
from broker_core.cluster import AbortedTransaction
from broker_core.model.exceptions import (
    CorruptBatchError,
    OffsetOutOfRangeError,
    UnknownTopicError,
    UnsupportedFormatError,
)
from broker_core.model.identifiers import IsolationLevel, TopicPartition
from broker_core.protocol.api_table import ApiKey, message_types
from broker_core.protocol.message_reader import decode
from broker_core.record.batch_builder import build_batch
from broker_core.record.batch_reader import Record, iter_headers

T0 = TopicPartition("t", 0)
COMMITTED = IsolationLevel.READ_COMMITTED


def batch(base_offset, count=2, size=1):
    return bytes(build_batch([Record(value=b"v" * size, timestamp_ms=1)] * count, base_offset=base_offset))


def fetched(
    records=b"", *, error=ErrorCode.none, start=0, stable=10, end=10, aborted=None, throttle_ms=0, topic_id=None
):
    """By name, or by id where there is one."""
    schema = schema_of(ApiKey.FETCH, 12 if topic_id is None else 13)
    named = {"topic": TopicName("t")} if topic_id is None else {"topic_id": topic_id}
    transactions = None
    if aborted is not None:
        transactions = tuple(
            schema.AbortedTransaction(producer_id=ProducerId(producer), first_offset=i64(first))
            for producer, first in aborted
        )
    data = schema.PartitionData(
        partition_index=i32(0),
        error_code=error,
        high_watermark=i64(end),
        last_stable_offset=i64(stable),
        log_start_offset=i64(start),
        aborted_transactions=transactions,
        records=records,
    )
    return schema.FetchResponse(
        throttle_time=duration(throttle_ms),
        error_code=ErrorCode.none,
        session_id=i32(0),
        responses=(schema.FetchableTopicResponse(**named, partitions=(data,)),),
    )


@pytest.fixture
def broker():
    with ScriptedBroker() as scripted:
        scripted.topics["t"] = 1
        yield scripted


def fetch(broker, *answers, from_offset=0, max_bytes=1000, isolation=IsolationLevel.READ_UNCOMMITTED, topic_id=None):
    broker.script(ApiKey.FETCH, *answers)
    return broker.client().fetch(T0, from_offset, max_bytes=max_bytes, isolation=isolation, topic_id=topic_id)


def test_a_fetch_returns_batches_bounds_and_aborted_transactions(broker):
    found = fetch(broker, fetched(batch(0) + batch(2), start=0, stable=6, end=8, aborted=[(7, 3)]), isolation=COMMITTED)
    assert bytes(found.buffer) == batch(0) + batch(2)
    assert found.next_offset == 4
    bounds = found.bounds
    assert (bounds.log_start_offset, bounds.last_stable_offset, bounds.high_watermark) == (0, 6, 8)
    assert bounds.log_end_offset == 8
    assert found.aborted_transactions == (AbortedTransaction(producer_id=7, first_offset=3),)


def test_the_request_has_the_requested_values(broker):
    fetch(broker, fetched(batch(4)), from_offset=5, max_bytes=77, isolation=COMMITTED)
    (request,) = broker.asked(ApiKey.FETCH)
    asked = request.topics[0].partitions[0]
    assert (asked.fetch_offset, asked.partition_max_bytes, request.max_bytes, request.isolation_level) == (5, 77, 77, 1)
    assert (request.session_id, request.session_epoch, request.replica_id) == (0, -1, -1)


@pytest.fixture
def topic_id(broker):
    return broker.client().describe_topics(["t"])["t"].topic_id


def test_a_topic_with_a_known_id_is_fetched_by_id_only(broker, topic_id):
    broker.script(ApiKey.FETCH, fetched(batch(0), topic_id=topic_id))
    client = broker.client()
    client.fetch(T0, 0, max_bytes=1000, topic_id=topic_id)
    broker.requests.clear()
    assert bytes(client.fetch(T0, 0, max_bytes=1000, topic_id=topic_id).buffer) == batch(0)
    (request,) = broker.requests
    assert (request.message.__version__, request.message.topics[0].topic_id) == (13, topic_id)


def test_a_recreated_topic_is_another_topic(broker):
    old_id = UUID(int=5)
    with pytest.raises(UnknownTopicError, match=r"created again: its id is no longer .*-000000000005"):
        fetch(broker, fetched(error=ErrorCode.unknown_topic_id, topic_id=old_id), topic_id=old_id)
    assert len(broker.asked(ApiKey.FETCH)) == 1


def test_a_deleted_topic_is_not_requested_again(broker, topic_id):
    def delete(request):
        broker.topics.clear()
        return fetched(error=ErrorCode.unknown_topic_id, topic_id=topic_id)

    with pytest.raises(UnknownTopicError):
        fetch(broker, delete, topic_id=topic_id)
    assert len(broker.asked(ApiKey.FETCH)) == 1


def test_a_leader_that_does_not_know_the_id_yet_is_retried(broker, topic_id):
    not_yet = fetched(error=ErrorCode.unknown_topic_id, topic_id=topic_id)
    found = fetch(broker, not_yet, fetched(batch(0), topic_id=topic_id), topic_id=topic_id)
    assert bytes(found.buffer) == batch(0)


def test_a_broker_without_ids_in_fetch_is_asked_for_the_topic_id_afterwards(broker, topic_id):
    broker.versions[ApiKey.FETCH] = (4, 12)
    assert bytes(fetch(broker, fetched(batch(0)), topic_id=topic_id).buffer) == batch(0)
    with pytest.raises(UnknownTopicError, match="created again"):
        fetch(broker, fetched(batch(0)), topic_id=UUID(int=5))


def test_a_cluster_without_topic_ids_is_fetched_by_name(broker):
    assert bytes(fetch(broker, fetched(batch(0)), topic_id=UUID(int=0)).buffer) == batch(0)
    (request,) = broker.asked(ApiKey.FETCH)
    assert request.__version__ == 12


@pytest.mark.parametrize("cut", [1, 8, 11, 12, 60])
def test_a_truncated_last_batch_is_dropped(broker, cut):
    found = fetch(broker, fetched(batch(0) + batch(2)[:-cut]))
    assert bytes(found.buffer) == batch(0)
    assert found.next_offset == 2


def test_a_fetch_at_the_end_is_sent_once(broker):
    found = fetch(broker, fetched(end=10), from_offset=10)
    assert (bytes(found.buffer), found.next_offset) == (b"", 10)
    assert len(broker.asked(ApiKey.FETCH)) == 1


def test_two_empty_responses_before_the_end_are_a_gap(broker):
    found = fetch(broker, fetched(end=10, stable=8), from_offset=5, isolation=COMMITTED)
    assert found.next_offset == 8
    assert len(broker.asked(ApiKey.FETCH)) == 2


def test_an_empty_response_before_the_end_is_not_a_gap_if_a_retry_finds_records(broker):
    found = fetch(broker, fetched(end=10), fetched(batch(6)), from_offset=5)
    assert (bytes(found.buffer), found.next_offset) == (batch(6), 8)


def test_a_throttled_empty_response_is_retried_and_is_not_a_gap(broker):
    found = fetch(broker, fetched(end=10, throttle_ms=20), fetched(end=10, throttle_ms=20), fetched(batch(5)))
    assert bytes(found.buffer) == batch(5)


def test_a_truncated_first_batch_is_fetched_again_with_a_larger_limit(broker):
    large = batch(0, size=500)
    found = fetch(broker, fetched(large[:100]), fetched(large), max_bytes=100)
    assert bytes(found.buffer) == large
    assert broker.asked(ApiKey.FETCH)[1].max_bytes == len(large)


def test_a_broker_that_never_sends_a_whole_batch_is_an_error(broker):
    with pytest.raises(CorruptBatchError, match="t-0: the broker sent 100 bytes without a whole batch"):
        fetch(broker, fetched(batch(0, size=500)[:100]), max_bytes=10_000)


def test_an_offset_out_of_range_is_reported_with_the_range(broker):
    broker.script(
        ApiKey.LIST_OFFSETS, offsets_answer(("t", 0, 3)), offsets_answer(("t", 0, 9)), offsets_answer(("t", 0, 9))
    )
    with pytest.raises(
        OffsetOutOfRangeError, match="offset 2 is outside the log, which holds offsets 3 to 9"
    ) as caught:
        fetch(broker, fetched(error=ErrorCode.offset_out_of_range), from_offset=2)
    assert (caught.value.offset, caught.value.log_start_offset, caught.value.log_end_offset) == (2, 3, 9)


def test_a_broker_without_last_stable_offsets_is_read_to_the_high_watermark(broker):
    assert fetch(broker, fetched(batch(0), stable=-1, end=4)).bounds.last_stable_offset == 4


def test_records_of_a_real_broker_are_whole():
    exchange = recorded_exchanges()["fetch"]
    message, _ = decode(message_types(1, 12).response, memoryview(exchange.response), 9)
    buffer, next_offset = whole_batches(message.responses[0].partitions[0].records, 0)
    assert next_offset == 3
    assert [header.record_count for _, header in iter_headers(buffer)] == [3]


@pytest.mark.parametrize("length", [0, -1, -(2**31), 5, 48])
def test_an_impossible_batch_length_is_corrupt(length):
    hostile = bytearray(batch(0))
    hostile[8:12] = struct.pack(">i", length)
    with pytest.raises(CorruptBatchError):
        whole_batches(memoryview(bytes(hostile)), 0)


def test_old_message_formats_are_refused_by_name():
    old = struct.pack(">qiib", 0, 20, 0, 1) + bytes(15)
    with pytest.raises(UnsupportedFormatError):
        whole_batches(memoryview(old), 0)


@examples(50)
@given(st.lists(st.integers(1, 60), max_size=4), st.integers(0, 200))
def test_whole_batches_match_the_iteration(sizes, cut):
    stream = b"".join(batch(2 * number, size=size) for number, size in enumerate(sizes))
    stream = stream[: max(0, len(stream) - cut)]
    buffer, next_offset = whole_batches(memoryview(stream), 7)
    found = list(iter_headers(stream))
    assert [header.base_offset for _, header in iter_headers(buffer)] == [header.base_offset for _, header in found]
    assert next_offset == (found[-1][1].next_offset if found else 7)
