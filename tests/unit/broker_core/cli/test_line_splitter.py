"""Lines as Arrow columns, whatever pieces they come in."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.cli import line_splitter
from broker_core.cli.line_splitter import LineSplitter, split_keys
from broker_core.model.exceptions import InvalidRecordError


def lines_of(*pieces):
    splitter = LineSplitter("standard input")
    found = [line for piece in pieces for line in splitter.receive_data(piece).to_pylist()]
    return found + splitter.finish().to_pylist()


def test_each_newline_ends_a_line_and_empty_lines_count():
    assert lines_of(b"a\n\nb\n") == [b"a", b"", b"b"]


def test_the_last_line_needs_no_newline():
    assert lines_of(b"a\nb") == [b"a", b"b"]


def test_empty_input_has_no_lines():
    assert lines_of() == []
    assert lines_of(b"\n") == [b""]


def test_carriage_returns_and_binary_bytes_are_kept():
    assert lines_of(b"a\r\n\x00\xff\n") == [b"a\r", b"\x00\xff"]


@given(st.lists(st.binary(max_size=5).map(lambda b: b.replace(b"x", b"\n")) | st.just(b"\n"), max_size=20))
def test_lines_do_not_depend_on_the_block_boundaries(pieces):
    whole = b"".join(pieces)
    expected = whole.split(b"\n")
    if expected[-1] == b"":
        expected.pop()
    assert lines_of(*[piece for piece in pieces if piece]) == expected


def test_a_line_above_the_limit_is_refused_by_its_number(monkeypatch):
    monkeypatch.setattr(line_splitter, "MAX_LINE_BYTES", 10)
    assert lines_of(b"first\n", b"x" * 10, b"\n") == [b"first", b"x" * 10]
    with pytest.raises(InvalidRecordError, match="line 2 of standard input has more than 10 bytes"):
        lines_of(b"first\n", b"x" * 10, b"x")


def test_a_line_is_split_at_its_first_separator_and_both_sides_may_be_empty():
    lines = pa.array([b"k:v:w", b":v", b"k:", b"::"], pa.binary())
    keys, values = split_keys(lines, b":", first_line=1, source="lines.txt")
    assert keys.to_pylist() == [b"k", b"", b"k", b""]
    assert values.to_pylist() == [b"v:w", b"v", b"", b":"]


def test_the_error_for_a_line_without_a_separator_has_line_source_and_separator():
    # The separator was shown as b':'.
    with pytest.raises(InvalidRecordError, match=r"^line 12 of lines\.txt has no key separator ':'$"):
        split_keys(pa.array([b"k:v", b"x", b"y"], pa.binary()), b":", first_line=11, source="lines.txt")
