import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_streamlog.serde.serde_errors import InvalidSchemaError
from spark_streamlog.serde.utf8_strings import StringDecoder, StringEncoder


def test_text_is_what_kafkas_string_serializer_writes():
    # StringSerializer of kafka-clients 4.3.1
    assert bytes.fromhex("6772c3b6c39f6520f09f8e88").decode() == "größe 🎈"
    found = StringDecoder().decode(pa.array([bytes.fromhex("6772c3b6c39f6520f09f8e88"), b"", None]))
    assert found.column.to_pylist() == ["größe 🎈", "", None]
    assert found.faults == {}


def test_healthy_text_is_not_copied():
    values = pa.array([b"abc", b"def"])
    assert StringDecoder().decode(values).column.buffers()[2].address == values.buffers()[2].address


@given(st.lists(st.none() | st.binary(max_size=6), max_size=200))
def test_every_row_is_judged_as_python_judges_it(values):
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


def test_one_bad_row_among_many_costs_no_other():
    values = [b"x"] * 5000
    values[3210] = b"\xff"
    found = StringDecoder().decode(pa.array(values))
    assert found.column.null_count == 1
    assert found.faults == {3210: "not UTF-8: invalid start byte at byte 0"}


def test_the_encoder_passes_text_on_and_refuses_other_columns():
    column = pa.array(["a", None])
    assert StringEncoder(pa.string()).encode(column) is column
    with pytest.raises(InvalidSchemaError, match="int32 cannot be written as string"):
        StringEncoder(pa.int32())
