import io
import struct
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.api_versions.v0 import response as api_versions_0
from kio.schema.api_versions.v3 import request as api_versions_3
from kio.schema.end_txn.v3 import request as end_txn_request
from kio.schema.end_txn.v3 import response as end_txn_response
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12.request import MetadataRequest
from kio.serial import entity_writer
from kio.static.primitive import i16, i32, i32Timedelta
from support.clients.recorded_wire import recorded_exchanges
from support.runs.examples import examples

from broker_core.model.exceptions import MalformedMessageError
from broker_core.protocol.api_table import message_types
from broker_core.protocol.connection import ClientSide, ServerSide, response_frame
from broker_core.protocol.message_builder import build
from broker_core.protocol.message_reader import decode
from broker_core.protocol.message_writer import encode
from broker_core.protocol.served_versions import SERVED_VERSIONS, is_served

METADATA_REQUEST = MetadataRequest(topics=None, include_topic_authorized_operations=False)
END_REQUEST = end_txn_request.EndTxnRequest(transactional_id="t", producer_id=1, producer_epoch=i16(0), committed=True)
END_ANSWER = end_txn_response.EndTxnResponse(
    throttle_time=i32Timedelta(timedelta(0)), error_code=ErrorCode.invalid_txn_state
)
VERSIONS_REQUEST = api_versions_3.ApiVersionsRequest(client_software_name="a", client_software_version="1")


SERVED = [
    (key, version) for key, versions in SERVED_VERSIONS.items() for version in versions if is_served(key, version)
]


def client():
    return ClientSide(client_id="me", max_frame_bytes=10**6)


def server():
    return ServerSide(max_frame_bytes=10**6)


def answer_bytes(request, message):
    return b"".join(map(bytes, response_frame(request, message)[0]))


def sent(side):
    return b"".join(map(bytes, side.data_to_send()))


def test_requests_and_responses_pass_through_both_sides():
    asking, answering = client(), server()
    assert [asking.send_request(END_REQUEST), asking.send_request(METADATA_REQUEST)] == [0, 1]
    answering.receive_data(sent(asking))
    first, second = answering.next_request(), answering.next_request()
    assert (first.api_key, first.api_version, first.client_id, first.message) == (26, 3, "me", END_REQUEST)
    assert second.message == METADATA_REQUEST
    assert answering.next_request() is None
    asking.receive_data(answer_bytes(first, END_ANSWER))
    assert asking.next_response().message == END_ANSWER
    assert asking.next_response() is None


@examples(50)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=30))
def test_responses_of_a_real_broker_are_read_with_any_fragmentation(lengths):
    exchange = recorded_exchanges()["metadata"]
    asking = client()
    asking._next_correlation_id = struct.unpack(">i", exchange.response[4:8])[0]
    types = message_types(exchange.api_key, exchange.version)
    request, _ = decode(types.request, memoryview(exchange.request)[14 + 1 + len("streamlog") :])
    asking.send_request(request)
    stream = exchange.response
    while stream:
        assert asking.next_response() is None
        length = lengths.pop(0) if lengths else len(stream)
        asking.receive_data(stream[:length])
        stream = stream[length:]
    found = asking.next_response().message
    assert [(topic.name, topic.error_code.value) for topic in found.topics] == [("wire", 0), ("none", 3)]
    assert [(broker.host, broker.port) for broker in found.brokers] == [("127.0.0.1", 29092)]


def test_an_older_broker_answers_api_versions_with_version_0():
    asking, answering = client(), server()
    asking.send_request(VERSIONS_REQUEST)
    answering.receive_data(sent(asking))
    request = answering.next_request()
    refusal = api_versions_0.ApiVersionsResponse(
        error_code=ErrorCode.unsupported_version,
        api_keys=(api_versions_0.ApiVersion(api_key=i16(18), min_version=i16(0), max_version=i16(2)),),
    )
    asking.receive_data(answer_bytes(request, refusal))
    assert asking.next_response().message == refusal


def test_the_api_versions_response_has_header_version_0():
    exchange = recorded_exchanges()["versions"]
    asking = client()
    asking.send_request(VERSIONS_REQUEST)
    asking.receive_data(exchange.response)
    assert {key.api_key: key.max_version for key in asking.next_response().message.api_keys}[1] == 18


def test_a_response_with_another_correlation_id_is_refused():
    asking = client()
    asking.send_request(END_REQUEST)
    asking.receive_data(struct.pack(">ii", 5, 7) + b"\0")
    with pytest.raises(
        MalformedMessageError, match="a response with correlation id 7, expected that of EndTxn request 0"
    ):
        asking.next_response()


def test_a_response_without_a_request_is_refused():
    asking = client()
    asking.receive_data(struct.pack(">ii", 4, 0))
    with pytest.raises(MalformedMessageError, match="without a request"):
        asking.next_response()


def test_a_request_with_acks_0_expects_no_response():
    asking = client()
    asking.send_request(END_REQUEST, is_answered=False)
    asking.send_request(END_REQUEST)
    asking.receive_data(struct.pack(">ii", 12, 1) + bytes(8))
    assert asking.next_response().correlation_id == 1


