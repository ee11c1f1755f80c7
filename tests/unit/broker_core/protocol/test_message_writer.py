import io
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.schema.fetch.v12.response import FetchResponse
from kio.schema.produce.v9 import request as produce
from kio.serial import entity_writer
from kio.static.primitive import Records, i16, i32, i32Timedelta
from support.clients.recorded_wire import recorded_exchanges

from broker_core.protocol.api_table import message_types
from broker_core.protocol.message_builder import build
from broker_core.protocol.message_reader import decode
from broker_core.protocol.message_writer import encode
from broker_core.protocol.served_versions import SERVED_VERSIONS, is_served

st.register_type_strategy(Records, st.binary())
THOROUGH = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
QUICK = settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


def sides(place):
    """Requests and answers of the oldest (0) or the newest (-1) version of every API."""
    spoken = {key: [each for each in versions if is_served(key, each)] for key, versions in SERVED_VERSIONS.items()}
    types = [message_types(key, versions[place]) for key, versions in spoken.items()]
    return [side for each in types for side in (each.request, each.response)]


NEWEST, OLDEST = sides(-1), sides(0)


def written_by_its_twin(entity):
    expected = io.BytesIO()
    entity_writer(type(entity))(expected, entity)
    return expected.getvalue()


def check_against_its_twin(data, message_type):
    entity = data.draw(st.from_type(message_type))
    try:
        expected = written_by_its_twin(entity)
    except (ValueError, OverflowError):
        return  # a time that does not fit into its field
    assert b"".join(encode(entity)) == expected


def name_of(side):
    return f"{side.__name__}-{side.__version__}"


@pytest.mark.parametrize("message_type", NEWEST, ids=name_of)
@QUICK
@given(data=st.data())
def test_the_writer_matches_kio_for_every_message(message_type, data):
    check_against_its_twin(data, message_type)


@pytest.mark.long
@pytest.mark.parametrize("message_type", [*OLDEST, *NEWEST], ids=name_of)
@THOROUGH
@given(data=st.data())
def test_the_writer_matches_kio_for_very_many_messages(message_type, data):
    check_against_its_twin(data, message_type)


def test_default_tagged_fields_are_omitted_and_others_are_sorted_by_tag():
    def answer(**given):
        partition = {"partition_index": 0, "records": b"", **given}
        return build(FetchResponse, {"responses": [{"topic": "t", "partitions": [partition]}]})

    plain = answer(current_leader={"leader_id": -1, "leader_epoch": -1})
    tagged = answer(current_leader={"leader_id": 1}, diverging_epoch={"epoch": 2, "end_offset": 3})
    for each in (plain, tagged):
        assert b"".join(encode(each)) == written_by_its_twin(each)
    assert len(b"".join(encode(tagged))) > len(b"".join(encode(plain)))


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


def test_large_records_are_sent_without_a_copy():
    records = memoryview(bytearray(100_000))
    parts = encode(produce_request(records))
    assert [part is records for part in parts] == [False, True, False]


def test_the_parts_match_what_kio_writes():
    request = produce_request(bytes(100_000))
    assert b"".join(encode(request)) == written_by_its_twin(request)


def test_requests_of_a_real_broker_round_trip_to_the_same_bytes():
    for exchange in recorded_exchanges().values():
        types = message_types(exchange.api_key, exchange.version)
        frame = memoryview(exchange.request)[4:]
        header, position = decode(types.request_header, frame)
        message, end = decode(types.request, frame, position)
        assert end == len(frame)
        assert b"".join(map(bytes, encode(header, message))) == frame
