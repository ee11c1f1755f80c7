from hypothesis import given
from hypothesis import strategies as st

from broker_core.metadata.row_set import RowSet

steps = st.lists(st.tuples(st.booleans(), st.integers(0, 300)), max_size=60)


@given(steps)
def test_it_holds_what_a_set_of_numbers_would_hold(steps):
    rows, expected = RowSet(), set()
    for is_added, row in steps:
        (rows.add if is_added else rows.discard)(row)
        (expected.add if is_added else expected.discard)(row)
    assert list(rows) == sorted(expected)
    assert len(rows) == len(expected)
    assert {row for row in range(320) if row in rows} == expected


def test_a_copy_is_independent():
    rows = RowSet()
    rows.add(7)
    copied = rows.copy()
    rows.add(100)
    copied.discard(7)
    assert (list(rows), list(copied)) == ([7, 100], [])
