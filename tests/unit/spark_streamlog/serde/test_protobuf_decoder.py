"""Protobuf values to columns, against messages that Google's runtime made."""

import datetime
import struct
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builders.protobuf_messages import DESCRIPTOR_SET, SCALARS, message_class
from support.runs.examples import examples

from spark_streamlog.serde.confluent_wire import header, message_indexes
from spark_streamlog.serde.protobuf_decoder import ProtobufDecoder
from spark_streamlog.serde.protobuf_descriptor import message_descriptor
from spark_streamlog.serde.protobuf_options import ProtobufOptions

All, Scalars, Old = message_class("house.All"), message_class("house.Scalars"), message_class("old.Old")
UTC = datetime.UTC


def decode(message, *values, is_wire_format=False, **options):
    decoder = ProtobufDecoder(
        message_descriptor(DESCRIPTOR_SET, message), ProtobufOptions(**options), is_wire_format=is_wire_format
    )
    found = decoder.decode(pa.array(values, pa.binary()))
    found.column.validate(full=True)
    assert found.column.type == decoder.arrow_type
    return found


def rows(message, *messages, **options):
    found = decode(message, *(m and m.SerializeToString() for m in messages), **options)
    assert found.faults == {}
    return found.column.to_pylist()


def test_a_field_that_is_not_set_is_null_as_in_spark():
    (row,) = rows("Scalars", Scalars())
    assert set(row.values()) == {None}
    (row,) = rows("All", All())
    assert {name for name, value in row.items() if value == []} == {"colors", "inners", "numbers", "by_name", "counts"}
    assert {value for value in row.values() if value != []} == {None}


def test_proto3_zeros_are_null_unless_defaults_are_emitted():
    zeros = Scalars(f_int32=0, f_string="", f_bool=False, f_double=0.0)
    assert set(rows("Scalars", zeros)[0].values()) == {None}
    (row,) = rows("Scalars", zeros, emits_defaults=True)
    assert (row["f_int32"], row["f_string"], row["f_bool"], row["f_double"], row["f_bytes"]) == (0, "", False, 0.0, b"")
    (row,) = rows("All", All(optional=0, that=""), emits_defaults=True)
    assert (row["optional"], row["that"], row["this"], row["inner"], row["color"]) == (0, "", None, None, "BLACK")


def test_lists_maps_enums_times_and_messages_are_decoded():
    message = All(color=1, colors=[0, 1, 5], numbers=[1, -2], counts={-5: 1}, this=3, optional=0)
    message.inner.x = 4
    message.inners.add(names=["a", ""])
    message.by_name["k"].x = 9
    message.at.seconds, message.at.nanos = -1, 999_999_999
    message.took.seconds, message.took.nanos = -1, -500_000_999
    message.maybe.value = 0
    (row, null) = rows("All", message, None)
    assert null is None
    assert row == {
        "color": "RED", "colors": ["BLACK", "RED", "UNKNOWN_ENUM_VALUE_Color_5"], "inner": {"x": 4, "names": []},
        "inners": [{"x": None, "names": ["a", ""]}], "numbers": [1, -2], "by_name": [("k", {"x": 9, "names": []})],
        "counts": [(-5, "RED")], "at": datetime.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        "took": datetime.timedelta(seconds=-1, microseconds=-500_000), "maybe": {"value": None}, "this": 3,
        "that": None, "optional": 0,
    }  # fmt: skip
    assert rows("All", message, enums_as_ints=True, unwraps_wrappers=True)[0]["colors"] == [0, 1, 5]
    assert rows("All", message, unwraps_wrappers=True)[0]["maybe"] == 0


def test_proto2_fields_have_defaults_and_presence():
    (row,) = rows("Old", Old(id=0))
    assert row == {"id": 0, "name": None, "size": 7, "kind": None}
    (row,) = rows("Old", Old(id=1, name="", size=0, kind=2))
    assert row == {"id": 1, "name": "", "size": 0, "kind": "TWO"}


def test_unsigned_numbers_keep_their_bits_or_are_upcast():
    message = Scalars(f_uint32=2**32 - 1, f_uint64=2**64 - 1, f_fixed32=2**31, f_fixed64=2**63)
    (row,) = rows("Scalars", message)
    assert [row[name] for name in ("f_uint32", "f_uint64", "f_fixed32", "f_fixed64")] == [-1, -1, -(2**31), -(2**63)]
    (row,) = rows("Scalars", message, upcasts_unsigned=True)
    assert (row["f_uint32"], row["f_uint64"]) == (2**32 - 1, Decimal(2**64 - 1))


