"""Records as text, JSON and full lines."""

import json

import pyarrow as pa

from broker_core.cli.record_text import escaped_values, full_lines, json_lines, raw_values
from broker_core.model.identifiers import TopicPartition

WHERE = TopicPartition("t", 3)
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def a_batch(values, *, keys=None, headers=None):
    count = len(values)
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array(keys or [None] * count, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "offset": pa.array(range(10, 10 + count), pa.int64()),
            "timestamp": pa.array([1_700_000_000_123_000] * count, pa.timestamp("us", "UTC")),
            "headers": pa.array(headers or [None] * count, HEADERS),
        }
    )


def test_text_output_is_the_raw_bytes_per_line_and_null_as_a_word():
    batch = a_batch([b"a", b"\xff\x00", b"", None, "\u00e4".encode()])
    assert bytes(raw_values(WHERE, batch)) == b"a\n\xff\x00\n\nnull\n\xc3\xa4\n"


def test_text_of_a_slice_has_only_its_rows():
    assert bytes(raw_values(WHERE, a_batch([b"a", b"b", b"c", b"d"]).slice(1, 2))) == b"b\nc\n"


def test_text_of_no_rows_is_empty():
    assert bytes(raw_values(WHERE, a_batch([]))) == b""


def test_control_characters_and_invalid_bytes_are_escaped_on_a_terminal():
    assert escaped_values(WHERE, a_batch([b"\x1b[2Jx", b"\xff", "\u00e4".encode()])) == "\\x1b[2Jx\n\\xff\nä\n".encode()


def test_json_is_exact_with_base64_for_invalid_utf8():
    batch = a_batch(
        [b"v", b"\xff", None],
        keys=[None, b"", b"k"],
        headers=[[], [{"key": "h", "value": b"\xfe"}, {"key": "h", "value": None}], None],
    )
    first, second, third = (json.loads(line) for line in json_lines(WHERE, batch).splitlines())
    assert first == {
        "topic": "t", "partition": 3, "offset": 10, "timestamp": 1_700_000_000_123,
        "key": None, "value": "v", "headers": [],
    }  # fmt: skip
    assert second["value_base64"] == "/w=="
    assert second["key"] == ""
    assert second["headers"] == [{"key": "h", "value_base64": "/g=="}, {"key": "h", "value": None}]
    assert third["value"] is None
    assert "headers" not in third


def test_full_shows_every_field_on_one_line():
    batch = a_batch([b"two\nlines"], keys=[b"k"], headers=[[{"key": "h", "value": b"1"}]])
    assert (
        full_lines(WHERE, batch)
        == b"t-3 offset=10 time=2023-11-14T22:13:20.123Z key=k headers[h=1] value=two\\nlines\n"
    )
