"""Columns of structs to Protobuf, read back by Google's runtime with its own descriptors."""

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builders.protobuf_messages import DESCRIPTOR_SET, message_class
from support.runs.examples import examples

from spark_streamlog.serde.protobuf_decoder import ProtobufDecoder
from spark_streamlog.serde.protobuf_descriptor import message_descriptor
from spark_streamlog.serde.protobuf_encoder import ProtobufEncoder
from spark_streamlog.serde.protobuf_options import ProtobufOptions
from spark_streamlog.serde.serde_errors import CannotSerializeError, InvalidSchemaError

All, Scalars, Old = message_class("house.All"), message_class("house.Scalars"), message_class("old.Old")
INNER = pa.struct([("x", pa.int32()), ("names", pa.list_(pa.string()))])


def encoder(message, arrow_type, **more):
    return ProtobufEncoder(message_descriptor(DESCRIPTOR_SET, message), arrow_type, **more)


def encode(message, rows, *fields):
    arrow_type = pa.struct(list(fields))
    return encoder(message, arrow_type).encode(pa.array(rows, arrow_type)).to_pylist()


def test_googles_runtime_reads_every_written_type():
    expected = All(color=1, colors=[0, 1], numbers=[1, -2], counts={5: 1}, that="", optional=0)
    expected.inner.x = 4
    expected.inners.add(names=["a"])
    expected.by_name["k"].names.append("n")
    expected.at.seconds, expected.at.nanos = -2, 999_999_000
    expected.took.seconds, expected.took.nanos = -1, -500_000_000
    expected.maybe.value = 7
    row = {
        "color": "RED",
        "colors": ["BLACK", "RED"],
        "numbers": [1, -2],
        "counts": [(5, "RED")],
        "that": "",
        "optional": 0,
        "inner": {"x": 4},
        "inners": [{"names": ["a"]}],
        "by_name": [("k", {"names": ["n"]})],
        "at": datetime.datetime(1969, 12, 31, 23, 59, 58, 999999, tzinfo=datetime.UTC),
        "took": datetime.timedelta(seconds=-1.5),
        "maybe": {"value": 7},
    }
    arrow_type = ProtobufDecoder(message_descriptor(DESCRIPTOR_SET, "All"), ProtobufOptions()).arrow_type
    values = encoder("All", arrow_type).encode(pa.array([row, None, {}], arrow_type)).to_pylist()
    assert All.FromString(values[0]) == expected
    assert values[1:] == [None, b""]


def test_narrower_types_enum_numbers_and_plain_values_for_wrappers_are_written():
    (value,) = encode(
        "All",
        [{"color": 1, "maybe": 3, "OPTIONAL": 5}],
        ("color", pa.int32()),
        ("maybe", pa.int16()),
        ("OPTIONAL", pa.int8()),
    )
    assert All.FromString(value) == _with_wrapper(All(color=1, optional=5), 3)
    (value,) = encode("Scalars", [{"f_int64": 5, "f_double": 1.5}], ("f_int64", pa.int32()), ("f_double", pa.float32()))
    assert Scalars.FromString(value) == Scalars(f_int64=5, f_double=1.5)


def _with_wrapper(message, value):
    message.maybe.value = value
    return message


def test_unsigned_numbers_are_written_from_bits_and_from_wider_types():
    fields = [
        ("f_uint32", pa.int32()),
        ("f_uint64", pa.int64()),
        ("f_fixed32", pa.int64()),
        ("f_fixed64", pa.decimal128(20, 0)),
    ]
    row = {"f_uint32": -1, "f_uint64": -1, "f_fixed32": 2**32 - 1, "f_fixed64": Decimal(2**64 - 1)}
    (value,) = encode("Scalars", [row], *fields)
    assert Scalars.FromString(value) == Scalars(
        f_uint32=2**32 - 1, f_uint64=2**64 - 1, f_fixed32=2**32 - 1, f_fixed64=2**64 - 1
    )


