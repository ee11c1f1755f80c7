import pyarrow as pa
import pytest

from spark_streamlog.rows.joined_batches import JOINED_BYTES, JOINED_ROWS, joined


def batch(*values):
    return pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary())})


def rows_of(batches):
    return [value for one in batches for value in one.column("value").to_pylist()]


def test_small_batches_are_joined_in_order():
    (one,) = joined([batch(b"a", None), batch(b"b"), batch(), batch(b"c")])
    assert rows_of([one]) == [b"a", None, b"b", b"c"]


def test_slices_are_joined_without_their_hidden_rows():
    whole = batch(*(b"%d" % number for number in range(10)))
    (one,) = joined([whole.slice(2, 2), whole.slice(8, 1)])
    assert rows_of([one]) == [b"2", b"3", b"8"]


def test_no_batches_give_no_batches():
    assert list(joined([])) == []


@pytest.mark.parametrize("large", [batch(*[b""] * JOINED_ROWS), batch(b"x" * JOINED_BYTES)], ids=["rows", "bytes"])
def test_a_large_batch_is_passed_on_unchanged_and_immediately(large):
    given = iter([large, batch(b"a"), batch(b"b")])
    found = joined(given)
    assert next(found) is large
    assert rows_of(found) == [b"a", b"b"]
