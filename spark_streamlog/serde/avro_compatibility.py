"""Checks whether values of one Avro schema can be read as another one, as a registry does before it accepts a version.

The rules are those of Apache Avro's SchemaCompatibility, which Confluent's registry uses: the specification's schema
resolution, decided by the schemas alone, without values.

    int -> long, float, double      long -> float, double      float -> double      string <-> bytes
    record      a reader's field that the writer lacks needs a default; a writer's field may be missing
    enum        the reader has every symbol, or a default
    union       the reader can read every branch of the writer, with one of its own branches if it is a union
    names       compared without namespace, or with the reader's aliases

Logical types are not compared, as in Apache Avro: 5 milliseconds would be read as 5 microseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from spark_streamlog.serde.avro_resolution import PROMOTIONS
from spark_streamlog.serde.limits import MAX_SCHEMA_BYTES, MAX_SCHEMA_DEPTH
from spark_streamlog.serde.serde_errors import InvalidSchemaError

_RECORDS: Final = ("record", "error")


def incompatibility(reader_text: str, writer_text: str) -> str | None:
    """The reason and the place why values written with one schema cannot be read with the other. None if they can.

    Raises InvalidSchemaError if a text is not an Avro schema.
    """
    reader, reader_names = _parsed(reader_text)
    writer, writer_names = _parsed(writer_text)
    return _SchemaPair(reader_names, writer_names).mismatch(reader, writer, "")


def _parsed(text: str) -> tuple[Any, dict[str, Any]]:
    """Returns (the schema with full names, its named types)."""
    from fastavro.schema import SchemaParseException, UnknownType, parse_schema

    if len(text) > MAX_SCHEMA_BYTES:
        raise InvalidSchemaError(f"the Avro schema has {len(text)} characters; the limit is {MAX_SCHEMA_BYTES}")
    named: dict[str, Any] = {}
    try:
        # A text that is not JSON is the name of a type, such as `string`.
        document = json.loads(text) if text.lstrip()[:1] in ('"', "{", "[") else text.strip()
        return parse_schema(document, named_schemas=named), named
    except UnknownType as error:
        raise InvalidSchemaError(f"the Avro schema uses a type that it does not define: {error.name}") from None
    except (SchemaParseException, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise InvalidSchemaError(f"the Avro schema is invalid: {error}") from None


class _SchemaPair:
    """A reader's schema and a writer's, each with its named types."""

    def __init__(self, reader_names: dict[str, Any], writer_names: dict[str, Any]) -> None:
        self._reader_names = reader_names
        self._writer_names = writer_names
        self._begun: set[tuple[str, str]] = set()
        """Pairs of named types whose comparison has begun: a type may contain itself."""

    def mismatch(self, reader: Any, writer: Any, path: str, depth: int = 0) -> str | None:
        if depth > MAX_SCHEMA_DEPTH:
            raise InvalidSchemaError(f"the Avro schema has more than {MAX_SCHEMA_DEPTH} levels, at {path}")
        reader, writer = _resolved(reader, self._reader_names), _resolved(writer, self._writer_names)
        if isinstance(writer, list):
            return _first(self.mismatch(reader, branch, path, depth + 1) for branch in writer)
        if isinstance(reader, list):
            return self._no_branch(reader, writer, path, depth)
        reader_kind, writer_kind = _kind(reader), _kind(writer)
        if reader_kind != writer_kind:
            if reader_kind in PROMOTIONS.get(writer_kind, ()):
                return None
            return f"{_place(path)}: {_shown(writer)} cannot be read as {_shown(reader)}"
        if reader_kind in ("array", "map"):
            inside = "items" if reader_kind == "array" else "values"
            return self.mismatch(reader[inside], writer[inside], f"{path}.{inside}", depth + 1)
        if isinstance(reader, dict) and "name" in reader:
            return self._named_mismatch(reader, writer, path, depth)
        return None

    def _no_branch(self, reader: list[Any], writer: Any, path: str, depth: int) -> str | None:
        for branch in reader:
            begun = set(self._begun)
            if self.mismatch(branch, writer, path, depth + 1) is None:
                return None
            self._begun = begun  # undo the assumptions of a branch that does not fit
        return f"{_place(path)}: no branch of the union can read {_shown(writer)}"

    def _named_mismatch(self, reader: dict[str, Any], writer: dict[str, Any], path: str, depth: int) -> str | None:
        if not _is_named_alike(reader, writer):
            return f"{_place(path)}: {_shown(writer)} cannot be read as {_shown(reader)}: their names differ"
        if reader["type"] == "fixed":
            if reader["size"] != writer["size"]:
                return (
                    f"{_place(path)}: {_shown(writer)} has {writer['size']} bytes and the reader has {reader['size']}"
                )
            return None
        if reader["type"] == "enum":
            return _missing_symbols(reader, writer, path)
        pair = (reader["name"], writer["name"])
        if pair in self._begun:
            return None
        self._begun.add(pair)
        return _first(self._field_mismatch(field, writer, path, depth) for field in reader["fields"])

    def _field_mismatch(self, field: dict[str, Any], writer: dict[str, Any], path: str, depth: int) -> str | None:
        names = (field["name"], *field.get("aliases", ()))
        written = {each["name"]: each for each in writer["fields"]}
        found = next((written[name] for name in names if name in written), None)
        place = f"{path}.{field['name']}"
        if found is not None:
            return self.mismatch(field["type"], found["type"], place, depth + 1)
        if "default" in field:
            return None
        return f"{_place(place)}: the writer does not have the field, and it has no default"


def _resolved(found: Any, names: dict[str, Any]) -> Any:
    while True:
        if isinstance(found, str) and found in names:
            found = names[found]
        elif isinstance(found, dict) and not isinstance(found["type"], str):
            found = found["type"]  # {"type": {"type": …}} means the same as the inner type
        elif isinstance(found, dict) and found["type"] in names:
            found = names[found["type"]]
        else:
            return found


def _kind(found: Any) -> str:
    kind = found if isinstance(found, str) else found["type"]
    return "record" if kind in _RECORDS else str(kind)


def _is_named_alike(reader: dict[str, Any], writer: dict[str, Any]) -> bool:
    if _bare(reader["name"]) == _bare(writer["name"]):
        return True
    namespace = reader["name"].rpartition(".")[0]
    aliases = (
        alias if "." in alias or not namespace else f"{namespace}.{alias}" for alias in reader.get("aliases", ())
    )
    return writer["name"] in aliases


def _bare(name: str) -> str:
    return name.rpartition(".")[2]


def _missing_symbols(reader: dict[str, Any], writer: dict[str, Any], path: str) -> str | None:
    missing = [symbol for symbol in writer["symbols"] if symbol not in reader["symbols"]]
    if not missing or reader.get("default") in reader["symbols"]:
        return None
    return f"{_place(path)}: {_shown(reader)} has no default and lacks {', '.join(missing)}"


def _first(found: Iterable[str | None]) -> str | None:
    return next((each for each in found if each is not None), None)


def _place(path: str) -> str:
    return f"at {path.lstrip('.')}" if path else "at the top"


def _shown(found: Any) -> str:
    return f"{_kind(found)} {found['name']}" if isinstance(found, dict) and "name" in found else _kind(found)
