import contextlib
import io
import struct
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.schema.end_txn.v3.response import EndTxnResponse
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v12.response import FetchResponse
from kio.schema.metadata.v12.response import MetadataResponse
from kio.schema.request_header.v2.header import RequestHeader
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import Records
from support.clients.recorded_wire import recorded_exchanges
from support.runs.examples import examples

from broker_core.model.exceptions import MalformedMessageError
from broker_core.model.limits import MAX_TAGGED_FIELD_COUNT
from broker_core.protocol.api_table import ApiKey, message_types, versions_with_schemas
from broker_core.protocol.message_reader import decode, least_bytes

# The ways in which fields differ: flexible or not, nullable, tagged, nested, records, uuids, times.
SAMPLED = [
    (ApiKey.PRODUCE, 3), (ApiKey.PRODUCE, 9), (ApiKey.PRODUCE, 13), (ApiKey.FETCH, 4), (ApiKey.FETCH, 12),
    (ApiKey.FETCH, 17), (ApiKey.METADATA, 1), (ApiKey.METADATA, 12), (ApiKey.API_VERSIONS, 0),
    (ApiKey.API_VERSIONS, 3), (ApiKey.JOIN_GROUP, 5), (ApiKey.OFFSET_FETCH, 8), (ApiKey.CREATE_TOPICS, 7),
    (ApiKey.DESCRIBE_CONFIGS, 4), (ApiKey.SASL_AUTHENTICATE, 2), (ApiKey.CONSUMER_GROUP_HEARTBEAT, 0),
    (ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0), (ApiKey.LIST_TRANSACTIONS, 2), (ApiKey.ADD_PARTITIONS_TO_TXN, 4),
]  # fmt: skip
SIDES = [
    side
    for key, version in SAMPLED
    for side in (message_types(key, version).request, message_types(key, version).response)
]
st.register_type_strategy(Records, st.binary())
THOROUGH = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))


def written(entity):
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def plain(value):
    """Views as bytes, so that values compare."""
    if is_dataclass(value):
        return type(value), {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return bytes(value) if isinstance(value, memoryview) else value


def read_as_its_twin_does(content, message_type):
    value, end = decode(message_type, memoryview(content))
    assert end == len(content)
    try:
        twin, _ = entity_reader(message_type)(bytes(content), 0)
    except ValueError:
        # A length of time that the twin cannot hold.
        return
    assert plain(value) == plain(twin)


@pytest.mark.long
@pytest.mark.parametrize("message_type", SIDES, ids=lambda side: f"{side.__name__}-{side.__version__}")
@THOROUGH
@given(data=st.data())
def test_the_reader_matches_kio_for_every_message(message_type, data):
    read_as_its_twin_does(written(data.draw(st.from_type(message_type))), message_type)


@pytest.mark.parametrize("name", list(recorded_exchanges()))
def test_the_reader_matches_kio_for_responses_of_a_real_broker(name):
    exchange = recorded_exchanges()[name]
    response = message_types(exchange.api_key, exchange.version).response
    if name != "describe transactions":  # the twin has no timestamp of -1
        position = 9 if response.__flexible__ and exchange.api_key != ApiKey.API_VERSIONS else 8
        read_as_its_twin_does(exchange.response[position:], response)


@examples(300)
@given(data=st.data())
def test_truncated_or_altered_bytes_give_a_message_or_an_error(data):
    exchange = data.draw(st.sampled_from(list(recorded_exchanges().values())))
    message_type = message_types(exchange.api_key, exchange.version).response
    content = bytearray(exchange.response[9:])
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=3)):
        content[place] = data.draw(st.sampled_from([0, 1, 2, 127, 128, 255]))
    view = memoryview(content)[: data.draw(st.integers(0, len(content)))]
    try:
        _, end = decode(message_type, view)
    except MalformedMessageError as refusal:
        assert message_type.__name__ in refusal.message
    else:
        assert 0 <= end <= len(view)


@given(st.binary(max_size=200))
@examples(200)
def test_random_bytes_give_a_message_or_an_error(garbage):
    for message_type in (MetadataResponse, FetchResponse, RequestHeader):
        with contextlib.suppress(MalformedMessageError):
            decode(message_type, memoryview(garbage))


@pytest.mark.parametrize("name", list(recorded_exchanges()))
def test_responses_of_a_real_broker_are_read_to_their_end(name):
    exchange = recorded_exchanges()[name]
    types = message_types(exchange.api_key, exchange.version)
    frame = memoryview(exchange.response)[4:]
    _, position = decode(types.response_header, frame)
    message, end = decode(types.response, frame, position)
    assert end == len(frame)
    if name != "versions":  # kio leaves out tagged fields with default values; a broker may send them
        assert written(message) == frame[position:]


