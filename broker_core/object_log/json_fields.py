"""JSON objects with a checksum, and strict reading: every field is read by name and type, unknown fields are errors.

{"crc32c":"9f3e0a1b","<kind>":{…}}     the checksum, eight hexadecimal digits, covers the bytes of the inner object
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import crc32c

_MAX_INT64: Final = 2**63 - 1


class JsonFault(Exception):
    """An error in a document. `is_newer`: it has content that this version does not know."""

    def __init__(self, what: str, *, is_newer: bool = False) -> None:
        super().__init__(what)
        self.what = what
        self.is_newer = is_newer


def encode_checked(kind: str, document: Mapping[str, Any]) -> bytes:
    content = json.dumps(document, separators=(",", ":")).encode()
    return _head(kind, content) + content + b"}"


def decode_checked(kind: str, data: bytes | memoryview) -> JsonFields:
    """The fields of the inner object. Raises JsonFault."""
    data = bytes(data)
    content = data[len(_head(kind, b"")) : -1]
    if data != _head(kind, content) + content + b"}":
        raise JsonFault("its checksum does not match its content")
    try:
        return JsonFields(json.loads(content), kind)
    except (ValueError, RecursionError) as error:
        raise JsonFault(str(error)) from None


def _head(kind: str, content: bytes) -> bytes:
    return b'{"crc32c":"%08x","%s":' % (crc32c.crc32c(content), kind.encode())


class JsonFields:
    """One JSON object. Read the known fields, then call `end`."""

    def __init__(self, document: object, where: str) -> None:
        if not isinstance(document, dict):
            raise JsonFault(f"{where} is not a JSON object")
        self._fields: dict[str, Any] = dict(document)
        self._where = where

    def number(self, name: str, *, least: int = 0) -> int:
        return checked_number(self._take(name), f"{self._where}.{name}", least=least)

    def text(self, name: str) -> str:
        value = self._take(name)
        if not isinstance(value, str):
            raise JsonFault(f"{self._where}.{name} is not a string")
        return value

    def uuid(self, name: str) -> UUID:
        return checked_uuid(self._take(name), f"{self._where}.{name}")

    def items(self, name: str) -> Sequence[Any]:
        value = self._take(name)
        if not isinstance(value, list):
            raise JsonFault(f"{self._where}.{name} is not a list")
        return value

    def texts(self, name: str) -> Sequence[str]:
        values = self.items(name)
        if not all(isinstance(value, str) for value in values):
            raise JsonFault(f"{self._where}.{name} holds what is not a string")
        return values

    def text_map(self, name: str) -> Mapping[str, str]:
        value = self._take(name)
        if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
            raise JsonFault(f"{self._where}.{name} is not an object of strings")
        return value

    def maybe(self, name: str) -> bool:
        """Whether the field exists."""
        return name in self._fields

    def take(self, name: str) -> object:
        """A field that is itself an object."""
        return self._take(name)

    def end(self) -> None:
        if self._fields:
            raise JsonFault(f"{self._where} has unknown fields: {', '.join(sorted(self._fields))}", is_newer=True)

    def _take(self, name: str) -> Any:
        if name not in self._fields:
            raise JsonFault(f"{self._where}.{name} is missing")
        return self._fields.pop(name)


def checked_number(value: object, where: str, *, least: int = 0) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise JsonFault(f"{where} is not a whole number")
    if not least <= value <= _MAX_INT64:
        raise JsonFault(f"{where} is {value}; it must be from {least} to {_MAX_INT64}")
    return value


def checked_uuid(value: object, where: str) -> UUID:
    try:
        if isinstance(value, str):
            return UUID(value)
    except ValueError:
        pass
    raise JsonFault(f"{where} is not a UUID")