VALUES = {
    "f_double": st.floats(allow_nan=False), "f_float": st.floats(width=32, allow_nan=False), "f_bool": st.booleans(),
    "f_string": st.text(max_size=5), "f_bytes": st.binary(max_size=5),
    **dict.fromkeys(("f_int32", "f_sint32", "f_sfixed32"), st.integers(-(2**31), 2**31 - 1)),
    **dict.fromkeys(("f_int64", "f_sint64", "f_sfixed64"), st.integers(-(2**63), 2**63 - 1)),
    **dict.fromkeys(("f_uint32", "f_fixed32"), st.integers(0, 2**31 - 1)),
    **dict.fromkeys(("f_uint64", "f_fixed64"), st.integers(0, 2**63 - 1)),
}  # fmt: skip


@examples(60)
@given(st.lists(st.none() | st.fixed_dictionaries({}, optional=VALUES), max_size=4))
def test_any_scalars_round_trip(given_rows):
    found = rows("Scalars", *(None if row is None else Scalars(**row) for row in given_rows))
    expected = [
        None if row is None else {name: row.get(name) if row.get(name) else None for name in SCALARS}
        for row in given_rows
    ]
    assert found == expected


@examples(100)
@given(st.lists(st.binary(max_size=20), max_size=6))
def test_any_bytes_give_a_column_and_reasons_for_corrupt_rows(values):
    good = All(color=1, numbers=[5]).SerializeToString()
    found = decode("All", *values, good)
    assert len(found.column) == len(values) + 1
    assert found.column[-1].as_py()["numbers"] == [5]
    for row in found.faults:
        assert found.column[row].as_py() is None


@pytest.mark.parametrize(
    ("message", "value", "reason"),
    [
        ("All", b"\x0a", "not a house.All"),
        ("All", b"\xff" * 12, "not a house.All"),
        ("Scalars", b"\x4a\x01\xff", "not a house.Scalars, or its text is not UTF-8"),
        ("Scalars", b"\x4a\xff\xff\xff\xff\x07", "not a house.Scalars"),
        ("Scalars", b"\x08\x01", "field f_double (1) was written as another type"),
        ("Old", b"\x08\x01\x20\x09", "field kind (4) was written as another type"),
        ("Old", b"", "a required field is missing: id"),
        ("All", b"\x42\x0b\x08" + b"\xff" * 8 + b"\x3f\x10\x00"[:2], "not a house.All"),
    ],
)
def test_bytes_that_are_not_a_message_are_corrupt(message, value, reason):
    found = decode(message, value)
    assert reason in found.faults[0]
    assert found.column.to_pylist() == [None]


def test_fields_that_the_descriptor_lacks_are_ignored():
    assert (
        rows("Scalars", Scalars(f_int32=5))[0]
        == decode("Scalars", Scalars(f_int32=5).SerializeToString() + b"\xf8\x3f\1").column[0].as_py()
    )


def test_packed_and_unpacked_numbers_are_equal():
    packed, unpacked = b"\x2a\x02\x01\x02", b"\x28\x01\x28\x02"
    assert [row["numbers"] for row in decode("All", packed, unpacked).column.to_pylist()] == [[1, 2], [1, 2]]


def test_times_beyond_microseconds_are_corrupt_and_do_not_affect_other_rows():
    late, fine = All(), All()
    late.at.seconds = 2**62
    fine.at.seconds = 253402300799
    inside = [message.SerializeToString() for message in (fine, late, fine)]
    found = decode("All", *inside * 50)
    assert list(found.faults) == list(range(1, 150, 3))
    assert found.faults[1] == f"field at: {2**62} seconds do not fit into microseconds of 64 bits"
    assert found.column[2].as_py()["at"] == datetime.datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


def test_the_runtime_bounds_depth():
    deep = b""
    for _ in range(300):
        deep = b"\x0a" + struct.pack("B", len(deep) & 0x7F | 0x80) + struct.pack("B", len(deep) >> 7) + deep
    found = decode("Event", deep, b"\x0a\x80\x80\x80\x80\x08")
    assert sorted(found.faults) == [0, 1]


def test_message_indexes_must_identify_the_expected_message():
    content = All(this=5).SerializeToString()
    values = [header(7) + message_indexes(path) + content for path in ((1,), (0,), (1, 0), (44,))]
    found = decode("All", *values, header(7), b"\1", None, is_wire_format=True)
    assert found.column[0].as_py()["this"] == 5
    assert found.faults == {
        1: "the message at [0] is house.Scalars, not house.All",
        2: "the message at [1, 0] is house.All.Inner, not house.All",
        3: "the message at [44] is unknown, not house.All",
        4: "the message indexes are broken",
        5: "the value is too short for a schema id: 1 bytes",
    }
    first = header(7) + b"\0" + Scalars(f_int32=5).SerializeToString()
    assert decode("Scalars", first, is_wire_format=True).column[0].as_py()["f_int32"] == 5
