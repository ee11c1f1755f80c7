import io
from datetime import timedelta

from kio.schema.produce.v9 import request as produce
from kio.serial import entity_writer
from kio.static.primitive import i16, i32, i32Timedelta
from recorded_wire import recorded_exchanges

from broker_core.protocol.api_table import message_types
from broker_core.protocol.message_reader import decode
from broker_core.protocol.message_writer import encode


def produce_request(records):
    return produce.ProduceRequest(
        acks=i16(-1),
        timeout=i32Timedelta(timedelta(seconds=1)),
        topic_data=(
            produce.TopicProduceData(
                name="t", partition_data=(produce.PartitionProduceData(index=i32(0), records=records),)
            ),
        ),
    )


def test_large_records_are_sent_as_they_are():
    records = memoryview(bytearray(100_000))
    parts = encode(produce_request(records))
    assert [part is records for part in parts] == [False, True, False]


def test_the_parts_are_what_kio_writes():
    request = produce_request(bytes(100_000))
    expected = io.BytesIO()
    entity_writer(type(request))(expected, request)
    assert b"".join(encode(request)) == expected.getvalue()


def test_a_real_brokers_requests_are_written_again_to_the_same_bytes():
    for exchange in recorded_exchanges().values():
        types = message_types(exchange.api_key, exchange.version)
        frame = memoryview(exchange.request)[4:]
        header, position = decode(types.request_header, frame)
        message, end = decode(types.request, frame, position)
        assert end == len(frame)
        assert b"".join(map(bytes, encode(header, message))) == frame
