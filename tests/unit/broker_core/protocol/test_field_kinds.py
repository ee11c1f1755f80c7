from dataclasses import fields
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v12.response import PartitionData
from kio.schema.metadata.v12.response import MetadataResponseTopic
from kio.schema.produce.v9.response import PartitionProduceResponse
from kio.schema.request_header.v2.header import RequestHeader
from kio.serial._implicit_defaults import get_tagged_field_default

from broker_core.protocol.field_kinds import FIXED_KINDS, array_of, default_of, fixed_kind_of, is_compact


def field(message_type, name):
    return next(each for each in fields(message_type) if each.name == name)


@pytest.mark.parametrize(
    ("kind", "number", "value"),
    [
        ("error_code", 3, ErrorCode.unknown_topic_or_partition),
        ("timedelta_i32", 1500, timedelta(seconds=1.5)),
        ("datetime_i64", 1500, datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)),
        ("uuid", bytes(16), None),
        ("uuid", bytes(range(16)), UUID(bytes=bytes(range(16)))),
    ],
)
def test_numbers_and_enum_values_round_trip(kind, number, value):
    fixed = FIXED_KINDS[kind]
    assert fixed.convert(number) == value
    assert (value if fixed.give is None else fixed.give(value)) == number


def test_an_undefined_error_code_decodes_as_unknown_error():
    assert FIXED_KINDS["error_code"].convert(32_000) is ErrorCode.unknown_server_error


def test_a_missing_timestamp_is_minus_one_on_the_wire():
    fixed = fixed_kind_of(field(PartitionProduceResponse, "log_append_time"))
    assert (fixed.convert(-1), fixed.give(None)) == (None, -1)


def test_flexible_structures_use_compact_sizes_except_for_the_client_id():
    assert is_compact(MetadataResponseTopic, field(MetadataResponseTopic, "name"))
    assert not is_compact(RequestHeader, field(RequestHeader, "client_id"))


def test_arrays_are_distinguished_from_other_fields():
    assert array_of(field(MetadataResponseTopic, "partitions").type).__name__ == "MetadataResponsePartition"
    assert array_of(field(MetadataResponseTopic, "name").type) is None


@pytest.mark.parametrize("name", ["diverging_epoch", "current_leader", "snapshot_id"])
def test_the_default_of_a_structure_matches_kio(name):
    assert default_of(field(PartitionData, name)) == get_tagged_field_default(field(PartitionData, name))


def test_a_field_without_a_default_is_the_zero_value_of_its_type():
    assert default_of(field(MetadataResponseTopic, "error_code")) is ErrorCode.none
    assert default_of(field(MetadataResponseTopic, "topic_id")) is None
    assert default_of(field(MetadataResponseTopic, "partitions")) == ()
