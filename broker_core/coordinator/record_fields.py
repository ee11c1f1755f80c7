"""Reads and writes fields of coordinator records in Kafka's two encodings; everything that is read is bounded.

           plain                                 flexible (KIP-482)
string     int16 bytes, UTF-8                    unsigned varint bytes + 1, UTF-8
array      int32 count, items; -1 is null        unsigned varint count + 1, items; 0 is null
end        nothing                               tagged fields: count, then tag, bytes, field, all counts varints
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar
from uuid import UUID

from kio.serial.errors import SerialError
from kio.serial.readers import (
    read_compact_array_length,
    read_compact_string,
    read_int16,
    read_legacy_array_length,
    read_legacy_string,
    read_unsigned_varint,
)

from broker_core.model.exceptions import CorruptBatchError

MAX_STRING_BYTES: Final = 2**15 - 1
"""The largest plain string, whose length is a signed 16-bit number: the limit for keys of coordinator records."""

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_T = TypeVar("_T")


class FieldReader:
    """One key or value with the read position. `what` names it in messages. Every error is a CorruptBatchError."""

    __slots__ = ("_buffer", "_position", "_what")

    def __init__(self, buffer: bytes | memoryview, what: str) -> None:
        self._buffer = bytes(buffer)
        self._position = 0
        self._what = what

    def take(self, read: Callable[[Any, int], tuple[_T, int]]) -> _T:
        """Reads a field with one of kio's readers."""
        try:
            item, size = read(self._buffer, self._position)
        except (SerialError, ValueError, IndexError, OverflowError) as error:
            raise self.corrupt(f"ends too early: {error}") from error
        self._position += size
        return item

    def take_fixed(self, fields: struct.Struct) -> tuple[Any, ...]:
        """Reads fields of fixed size at once."""
        if fields.size > len(self._buffer) - self._position:
            raise self.corrupt(f"breaks off where {fields.size} more are needed")
        found = fields.unpack_from(self._buffer, self._position)
        self._position += fields.size
        return found

    def take_version(self) -> int:
        return self.take(read_int16)

    def take_string(self, *, is_flexible: bool) -> str:
        return self.take(read_compact_string if is_flexible else read_legacy_string)

    def take_count(self, *, is_flexible: bool, item_bytes: int) -> int | None:
        """The count of the array that begins here, checked against the remaining bytes. None is a null array."""
        count = self.take(read_compact_array_length if is_flexible else read_legacy_array_length)
        if count is None or count < 0:
            return None
        if count * item_bytes > len(self._buffer) - self._position:
            raise self.corrupt(f"claims {count} items of {item_bytes} bytes or more")
        return count

    def take_tagged_fields(self) -> dict[int, bytes]:
        """By tag."""
        fields: dict[int, bytes] = {}
        for _ in range(self.take(read_unsigned_varint)):
            tag, size = self.take(read_unsigned_varint), self.take(read_unsigned_varint)
            if size > len(self._buffer) - self._position:
                raise self.corrupt(f"claims a field {tag} of {size} bytes")
            fields[tag] = self._buffer[self._position : self._position + size]
            self._position += size
        return fields

    def rest(self) -> bytes:
        return self._buffer[self._position :]

    def corrupt(self, error: str) -> CorruptBatchError:
        """For the caller to raise."""
        return CorruptBatchError(f"{self._what} of {len(self._buffer)} bytes, at byte {self._position}: {error}")


def string_bytes(text: str) -> bytes:
    """Encodes a plain string. The caller has checked it with `fits_string`."""
    content = text.encode()
    return _INT16.pack(len(content)) + content


def fits_string(text: str) -> bool:
    """Whether the text is valid UTF-8 of at most MAX_STRING_BYTES; a lone surrogate is not."""
    try:
        return len(text.encode()) <= MAX_STRING_BYTES
    except UnicodeEncodeError:
        return False


def compact_string_bytes(text: str) -> bytes:
    content = text.encode()
    return unsigned_varint(len(content) + 1) + content


def array_count_bytes(count: int | None, *, is_flexible: bool) -> bytes:
    """The count before an array's items; None is a null array."""
    if is_flexible:
        return unsigned_varint(0 if count is None else count + 1)
    return _INT32.pack(-1 if count is None else count)


def tagged_fields_bytes(fields: Mapping[int, bytes]) -> bytes:
    """Encodes fields by tag, in ascending order as the format requires; no fields are one zero byte."""
    parts = (unsigned_varint(tag) + unsigned_varint(len(content)) + content for tag, content in sorted(fields.items()))
    return unsigned_varint(len(fields)) + b"".join(parts)


def unsigned_varint(number: int) -> bytes:
    written = bytearray()
    while number > 0x7F:
        written.append((number & 0x7F) | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


def uuid_of(content: bytes) -> UUID | None:
    """Kafka's zero id means none."""
    found = UUID(bytes=content)
    return found if found.int else None
