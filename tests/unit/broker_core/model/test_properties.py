import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.model.properties import parse_properties


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("a=1\nb = 2 \n", {"a": "1", "b": "2 "}),
        ("# no\n  ! no\n\n \t\na=1", {"a": "1"}),
        ("a:1\nb 2\nc\nd=\n", {"a": "1", "b": "2", "c": "", "d": ""}),
        ("a=b=c:d e", {"a": "b=c:d e"}),
        ("a=1\na=2", {"a": "2"}),
        ("a = one \\\n    two\\\n\tthree\nb=1", {"a": "one twothree", "b": "1"}),
        ("a=x\\\\\nb=1", {"a": "x\\", "b": "1"}),
        ("a\\ b\\=c=\\u00fc\\n\\q", {"a b=c": "ü\nq"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=\\u12", {"a": "u12"}),
        ("a=1\\", {"a": "1"}),
        ("a=one\\\n#not a comment", {"a": "one#not a comment"}),
    ],
)
def test_properties_are_parsed_like_java(text, found):
    assert parse_properties(text) == found


@given(st.text())
def test_every_text_is_valid_properties(text):
    parse_properties(text)


@given(st.dictionaries(st.text("abc.-_", min_size=1), st.text("xyz =:#!0'\"", min_size=1).map(str.strip), max_size=5))
def test_simple_entries_round_trip(entries):
    assert parse_properties("\n".join(f"{name}={value}" for name, value in entries.items())) == entries
