import pyarrow as pa

from spark_streamlog.serde.decoded_values import Unreadable, binary_array, decode_by_halves
from spark_streamlog.serde.limits import MAX_REASON_CHARACTERS, SMALL_PIECE_ROWS


def even(value):
    if value[0] % 2:
        raise Unreadable(f"{value[0]} is odd")
    return int(value[0])


def test_a_valid_column_costs_one_bulk_step_and_a_corrupt_row_a_few():
    steps = []

    def bulk(values):
        steps.append(len(values))
        numbers = [None if value is None else value[0] for value in values.to_pylist()]
        return None if any(n is not None and n % 2 for n in numbers) else pa.array(numbers, pa.int64())

    values = [bytes([2])] * 10_000
    assert decode_by_halves(pa.array(values), pa.int64(), bulk=bulk, one=even).faults == {}
    assert steps == [10_000]
    steps.clear()
    values[7777], values[7778], values[3] = bytes([3]), None, bytes([5])
    found = decode_by_halves(pa.array(values), pa.int64(), bulk=bulk, one=even)
    assert found.faults == {3: "3 is odd".replace("3", "5"), 7777: "3 is odd"}
    assert found.column.to_pylist()[7776:7780] == [2, None, None, 2]
    assert len(found.column) == 10_000
    assert len(steps) < 50


def test_small_pieces_are_not_halved():
    steps = []

    def bulk(values):
        steps.append(len(values))

    values = [bytes([2])] * SMALL_PIECE_ROWS
    found = decode_by_halves(pa.array(values), pa.int64(), bulk=bulk, one=even)
    assert found.column.to_pylist() == [2] * SMALL_PIECE_ROWS
    assert steps == [SMALL_PIECE_ROWS]


def test_a_reason_is_bounded_and_contains_the_path():
    error = Unreadable("x" * 1000).within("inner").within("outer")
    assert str(error).startswith("field outer.inner: xxx")
    assert len(str(error)) == MAX_REASON_CHARACTERS
    assert str(Unreadable("x" * MAX_REASON_CHARACTERS)) == "x" * MAX_REASON_CHARACTERS


def test_binary_and_text_arrays_become_narrow_binary():
    for array in (pa.array(["a"]), pa.array([b"a"], pa.large_binary()), pa.chunked_array([[b"a"]])):
        assert binary_array(array).equals(pa.array([b"a"]))
