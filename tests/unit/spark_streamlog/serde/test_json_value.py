"""One JSON text at a time: what fits a type and what does not."""

import datetime
import math
from decimal import Decimal

import pyarrow as pa
import pytest

from spark_streamlog.serde.decoded_values import Unreadable
from spark_streamlog.serde.json_value import check_json, converter, parse_json
from spark_streamlog.serde.serde_errors import InvalidSchemaError
from spark_streamlog.serde.spark_type_text import parse_spark_type

UTC = datetime.UTC


def read(type_text, value):
    arrow_type = parse_spark_type(type_text)
    return pa.array([converter(arrow_type)(parse_json(value))], arrow_type)[0].as_py()


@pytest.mark.parametrize(
    ("type_text", "value", "expected"),
    [
        ("boolean", b"true", True),
        ("tinyint", b"-128", -128),
        ("bigint", b"9223372036854775807", 2**63 - 1),
        ("double", b"1", 1.0),
        ("double", b"-1.5e3", -1500.0),
        ("double", b'"-Infinity"', -math.inf),
        ("float", b"0.5", 0.5),
        (
            "decimal(38,18)",
            b"12345678901234567890.123456789012345678",
            Decimal("12345678901234567890.123456789012345678"),
        ),
        ("decimal(5,2)", b'"123.450"', Decimal("123.45")),
        ("decimal(5,2)", b"1e2", Decimal("100.00")),
        ("decimal(5,2)", b"0e99", Decimal("0.00")),
        ("decimal(38,0)", b"99999999999999999999999999999999999999", Decimal("9" * 38)),
        ("string", b'"a\\u0000\\ud83d\\ude00"', "a\0\U0001f600"),
        ("binary", b'"/w=="', b"\xff"),
        ("date", b'"2024-02-29"', datetime.date(2024, 2, 29)),
        (
            "timestamp",
            b'"2024-02-29T12:00:00.123456+05:45"',
            datetime.datetime(2024, 2, 29, 6, 15, 0, 123456, tzinfo=UTC),
        ),
        ("timestamp", b'"2024-02-29 12:00:00"', datetime.datetime(2024, 2, 29, 12, tzinfo=UTC)),
        ("timestamp", b'"2024-02-29"', datetime.datetime(2024, 2, 29, tzinfo=UTC)),
        ("timestamp", b'"0001-01-01T00:00:00Z"', datetime.datetime(1, 1, 1, tzinfo=UTC)),
        ("timestamp_ntz", b'"2024-02-29T12:00:00"', datetime.datetime(2024, 2, 29, 12)),
        ("array<int>", b"[1, null]", [1, None]),
        ("map<string,int>", b'{"a":1,"b":null}', [("a", 1), ("b", None)]),
        ("a INT, b STRING", b' {"b":"x","c":[{}]} ', {"a": None, "b": "x"}),
        ("a INT", b'{"a":1,"a":2}', {"a": 2}),
        ("a INT", b"null", None),
    ],
)
def test_a_json_value_that_fits_its_type_is_converted(type_text, value, expected):
    assert read(type_text, value) == expected


@pytest.mark.parametrize(
    ("type_text", "value", "reason"),
    [
        ("boolean", b"1", "expected true or false, found the number 1"),
        ("tinyint", b"128", "128 does not fit 8 bits"),
        ("int", b"1.0", "expected a whole number, found the number 1.0"),
        ("int", b"1e3", "expected a whole number, found the number 1e3"),
        ("int", b"true", "expected a whole number, found true"),
        ("int", b'"1"', "expected a whole number, found the text '1'"),
        ("bigint", b"9223372036854775808", "does not fit 64 bits"),
        ("double", b'"1"', "expected a number, found the text '1'"),
        ("double", b"1e999", "too large for a double"),
        ("double", b"9" * 400, "too large for a double"),
        ("double", b"9" * 5000, "not JSON: Exceeds the limit"),
        ("double", b"true", "expected a number, found true"),
        ("decimal(5,2)", b"1.234", "1.234 does not fit decimal(5,2)"),
        ("decimal(5,2)", b"1234", "1234 does not fit decimal(5,2)"),
        ("decimal(5,2)", b'"NaN"', "expected a decimal number"),
        ("decimal(5,2)", b'" 1"', "expected a decimal number"),
        ("decimal(5,2)", b'"1_0"', "expected a decimal number"),
        ("string", b"1", "expected text, found the number 1"),
        ("string", b"1.5", "expected text, found the number 1.5"),
        ("string", b"{}", "expected text, found an object"),
        ("string", b'"\\ud800"', "half of a surrogate pair"),
        ("binary", b'"\xc3\xa9"', "expected base64"),
        ("binary", b'"abc"', "expected base64"),
        ("date", b'"2023-02-29"', "expected a date"),
        ("timestamp", b'"yesterday"', "expected a time"),
        ("timestamp", b"5", "expected text, found the number 5"),
        ("timestamp", b'"0001-01-01T00:00:00+14:00"', ""),
        ("timestamp_ntz", b'"2024-02-29T12:00:00Z"', "expected a time without a zone"),
        ("array<int>", b"{}", "expected an array, found an object"),
        ("map<string,int>", b"[]", "expected an object, found an array"),
        ("a STRUCT<b: ARRAY<INT>>", b'{"a":{"b":["x"]}}', "field a.b: expected a whole number"),
        ("a INT", b"", "not JSON: the text is empty"),
        ("a INT", b" \n", "not JSON: the text is empty"),
        ("a INT", b"{", "not JSON"),
        ("a INT", b"{} {}", "not JSON: Extra data"),
        ("a INT", b'{"b":NaN}', "not JSON: NaN is not a JSON number"),
        ("a INT", b"\xff", "not UTF-8"),
        ("a INT", b"\xef\xbb\xbf{}", "not JSON"),
        ("a INT", b"[" * 200_000, "nested too deep"),
    ],
)
def test_a_json_value_that_does_not_fit_is_corrupt_with_a_reason(type_text, value, reason):
    if reason:
        with pytest.raises(Unreadable) as error:
            read(type_text, value)
        assert reason in str(error.value)
    else:
        # Before the year 1 in UTC: Spark has no such time to print, but the instant is one.
        assert converter(parse_spark_type(type_text))(parse_json(value)) == -62135596800_000_000 - 14 * 3600_000_000


def test_a_text_without_a_schema_is_only_checked():
    assert check_json(b' {"a": 1.50} ') == ' {"a": 1.50} '
    for value in (b"", b"{", b'"\\udc00"', b"{}x"):
        with pytest.raises(Unreadable):
            check_json(value)


@pytest.mark.parametrize("arrow_type", [pa.duration("us"), pa.map_(pa.int32(), pa.int32()), pa.time64("ns"), pa.null()])
def test_types_that_json_cannot_represent_are_refused(arrow_type):
    with pytest.raises(InvalidSchemaError):
        converter(arrow_type)