@examples(50)
@given(
    st.lists(
        st.none()
        | st.fixed_dictionaries(
            {
                "numbers": st.none() | st.lists(st.integers(-(2**31), 2**31 - 1), max_size=3),
                "inner": st.none()
                | st.fixed_dictionaries(
                    {"x": st.none() | st.integers(1, 9), "names": st.lists(st.text(max_size=3), max_size=2)}
                ),
                "by_name": st.none()
                | st.dictionaries(
                    st.text(max_size=2),
                    st.fixed_dictionaries({"x": st.integers(1, 9), "names": st.just([])}),
                    max_size=2,
                ),
            }
        ),
        max_size=5,
    ),
    st.integers(0, 3),
)
def test_rows_and_slices_round_trip(rows, start):
    arrow_type = pa.struct(
        [("numbers", pa.list_(pa.int32())), ("inner", INNER), ("by_name", pa.map_(pa.string(), INNER))]
    )
    rows = [
        row and {**row, "by_name": sorted(row["by_name"].items()) if row["by_name"] else row["by_name"] and []}
        for row in rows
    ]
    column = pa.array(rows, arrow_type)[start:]
    values = encoder("All", arrow_type).encode(column)
    decoder = ProtobufDecoder(message_descriptor(DESCRIPTOR_SET, "All"), ProtobufOptions())
    back = decoder.decode(values)
    assert back.faults == {}
    for expected, found in zip(column.to_pylist(), back.column.to_pylist(), strict=True):
        if expected is None:
            assert found is None
        else:
            assert found["numbers"] == (expected["numbers"] or [])
            assert found["inner"] == expected["inner"]
            assert sorted(found["by_name"], key=str) == sorted(expected["by_name"] or [], key=str)


def test_each_value_is_prefixed_with_the_schema_id_and_message_indexes():
    arrow_type = pa.struct([("x", pa.int32())])
    values = encoder("house.All.Inner", arrow_type, schema_id=5).encode(pa.array([{"x": 1}], arrow_type))
    assert values.to_pylist() == [b"\0\0\0\0\5" + b"\4\2\0" + b"\x08\1"]
    scalars = pa.struct([("f_int32", pa.int32())])
    values = encoder("Scalars", scalars, schema_id=5).encode(pa.array([{"f_int32": 1}], scalars))
    assert values.to_pylist() == [b"\0\0\0\0\5\0" + Scalars(f_int32=1).SerializeToString()]


@pytest.mark.parametrize(
    ("message", "field", "rows", "reason"),
    [
        (
            "All",
            ("color", pa.string()),
            ["RED", None, "BLUE"],
            "color is 'BLUE', which the enum house.Color does not have",
        ),
        ("All", ("numbers", pa.list_(pa.int32())), [[1], None, [1, None]], "numbers has an element that is null"),
        (
            "All",
            ("counts", pa.map_(pa.int64(), pa.string())),
            [[], None, [(1, None)]],
            "counts has an element that is null",
        ),
        ("Scalars", ("f_uint32", pa.int64()), [0, None, 2**32], "house.Scalars"),
        ("Scalars", ("f_uint64", pa.decimal128(20, 0)), [0, None, Decimal(-1)], "house.Scalars"),
        ("Old", ("id", pa.int32()), [1, 2, None], "id is null, but it is required"),
    ],
)
def test_the_error_names_the_row_that_does_not_fit(message, field, rows, reason):
    with pytest.raises(CannotSerializeError) as error:
        encode(message, [{field[0]: row} for row in rows], field)
    assert error.value.fields["row"] == 2
    assert reason in error.value.fields["reason"]


def test_two_members_of_a_oneof_are_refused():
    with pytest.raises(CannotSerializeError, match="only one of this, that can be set"):
        encode("All", [{"this": 0, "that": "x"}], ("this", pa.int32()), ("that", pa.string()))


@pytest.mark.parametrize(
    ("message", "arrow_type", "said"),
    [
        ("All", pa.int32(), "a message can only be written from a struct"),
        ("All", pa.struct([("nothing", pa.int32())]), "the message has no field nothing"),
        ("All", pa.struct([("this", pa.int32()), ("THIS", pa.int32())]), "the message has no field THIS"),
        ("All", pa.struct([("numbers", pa.int32())]), "a repeated field can only be written from an array"),
        ("All", pa.struct([("counts", pa.list_(pa.int32()))]), "a map field can only be written from a map"),
        ("All", pa.struct([("inner", pa.struct([("x", pa.string())]))]), "inner.x of the type string"),
        ("All", pa.struct([("at", pa.int64())]), "at of the type int64"),
        ("All", pa.struct([("color", pa.int64())]), "color of the type int64"),
        ("Scalars", pa.struct([("f_int32", pa.int64())]), "f_int32 of the type int64"),
        ("Scalars", pa.struct([("f_float", pa.float64())]), "f_float of the type double"),
        ("Scalars", pa.struct([("f_string", pa.binary())]), "f_string of the type binary"),
        ("Old", pa.struct([("name", pa.string())]), "the column has no field id, which is required"),
    ],
)
def test_columns_that_do_not_fit_are_refused(message, arrow_type, said):
    with pytest.raises(InvalidSchemaError, match=said):
        encoder(message, arrow_type)
