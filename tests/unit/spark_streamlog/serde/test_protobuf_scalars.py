import pyarrow as pa
import pytest
from support.builders.protobuf_messages import DESCRIPTOR_SET

from spark_streamlog.serde.encoded_rows import Unwritable
from spark_streamlog.serde.protobuf_descriptor import message_descriptor
from spark_streamlog.serde.protobuf_scalars import is_wrapper, scalar_writer, time_writer

SCALARS = message_descriptor(DESCRIPTOR_SET, "house.Scalars").fields_by_name
ALL = message_descriptor(DESCRIPTOR_SET, "house.All").fields_by_name
TYPES = {
    "bool": pa.bool_(), "int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64(),
    "float": pa.float32(), "double": pa.float64(), "string": pa.string(), "binary": pa.binary(),
    "decimal": pa.decimal128(20, 0), "date": pa.date32(),
}  # fmt: skip
NARROW = {"int8", "int16", "int32"}
TAKEN = {
    "f_bool": {"bool"}, "f_double": {"float", "double"}, "f_float": {"float"}, "f_string": {"string"},
    "f_bytes": {"binary"},
    **dict.fromkeys(("f_int32", "f_sint32", "f_sfixed32"), NARROW),
    **dict.fromkeys(("f_int64", "f_sint64", "f_sfixed64"), NARROW | {"int64"}),
    **dict.fromkeys(("f_uint32", "f_fixed32"), NARROW | {"int64"}),
    **dict.fromkeys(("f_uint64", "f_fixed64"), NARROW | {"int64", "decimal"}),
}  # fmt: skip


@pytest.mark.parametrize("name", TAKEN)
def test_each_field_accepts_the_columns_that_fit(name):
    assert {word for word, kind in TYPES.items() if scalar_writer(SCALARS[name], kind, name)} == TAKEN[name]


@pytest.mark.parametrize(
    ("name", "number", "bits"), [("f_uint32", -1, 2**32 - 1), ("f_fixed32", -(2**31), 2**31), ("f_uint32", 5, 5)]
)
def test_unsigned_numbers_have_the_bits_of_signed_ones(name, number, bits):
    write = scalar_writer(SCALARS[name], pa.int32(), name)
    assert write(pa.array([number, None], pa.int32())) == [bits, None]


def test_enums_are_written_by_name_and_by_number():
    assert scalar_writer(ALL["color"], pa.string(), "color")(pa.array(["RED", None])) == [1, None]
    assert scalar_writer(ALL["color"], pa.int32(), "color")(pa.array([1], pa.int32())) == [1]
    assert scalar_writer(ALL["color"], pa.int64(), "color") is None
    with pytest.raises(Unwritable, match=r"color is 'BLUE', which the enum house\.Color does not have"):
        scalar_writer(ALL["color"], pa.string(), "color")(pa.array(["BLUE"]))


@pytest.mark.parametrize(
    ("micros", "parts"),
    [(0, (0, 0)), (-1, (-1, 999_999_000)), (1_500_000, (1, 500_000_000)), (-1_500_000, (-2, 500_000_000))],
)
def test_nanoseconds_of_a_timestamp_before_1970_count_forward(micros, parts):
    write = time_writer(ALL["at"].message_type, pa.timestamp("us", "UTC"))
    (found,) = write(pa.array([micros], pa.timestamp("us", "UTC")))
    assert (found.seconds, found.nanos) == parts


@pytest.mark.parametrize(
    ("micros", "parts"), [(-1, (0, -1000)), (-1_500_000, (-1, -500_000_000)), (-2_000_000, (-2, 0)), (5, (0, 5000))]
)
def test_both_parts_of_a_duration_have_the_same_sign(micros, parts):
    write = time_writer(ALL["took"].message_type, pa.duration("us"))
    (found, null) = write(pa.array([micros, None], pa.duration("us")))
    assert (found.seconds, found.nanos, null) == (*parts, None)


def test_times_are_only_written_to_their_messages():
    assert time_writer(ALL["took"].message_type, pa.timestamp("us", "UTC")) is None
    assert time_writer(ALL["inner"].message_type, pa.timestamp("us", "UTC")) is None
    assert is_wrapper(ALL["maybe"].message_type)
    assert not is_wrapper(ALL["inner"].message_type)
