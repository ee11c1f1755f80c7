"""Parses Spark's types from text without Spark: schemas given as options are read where no JVM runs.

    a INT, b STRUCT<c: STRING, d: ARRAY<DOUBLE>>        DDL: the columns of a struct
    struct<a:int> array<string> map<string,int> bigint   DDL: one type
    {"type":"struct","fields":[…]}                      the result of `df.schema.json()`

Names in backticks may contain any character. NOT NULL and COMMENT '…' are ignored: any value from outside may be null.
The Arrow types are those that Spark uses itself: the element of a list is called `element`, timestamps have
microseconds.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any, Final

import pyarrow as pa

from spark_streamlog.serde.limits import MAX_DECIMAL_PRECISION, MAX_SCHEMA_BYTES, MAX_SCHEMA_DEPTH
from spark_streamlog.serde.serde_errors import InvalidSchemaError

PLAIN_TYPES: Final[dict[str, Any]] = {
    "boolean": pa.bool_(), "tinyint": pa.int8(), "byte": pa.int8(), "smallint": pa.int16(), "short": pa.int16(),
    "int": pa.int32(), "integer": pa.int32(), "bigint": pa.int64(), "long": pa.int64(), "float": pa.float32(),
    "real": pa.float32(), "double": pa.float64(), "string": pa.string(), "binary": pa.binary(), "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"), "timestamp_ltz": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip

_DECIMALS = ("decimal", "dec", "numeric")
_TOKEN = re.compile(r"\s*(`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[\w.]+|[<>(),:])")


def list_of(item: Any) -> Any:
    return pa.list_(pa.field("element", item))


def parse_spark_type(text: str) -> Any:
    """The Arrow type. Raises InvalidSchemaError."""
    if len(text) > MAX_SCHEMA_BYTES:
        raise InvalidSchemaError(f"the schema has {len(text)} characters; the limit is {MAX_SCHEMA_BYTES}")
    if text.lstrip().startswith("{"):
        try:
            return _from_json(json.loads(text), depth=0)
        except (ValueError, RecursionError) as error:
            raise InvalidSchemaError(f"the schema is not JSON: {error}") from None
    return _DdlParser(text).whole()


class _DdlParser:
    def __init__(self, text: str) -> None:
        self._tokens: list[str] = []
        place = 0
        while place < len(text.rstrip()):
            found = _TOKEN.match(text, place)
            if found is None:
                raise InvalidSchemaError(f"the schema cannot be understood at {text[place:].strip()[:20]!r}")
            self._tokens.append(found[1])
            place = found.end()
        self._at = 0

    def whole(self) -> Any:
        if not self._tokens:
            raise InvalidSchemaError("the schema is empty")
        single = self._single_type()
        if single is not None:
            return single
        self._at = 0
        columns = self._fields(end=None, depth=0)
        return pa.struct(columns)

    def _single_type(self) -> Any:
        """None if the text is a list of columns, such as `a INT`, and not one type."""
        following = self._tokens[1] if len(self._tokens) > 1 else None
        if following is None or following in ("<", "("):
            found = self._type(depth=0)
            if self._at == len(self._tokens):
                return found
            raise InvalidSchemaError(f"the schema has {self._tokens[self._at]!r} after its end")
        return None

    def _fields(self, *, end: str | None, depth: int) -> list[Any]:
        fields: list[Any] = []
        while True:
            name = self._next("a column's name")
            name = name[1:-1].replace("``", "`") if name.startswith("`") else name
            if self._peek() == ":":
                self._next(":")
            fields.append(pa.field(name, self._type(depth=depth + 1)))
            self._skip_properties()
            if self._peek() == ",":
                self._next(",")
            elif self._peek() == end:
                if end is not None:
                    self._next(end)
                _refuse_repeated([field.name for field in fields])
                return fields
            else:
                raise InvalidSchemaError(f"the schema has {self._peek()!r} where a comma or an end was expected")

    def _type(self, *, depth: int) -> Any:
        _check_depth(depth)
        word = self._next("a type").lower()
        if word in _DECIMALS:
            return self._decimal()
        if word == "array":
            self._expect("<")
            item = self._type(depth=depth + 1)
            self._expect(">")
            return list_of(item)
        if word == "map":
            self._expect("<")
            key = self._type(depth=depth + 1)
            self._expect(",")
            item = self._type(depth=depth + 1)
            self._expect(">")
            return pa.map_(key, item)
        if word == "struct":
            self._expect("<")
            return pa.struct(self._fields(end=">", depth=depth))
        return _plain_type(word)

    def _decimal(self) -> Any:
        numbers = [10, 0]
        if self._peek() == "(":
            self._next("(")
            numbers = [self._number(), 0]
            if self._peek() == ",":
                self._next(",")
                numbers[1] = self._number()
            self._expect(")")
        return decimal_type(*numbers)

    def _number(self) -> int:
        text = self._next("a number")
        if not re.fullmatch(r"[0-9]{1,4}", text):
            raise InvalidSchemaError(f"the schema has {text!r} where a number was expected")
        return int(text)

    def _skip_properties(self) -> None:
        if (self._peek() or "").lower() == "not":
            self._next("NOT")
            self._expect("null")
        if (self._peek() or "").lower() == "comment":
            self._next("COMMENT")
            self._next("the comment")

    def _expect(self, wanted: str) -> None:
        found = self._next(wanted)
        if found.lower() != wanted:
            raise InvalidSchemaError(f"the schema has {found!r} where {wanted!r} was expected")

    def _peek(self) -> str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _next(self, wanted: str) -> str:
        if self._at == len(self._tokens):
            raise InvalidSchemaError(f"the schema ends where {wanted} was expected")
        self._at += 1
        return self._tokens[self._at - 1]


def decimal_type(precision: int, scale: int) -> Any:
    """Raises InvalidSchemaError for a decimal that Spark does not have."""
    if not 1 <= precision <= MAX_DECIMAL_PRECISION or not 0 <= scale <= precision:
        raise InvalidSchemaError(
            f"decimal({precision},{scale}) does not exist in Spark: the precision is 1 to {MAX_DECIMAL_PRECISION}, "
            "and the scale is at most the precision"
        )
    return pa.decimal128(precision, scale)


def _from_json(found: Any, *, depth: int) -> Any:
    _check_depth(depth)
    if isinstance(found, str):
        numbers = re.fullmatch(r"decimal\((\d{1,4}),\s*(-?\d{1,4})\)", found)
        return decimal_type(int(numbers[1]), int(numbers[2])) if numbers else _plain_type(found.lower())
    try:
        if found["type"] == "struct":
            _refuse_repeated([field["name"] for field in found["fields"]])
            return pa.struct([pa.field(f["name"], _from_json(f["type"], depth=depth + 1)) for f in found["fields"]])
        if found["type"] == "array":
            return list_of(_from_json(found["elementType"], depth=depth + 1))
        if found["type"] == "map":
            return pa.map_(
                _from_json(found["keyType"], depth=depth + 1), _from_json(found["valueType"], depth=depth + 1)
            )
    except (KeyError, TypeError) as error:
        raise InvalidSchemaError(
            f"the schema is not the JSON of a Spark schema (df.schema.json()): {error!r}"
        ) from None
    raise InvalidSchemaError(f"the type {found['type']!r} is not supported")


def _plain_type(word: str) -> Any:
    if word not in PLAIN_TYPES:
        known = ", ".join([*PLAIN_TYPES, "decimal", "array", "map", "struct"])
        raise InvalidSchemaError(f"{word!r} is not a known type; known types are {known}")
    return PLAIN_TYPES[word]


def _check_depth(depth: int) -> None:
    if depth > MAX_SCHEMA_DEPTH:
        raise InvalidSchemaError(f"the schema has more than {MAX_SCHEMA_DEPTH} levels")


def _refuse_repeated(names: list[str]) -> None:
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise InvalidSchemaError(f"the schema names {', '.join(map(repr, repeated))} twice")
