import pyarrow as pa
import pytest

from spark_streamlog.serde.encoded_rows import Unwritable, encode_rows
from spark_streamlog.serde.serde_errors import CannotSerializeError


def write(dense):
    assert not dense.null_count
    if 13 in dense.to_pylist():
        raise Unwritable("thirteen")
    return [bytes([number]) for number in dense.to_pylist()]


def test_null_rows_stay_null_and_are_not_written():
    assert encode_rows(pa.array([1, None, 2]), write).to_pylist() == [b"\1", None, b"\2"]
    assert encode_rows(pa.array([None, 1, 2])[1:], write).to_pylist() == [b"\1", b"\2"]
    assert encode_rows(pa.array([], pa.int64()), write).type == pa.binary()


def test_the_error_names_the_first_row_that_fails():
    with pytest.raises(CannotSerializeError, match="thirteen") as error:
        encode_rows(pa.array([0, 1, None, 13, 13])[1:], write)
    assert error.value.fields == {"row": 2, "reason": "thirteen"}
