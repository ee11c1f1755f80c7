"""One JSON text to one Python value of a given type: the slow twin of the bulk reader, which decides uncertain values.

    boolean        true, false                             date           "2024-02-29"
    tinyint … bigint  whole numbers in range, no 1.0, 1e3  timestamp      ISO 8601; without a zone it is UTC
    float, double  numbers, "NaN", "Infinity", "-Infinity"  timestamp_ntz  ISO 8601 without a zone
    decimal        numbers, or the same as text, with no   array          […]
                   more digits than the type has           map            {…}, keys are strings
    string         text                                    struct         {…}: missing is null, unknown is ignored
    binary         base64

null is null for every type. If a name appears twice, the last one counts. A value that does not fit is corrupt as a
whole; nothing is converted silently. (Spark's from_json also accepts numbers for a string, and rounds decimals.)
"""

from __future__ import annotations

import base64
import binascii
import datetime
import json
import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa

from spark_streamlog.serde.decoded_values import Unreadable
from spark_streamlog.serde.serde_errors import InvalidSchemaError
from spark_streamlog.serde.utf8_strings import text_of

Convert = Callable[[Any], Any]

_NOT_FINITE = {
    "NaN": math.nan, "Infinity": math.inf, "+Infinity": math.inf, "INF": math.inf, "+INF": math.inf,
    "-Infinity": -math.inf, "-INF": -math.inf,
}  # fmt: skip
_DECIMAL_TEXT = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)


class _Fraction(str):
    """The text of a JSON number that is not whole, kept until its type is known."""


class _MinusZero(int):
    """-0, which differs from 0 as a double."""


def parse_json(value: bytes) -> Any:
    """Any JSON value; numbers with a point or an exponent stay text of the class _Fraction. Raises Unreadable."""
    text = text_of(value)
    if not text.strip(" \t\n\r"):
        raise Unreadable("not JSON: the text is empty")
    try:
        return json.loads(text, parse_float=_Fraction, parse_int=_whole, parse_constant=_refuse_constant)
    except RecursionError:
        raise Unreadable("not readable as JSON: it is nested too deeply") from None
    except ValueError as error:
        raise Unreadable(f"not JSON: {error}") from None


