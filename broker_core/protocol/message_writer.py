"""Writes messages to bytes without copying large fields: one writer for every structure, built from its dataclass at
first use, the counterpart of `message_reader`. kio's own writer is the twin that tests compare with; it takes five
times as long, and encoding the answer is half the cost of a small request.

    parts = encode(header, request)         buffers to send in this order

Small fields are joined; a large one (the `records` of a produce request, which may be a memoryview) becomes a part of
its own, without a copy. It must not change until it was sent.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import Field, fields, is_dataclass
from functools import cache
from operator import attrgetter
from typing import Any, Final, cast

from kio.static.protocol import Entity
from typing_extensions import Buffer

from broker_core.protocol.field_kinds import (
    FIXED_KINDS,
    FixedKind,
    array_of,
    default_of,
    fixed_kind_of,
    is_compact,
    is_nullable,
    without_none,
)

_LARGE_BYTES: Final = 4096
"""From this size on a part of its own is cheaper than a copy."""

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_ONE_BYTE_VARINTS: Final = [bytes([number]) for number in range(0x80)]
_NO_SIZE: Final = bytes(_INT32.size)
_NO_STRUCTURE: Final = b"\xff"
_STRUCTURE: Final = b"\x01"


class _Parts:
    """The output of writers; the last part, `small`, still grows."""

    __slots__ = ("done", "small")

    def __init__(self) -> None:
        self.done: list[Buffer] = []
        self.small = bytearray()

    def add(self, data: Any) -> None:
        if len(data) < _LARGE_BYTES:
            self.small += data
        else:
            self.flush()
            self.done.append(data)

    def flush(self) -> None:
        if self.small:
            self.done.append(self.small)
            self.small = bytearray()


Writer = Callable[[Any, _Parts], None]


def encode_frame(header: bytes, entity: Entity) -> tuple[Sequence[Buffer], int]:
    """(buffers to send in this order: length prefix, header, structure; their size in bytes). Raises like `encode`."""
    parts = _Parts()
    first = parts.small
    first += _NO_SIZE
    first += header
    writer_of(type(entity))(entity, parts)
    parts.flush()
    size_bytes = sum(map(len, cast(list[bytes], parts.done)))
    _INT32.pack_into(first, 0, size_bytes - _INT32.size)
    return parts.done, size_bytes


def encode(*entities: Entity) -> Sequence[Buffer]:
    """Encodes the structures in order. Raises struct.error for a number that its field cannot hold."""
    parts = _Parts()
    for entity in entities:
        writer_of(type(entity))(entity, parts)
    parts.flush()
    return parts.done


@cache
def writer_of(message_type: type[Entity]) -> Writer:
    """Writes one structure."""
    steps: list[Writer] = []
    run: list[tuple[Field[Any], FixedKind]] = []
    tagged: dict[int, tuple[str, Any, Writer]] = {}
    for field in fields(message_type):
        if "tag" in field.metadata:
            writer = _value_writer(field, message_type, is_tagged=True)
            tagged[field.metadata["tag"]] = field.name, default_of(field), writer
            continue
        fixed = fixed_kind_of(field)
        if fixed is not None:
            run.append((field, fixed))
            continue
        if run:
            steps.append(_run_writer(run))
            run = []
        steps.append(_field_writer(field.name, _value_writer(field, message_type)))
    if run:
        steps.append(_run_writer(run))
    if message_type.__flexible__:
        steps.append(_tagged_fields_writer(dict(sorted(tagged.items()))))

    def write(entity: Any, parts: _Parts) -> None:
        for step in steps:
            step(entity, parts)

    return write


def _field_writer(name: str, write_value: Writer) -> Writer:
    get = attrgetter(name)

    def write(entity: Any, parts: _Parts) -> None:
        write_value(get(entity), parts)

    return write


def _run_writer(run: list[tuple[Field[Any], FixedKind]]) -> Writer:
    """Consecutive fields of fixed size, written at once."""
    pack = struct.Struct(">" + "".join(fixed.letter for _, fixed in run)).pack
    givers = [(place, fixed.give) for place, (_, fixed) in enumerate(run) if fixed.give is not None]
    get = attrgetter(*(field.name for field, _ in run))
    is_single = len(run) == 1

    def write(entity: Any, parts: _Parts) -> None:
        values = [get(entity)] if is_single else list(get(entity))
        for place, give in givers:
            values[place] = give(values[place])
        parts.small += pack(*values)

    def write_as_they_are(entity: Any, parts: _Parts) -> None:
        parts.small += pack(get(entity)) if is_single else pack(*get(entity))

    return write if givers else write_as_they_are


def _tagged_fields_writer(tagged: dict[int, tuple[str, Any, Writer]]) -> Writer:
    """In order of their tags; fields with their default value are omitted."""
    if not tagged:
        return lambda entity, parts: parts.small.append(0)

    def write(entity: Any, parts: _Parts) -> None:
        given = []
        for tag, (name, default, write_value) in tagged.items():
            value = getattr(entity, name)
            if value is not default and value != default:
                own = _Parts()
                write_value(value, own)
                own.flush()
                given.append((tag, b"".join(own.done)))
        parts.small += _unsigned_varint(len(given))
        for tag, data in given:
            parts.small += _unsigned_varint(tag) + _unsigned_varint(len(data))
            parts.small += data

    return write


def _value_writer(field: Field[Any], owner: type[Entity], *, is_tagged: bool = False) -> Writer:
    """The writer of a field that belongs to no run: an array, a structure, text or bytes; or any tagged field."""
    is_flexible = is_compact(owner, field)
    element = array_of(field.type)
    if element is not None:
        write_count = _compact_size if is_flexible else _plain_count
        return _array_writer(write_count, _element_writer(field, element, is_flexible=is_flexible))
    inner = without_none(field.type)
    if is_dataclass(inner):
        writer = writer_of(cast(type[Entity], inner))
        # A null tagged field is absent.
        return _nullable_structure_writer(writer) if is_nullable(field.type) and not is_tagged else writer
    fixed = fixed_kind_of(field)
    return _fixed_writer(fixed) if fixed is not None else _sized_writer(field, is_flexible=is_flexible)


def _element_writer(field: Field[Any], element: Any, *, is_flexible: bool) -> Writer:
    if is_dataclass(element):
        return writer_of(cast(type[Entity], element))
    fixed = FIXED_KINDS.get(field.metadata["kafka_type"])
    return _fixed_writer(fixed) if fixed is not None else _sized_writer(field, is_flexible=is_flexible)


def _fixed_writer(fixed: FixedKind) -> Writer:
    pack, give = struct.Struct(f">{fixed.letter}").pack, fixed.give
    if give is None:

        def write_as_it_is(value: Any, parts: _Parts) -> None:
            parts.small += pack(value)

        return write_as_it_is

    def write(value: Any, parts: _Parts) -> None:
        parts.small += pack(give(value))

    return write


def _nullable_structure_writer(write_structure: Writer) -> Writer:
    """KIP-893."""

    def write(value: Any, parts: _Parts) -> None:
        if value is None:
            parts.small += _NO_STRUCTURE
        else:
            parts.small += _STRUCTURE
            write_structure(value, parts)

    return write


def _array_writer(write_count: Callable[[int, _Parts], None], write_element: Writer) -> Writer:
    def write(values: Any, parts: _Parts) -> None:
        if values is None:
            write_count(-1, parts)
            return
        write_count(len(values), parts)
        for value in values:
            write_element(value, parts)

    return write


def _sized_writer(field: Field[Any], *, is_flexible: bool) -> Writer:
    """Text and bytes with a length prefix; null is -1, or 0 for compact lengths."""
    is_text = field.metadata["kafka_type"] == "string"
    write_plain_size = _plain_text_size if is_text else _plain_count
    write_size: Callable[[int, _Parts], None] = _compact_size if is_flexible else write_plain_size

    def write(value: Any, parts: _Parts) -> None:
        if value is None:
            write_size(-1, parts)
            return
        data = value.encode() if is_text else value
        write_size(len(data), parts)
        parts.add(data)

    return write


def _compact_size(size: int, parts: _Parts) -> None:
    parts.small += _unsigned_varint(size + 1)


def _plain_count(count: int, parts: _Parts) -> None:
    parts.small += _INT32.pack(count)


def _plain_text_size(size: int, parts: _Parts) -> None:
    parts.small += _INT16.pack(size)


def _unsigned_varint(number: int) -> bytes:
    if number < 0x80:
        return _ONE_BYTE_VARINTS[number]
    written = bytearray()
    while number >= 0x80:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)