def test_correlation_ids_restart_after_the_largest():
    asking = client()
    asking._next_correlation_id = 2**31 - 1
    assert [asking.send_request(END_REQUEST), asking.send_request(END_REQUEST)] == [2**31 - 1, 0]


@pytest.mark.parametrize(("api_key", "version"), [(4711, 0), (1, 99), (18, 77), (-5, -5)])
def test_a_request_without_a_schema_is_returned_without_a_message(api_key, version):
    answering = server()
    answering.receive_data(struct.pack(">ihhi", 12, api_key, version, 9) + b"\xff\xff\xff\xff")
    request = answering.next_request()
    assert (request.api_key, request.api_version, request.correlation_id, request.message) == (
        api_key,
        version,
        9,
        None,
    )


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (b"\0\x1a\0", "too short for a header"),
        (struct.pack(">hhi", 26, 3, 0), "are not a RequestHeader"),
        (struct.pack(">hhih", 26, 3, 0, -1) + b"\0" + b"\x02t" + bytes(8), "are not a EndTxnRequest of version 3"),
    ],
)
def test_a_malformed_request_is_refused(frame, said):
    answering = server()
    answering.receive_data(struct.pack(">i", len(frame)) + frame)
    with pytest.raises(MalformedMessageError, match=said):
        answering.next_request()


def test_bytes_after_a_request_are_ignored():
    answering = server()
    frame = struct.pack(">hhih", 26, 3, 7, -1) + b"\0" + b"\x02t" + bytes(12) + b"more"
    answering.receive_data(struct.pack(">i", len(frame)) + frame)
    request = answering.next_request()
    assert (request.correlation_id, request.message.transactional_id) == (7, "t")


def test_real_requests_are_read():
    answering = server()
    for exchange in recorded_exchanges().values():
        answering.receive_data(exchange.request)
        request = answering.next_request()
        assert (request.api_key, request.api_version) == (exchange.api_key, exchange.version)
        assert request.client_id == "streamlog"
        assert request.message is not None


def test_the_records_of_a_request_are_writable_in_place():
    answering = server()
    answering.receive_data(recorded_exchanges()["produce"].request)
    records = answering.next_request().message.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert not records.readonly


def written(entity):
    """By kio's own writer."""
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


@pytest.mark.parametrize("key", sorted({key for key, _ in SERVED}), ids=lambda key: key.name)
def test_header_versions_match_the_schemas(key):
    for version in (version for each, version in SERVED if each == key):
        check_headers(key, version)


def check_headers(key, version):
    types = message_types(key, version)
    asked = build(types.request, {})
    for client_id in (None, "", "me", "\N{SNOWMAN}" * 100):
        header = types.request_header(
            request_api_key=i16(key), request_api_version=i16(version), correlation_id=i32(7), client_id=client_id
        )
        content = written(header) + b"".join(encode(asked))
        answering = server()
        answering.receive_data(struct.pack(">i", len(content)) + content)
        request = answering.next_request()
        assert (request.client_id, request.correlation_id, request.message) == (client_id, 7, asked)
    answer = build(types.response, {})
    parts, size_bytes = response_frame(request, answer)
    content = written(types.response_header(correlation_id=i32(7))) + b"".join(encode(answer))
    assert b"".join(parts) == struct.pack(">i", len(content)) + content
    assert size_bytes == len(content) + 4


def test_tagged_fields_in_a_header_are_ignored():
    content = struct.pack(">hhih", 18, 3, 7, 2) + b"me" + b"\x01\x05\x02ab" + b"\x02x\x02y\0"
    answering = server()
    answering.receive_data(struct.pack(">i", len(content)) + content)
    request = answering.next_request()
    assert (request.client_id, request.message.client_software_name) == ("me", "x")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (struct.pack(">hhi", 18, 0, 7), "RequestHeader.*end too early"),
        (struct.pack(">hhih", 18, 0, 7, 3) + b"ab", "client_id has 3 bytes, but only 2 are left"),
        (struct.pack(">hhih", 18, 0, 7, -2), "client_id has a size of -2"),
        (struct.pack(">hhih", 18, 0, 7, 2) + b"\xff\xffmore", "not UTF-8"),
        (struct.pack(">hhih", 18, 3, 7, 2) + b"me", "RequestHeader.*end too early"),
    ],
    ids=["no client id", "cut off", "negative", "no text", "no tagged fields"],
)
def test_an_invalid_header_is_refused_with_the_reason(content, why):
    answering = server()
    answering.receive_data(struct.pack(">i", len(content)) + content)
    with pytest.raises(MalformedMessageError, match=why):
        answering.next_request()


def test_records_in_a_response_are_sent_without_a_copy():
    records = memoryview(bytearray(10_000))
    types = message_types(1, 12)
    answer = build(
        types.response, {"responses": [{"topic": "t", "partitions": [{"partition_index": 0, "records": records}]}]}
    )
    content = struct.pack(">hhih", 1, 12, 7, -1) + b"\0" + b"".join(encode(build(types.request, {})))
    answering = server()
    answering.receive_data(struct.pack(">i", len(content)) + content)
    parts, size_bytes = response_frame(answering.next_request(), answer)
    assert [part is records for part in parts] == [False, True, False]
    assert size_bytes == sum(map(len, parts))