def check_json(value: bytes) -> str:
    """Returns the text unchanged if it is JSON. Raises Unreadable."""
    try:
        json.dumps(parse_json(value), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise Unreadable("not JSON: half of a surrogate pair") from None
    return value.decode()


def converter(arrow_type: Any) -> Convert:
    """Converts a result of `parse_json` to a value that pyarrow accepts for the type.

    Raises InvalidSchemaError for a type that JSON cannot represent.
    """
    convert = _converter(arrow_type)
    return lambda found: None if found is None else convert(found)


def _converter(arrow_type: Any) -> Convert:
    if pa.types.is_integer(arrow_type):
        return _integer(arrow_type)
    if pa.types.is_decimal(arrow_type):
        return _decimal(arrow_type)
    if pa.types.is_timestamp(arrow_type):
        return _timestamp if arrow_type.tz else _timestamp_without_zone
    if pa.types.is_map(arrow_type):
        return _map(arrow_type)
    if pa.types.is_list(arrow_type):
        return _list(arrow_type)
    if pa.types.is_struct(arrow_type):
        return _struct(arrow_type)
    simple: dict[Any, Convert] = {
        pa.bool_(): lambda found: _of(bool, found, "true or false"),
        pa.float32(): _double,
        pa.float64(): _double,
        pa.string(): _string,
        pa.binary(): _binary,
        pa.date32(): _date,
    }
    if arrow_type not in simple:
        raise InvalidSchemaError(f"the type {arrow_type} cannot be read from JSON")
    return simple[arrow_type]


def _integer(arrow_type: Any) -> Convert:
    bound = 1 << (arrow_type.bit_width - 1)

    def convert(found: Any) -> int:
        number: int = _of(int, found, "a whole number")
        if not -bound <= number < bound:
            raise Unreadable(f"{number} does not fit {arrow_type.bit_width} bits")
        return number

    return convert


def _decimal(arrow_type: Any) -> Convert:
    whole_digits = arrow_type.precision - arrow_type.scale

    def convert(found: Any) -> Decimal:
        if not isinstance(found, int | str) or isinstance(found, bool) or not _DECIMAL_TEXT.fullmatch(str(found)):
            raise _expected("a decimal number", found)
        number = Decimal(found)
        _, digits, exponent = number.as_tuple()
        assert isinstance(exponent, int), "no text of an infinity or a NaN passes the pattern"
        # Not normalize(): it would round to the digits of decimal's context.
        significant = "".join(map(str, digits)).lstrip("0").rstrip("0")
        exponent += len(digits) - len("".join(map(str, digits)).rstrip("0"))
        if significant and (-exponent > arrow_type.scale or len(significant) + exponent > whole_digits):
            raise Unreadable(f"{str(found)[:40]} does not fit decimal({arrow_type.precision},{arrow_type.scale})")
        return number if significant else Decimal(0)

    return convert


def _double(found: Any) -> float:
    if type(found) is str and found in _NOT_FINITE:
        return _NOT_FINITE[found]
    if not isinstance(found, int | _Fraction) or isinstance(found, bool):
        raise _expected("a number", found)
    if isinstance(found, _MinusZero):
        return -0.0
    try:
        number = float(found)
    except OverflowError:
        number = math.inf
    if math.isinf(number):
        raise Unreadable(f"{str(found)[:40]} is too large for a double")
    return number


def _string(found: Any) -> str:
    text: str = _of(str, found, "text")
    if isinstance(text, _Fraction):
        raise _expected("text", text)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Unreadable("half of a surrogate pair") from None
    return text


def _binary(found: Any) -> bytes:
    try:
        return base64.b64decode(_string(found), validate=True)
    except (binascii.Error, ValueError):
        raise _expected("base64", found) from None


def _date(found: Any) -> datetime.date:
    try:
        return datetime.date.fromisoformat(_string(found))
    except ValueError:
        raise _expected("a date as in 2024-02-29", found) from None


def _timestamp(found: Any) -> int:
    moment = _moment(found)
    try:
        moment = moment.replace(tzinfo=datetime.UTC) if moment.tzinfo is None else moment
        return (moment - _EPOCH) // _MICROSECOND
    except OverflowError:
        raise _expected("a time between the years 1 and 9999", found) from None


def _timestamp_without_zone(found: Any) -> int:
    moment = _moment(found)
    if moment.tzinfo is not None:
        raise _expected("a time without a zone", found)
    return (moment - _EPOCH.replace(tzinfo=None)) // _MICROSECOND


def _moment(found: Any) -> datetime.datetime:
    try:
        return datetime.datetime.fromisoformat(_string(found))
    except ValueError:
        raise _expected("a time as in 2024-02-29T12:00:00Z", found) from None


def _list(arrow_type: Any) -> Convert:
    item = converter(arrow_type.value_type)
    return lambda found: [item(one) for one in _of(list, found, "an array")]


def _map(arrow_type: Any) -> Convert:
    if arrow_type.key_type != pa.string():
        raise InvalidSchemaError(f"the keys of a JSON map must be strings, not {arrow_type.key_type}")
    item = converter(arrow_type.item_type)
    return lambda found: [(_string(key), item(one)) for key, one in _of(dict, found, "an object").items()]


def _struct(arrow_type: Any) -> Convert:
    fields = [(field.name, converter(field.type)) for field in arrow_type]

    def convert(found: Any) -> dict[str, Any]:
        given = _of(dict, found, "an object")
        row: dict[str, Any] = {}
        for name, convert_field in fields:
            try:
                row[name] = convert_field(given.get(name))
            except Unreadable as error:
                raise error.within(name) from None
        return row

    return convert


def _of(kind: type, found: Any, wanted: str) -> Any:
    if not isinstance(found, kind) or (isinstance(found, bool) and kind is not bool):
        raise _expected(wanted, found)
    return found


def _expected(wanted: str, found: Any) -> Unreadable:
    if isinstance(found, dict | list):
        shown = "an object" if isinstance(found, dict) else "an array"
    elif type(found) is str:
        shown = f"the text {found[:40]!r}"
    else:
        shown = str(found)[:40].lower() if isinstance(found, bool) else f"the number {str(found)[:40]}"
    return Unreadable(f"expected {wanted}, found {shown}")


def _whole(text: str) -> int:
    return _MinusZero() if text == "-0" else int(text)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")
