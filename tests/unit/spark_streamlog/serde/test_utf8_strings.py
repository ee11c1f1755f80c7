import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_streamlog.serde.serde_errors import InvalidSchemaError
from spark_streamlog.serde.utf8_strings import StringDecoder, StringEncoder


def test_bytes_equal_those_of_kafkas_string_serializer():
    # StringSerializer of kafka-clients 4.3.1
    assert bytes.fromhex("6772c3b6c39f6520f09f8e88").decode() == "größe 🎈"
    found = StringDecoder().decode(pa.array([bytes.fromhex("6772c3b6c39f6520f09f8e88"), b"", None]))
    assert found.column.to_pylist() == ["größe 🎈", "", None]
    assert found.faults == {}


def test_valid_text_is_not_copied():
    values = pa.array([b"abc", b"def"])
    assert StringDecoder().decode(values).column.buffers()[2].address == values.buffers()[2].address


@given(st.lists(st.none() | st.binary(max_size=6), max_size=200))
def test_each_row_is_valid_exactly_if_python_decodes_it(values):
    found = StringDecoder().decode(pa.array(values, pa.binary()))
    for row, value in enumerate(values):
        try:
            expected = None if value is None else value.decode()
        except UnicodeDecodeError:
            expected = None
            assert found.faults[row].startswith("not UTF-8")
        else:
            assert row not in found.faults
        assert found.column[row].as_py() == expected


def test_one_corrupt_row_does_not_affect_others():
    values = [b"x"] * 5000
    values[3210] = b"\xff"
    found = StringDecoder().decode(pa.array(values))
    assert found.column.null_count == 1
    assert found.faults == {3210: "not UTF-8: invalid start byte at byte 0"}


def test_the_encoder_returns_text_unchanged_and_refuses_other_columns():
    column = pa.array(["a", None])
    assert StringEncoder(pa.string()).encode(column) is column
    with pytest.raises(InvalidSchemaError, match="int32 cannot be written as string"):
        StringEncoder(pa.int32())