def test_a_count_beyond_the_bytes_is_refused_before_allocating():
    # kio's own reader ends the process here.
    hostile = bytes(4) + b"\xff\xff\xff\xff\x0f" + bytes(20)
    with pytest.raises(MalformedMessageError, match=r"MetadataResponse.brokers has 4294967294 elements in 20 bytes"):
        decode(MetadataResponse, memoryview(hostile))


def test_a_count_is_checked_against_the_minimum_size_of_an_element():
    types = message_types(ApiKey.API_VERSIONS, 0)
    assert decode(types.response, memoryview(struct.pack(">hi", 0, 2) + bytes(12)))[0].api_keys[1].api_key == 0
    with pytest.raises(MalformedMessageError, match="3 elements in 17 bytes"):
        decode(types.response, memoryview(struct.pack(">hi", 0, 3) + bytes(17)))


@pytest.mark.parametrize("size", [b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x80\x01", b"\x05"])
def test_a_string_longer_than_the_bytes_is_refused(size):
    with pytest.raises(MalformedMessageError, match="MetadataResponse"):
        decode(MetadataResponse, memoryview(bytes(4) + b"\x01" + size + b"abc"))


def test_null_is_refused_for_a_non_nullable_field():
    with pytest.raises(MalformedMessageError, match=r"MetadataResponse.brokers has -1 elements"):
        decode(MetadataResponse, memoryview(bytes(4) + b"\x00" + bytes(20)))


def test_unknown_tagged_fields_are_ignored():
    answer = struct.pack(">ih", 0, 0) + b"\x02" + b"\x63\x02ab" + b"\x64\x00"
    value, end = decode(EndTxnResponse, memoryview(answer))
    assert (value.error_code, end) == (ErrorCode.none, len(answer))


@pytest.mark.parametrize("tags", [b"\x01\x63\x05ab", b"\x91\x4e" + b"\x63\x00" * (MAX_TAGGED_FIELD_COUNT + 1)])
def test_tagged_fields_are_bounded(tags):
    with pytest.raises(MalformedMessageError, match="tagged field"):
        decode(EndTxnResponse, memoryview(struct.pack(">ih", 0, 0) + tags))


def test_a_tagged_field_must_fill_its_size():
    types = message_types(ApiKey.API_VERSIONS, 3)
    # finalized_features_epoch, tag 1, an int64
    good = struct.pack(">h", 0) + b"\x01" + bytes(4) + b"\x01\x01\x08" + struct.pack(">q", 7)
    assert decode(types.response, memoryview(good))[0].finalized_features_epoch == 7
    with pytest.raises(MalformedMessageError, match="does not fill its size"):
        decode(types.response, memoryview(good.replace(b"\x01\x01\x08", b"\x01\x01\x09") + b"\0"))


def test_an_unknown_error_code_is_an_unknown_error():
    value, _ = decode(EndTxnResponse, memoryview(struct.pack(">ih", 0, 9999) + b"\x00"))
    assert value.error_code is ErrorCode.unknown_server_error


def test_a_timestamp_of_minus_one_is_read():
    exchange = recorded_exchanges()["describe transactions"]
    types = message_types(exchange.api_key, exchange.version)
    idle, unknown = decode(types.response, memoryview(exchange.response)[9:])[0].transaction_states
    assert idle.transaction_start_time == datetime(1970, 1, 1, tzinfo=UTC) - timedelta(milliseconds=1)
    assert unknown.error_code is ErrorCode.transactional_id_not_found


def test_a_timestamp_outside_the_calendar_is_malformed():
    exchange = recorded_exchanges()["describe transactions"]
    types = message_types(exchange.api_key, exchange.version)
    hostile = exchange.response.replace(struct.pack(">q", -1), struct.pack(">q", 2**62), 1)
    with pytest.raises(MalformedMessageError):
        decode(types.response, memoryview(hostile)[9:])


def test_records_are_views_of_the_buffer():
    exchange = recorded_exchanges()["fetch"]
    frame = bytearray(exchange.response)
    message, _ = decode(FetchResponse, memoryview(frame), 9)
    records = message.responses[0].partitions[0].records
    records[0:8] = struct.pack(">q", 77)
    assert struct.pack(">q", 77) in frame


@pytest.mark.long
def test_every_schema_of_an_api_key_can_be_read():
    smallest = [
        least_bytes(side)
        for key in ApiKey
        for version in versions_with_schemas(key)
        for side in (message_types(key, version).request, message_types(key, version).response)
    ]
    assert min(smallest) == 1
