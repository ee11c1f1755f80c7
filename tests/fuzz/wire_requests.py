"""Requests of fuzzing: valid by the schema with random values, and valid ones that are then damaged.

`draw_request(dice, api_key, version)` fills every field of kio's request with something: names that are there and that
are not, numbers at the edges, arrays of nothing to three, null wherever the schema allows it.
"""

from __future__ import annotations

import struct
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from types import NoneType
from typing import get_args, get_origin
from uuid import UUID

from kio.schema.errors import ErrorCode
from support.builders.builders import a_batch

from broker_core.model.identifiers import CompressionType
from broker_core.protocol.api_table import message_types
from broker_core.protocol.message_writer import encode

NAMES = (
    "t",
    "t2",
    "nowhere",
    "group",
    "tid",
    "",
    ".",
    "a b",
    "x" * 250,
    "ä\u20ac\U0001f600",
    "a\0b",
    "range",
    "consumer",
    "1",
    "retention.ms",
    "cleanup.policy",
    "compact",
    "User:ann",
    "*",
    "(",
    "PLAIN",
    "Empty",
    "__consumer_offsets",
)
BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint16": 16, "uint32": 32}
SMALL = (-2, -1, 0, 1, 2, 3, 7)
HOSTILE = (
    b"\x7f\xff\xff\xff",
    b"\x80\0\0\0",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x7f",
    b"\0\x0f\x42\x40",
    b"\x7f\xff",
    b"\x80\0",
)
"""Lengths and counts: the largest, the smallest, -1, as they are and as varints; a million."""


class Dice:
    """A `random.Random` that knows what the requests are about: topic ids that are there, producer ids."""

    def __init__(self, random, topic_ids=(), producer_ids=()):
        self.random = random
        self.topic_ids = [UUID(int=5), UUID(int=2**127 + 1), *topic_ids]
        self.producer_ids = producer_ids

    def chance(self, share):
        return self.random.random() < share

    def integer(self, kind):
        bits = BITS.get(kind, 8)
        edges = (0, 2**bits - 1) if kind.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        if self.chance(0.15):
            return self.random.choice(edges)
        value = (
            self.random.choice(self.producer_ids)
            if self.producer_ids and self.chance(0.2)
            else self.random.choice(SMALL)
        )
        return min(max(value, edges[0]), edges[1])

    def records(self):
        made = a_batch(
            self.random.randrange(1, 4),
            compression=self.random.choice(list(CompressionType)),
            producer=(self.integer("int64"), self.integer("int16"), self.integer("int32"))
            if self.chance(0.4)
            else None,
            is_transactional=self.chance(0.2),
        )
        return bytes(mutated(self, bytes(made))) if self.chance(0.5) else bytes(made)


def draw_request(dice, api_key, version):
    return _draw(dice, message_types(api_key, version).request)


def _draw(dice, message_type):
    return message_type(**{field.name: _value(dice, field) for field in fields(message_type)})


def _value(dice, field):
    inner = field.type
    if NoneType in get_args(inner):
        if dice.chance(0.2):
            return None
        inner = next(one for one in get_args(inner) if one is not NoneType)
    kind = field.metadata.get("kafka_type", "")
    if get_origin(inner) is tuple:
        element = get_args(inner)[0]
        count = dice.random.choice((0, 1, 1, 2, 3))
        return tuple(_draw(dice, element) if is_dataclass(element) else _single(dice, kind) for _ in range(count))
    return _draw(dice, inner) if is_dataclass(inner) else _single(dice, kind)


def _single(dice, kind):
    if kind == "string":
        return dice.random.choice(NAMES)
    if kind == "bytes":
        return dice.random.randbytes(dice.random.choice((0, 1, 9, 100)))
    if kind == "records":
        return dice.records()
    if kind == "uuid":
        return dice.random.choice(dice.topic_ids)
    if kind == "bool":
        return dice.chance(0.5)
    if kind == "float64":
        return dice.random.choice((0.0, -1.5, float("inf"), float("nan")))
    if kind == "error_code":
        return dice.random.choice(list(ErrorCode))
    if kind.startswith("timedelta"):
        return timedelta(milliseconds=dice.random.choice((-1, 0, 1, 20, 6000, 60_000)))
    if kind.startswith("datetime"):
        return datetime(2023, 11, 14, tzinfo=UTC)
    return dice.integer(kind)


def frame_of(message, *, correlation_id=1, client_id="fuzz"):
    """The bytes of a request behind their size."""
    header = type(message).__header_schema__(
        request_api_key=message.__api_key__,
        request_api_version=message.__version__,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    return b"".join(bytes(part) for part in encode(header, message))


def with_size(frame):
    return struct.pack(">i", len(frame)) + frame


def mutated(dice, frame, *, first=0):
    """Broken in one to four places, none of them before `first`."""
    broken = bytearray(frame)
    for _ in range(dice.random.randrange(1, 5)):
        at = dice.random.randrange(first, max(first, len(broken)) + 1)
        match dice.random.randrange(5):
            case 0:
                broken[at : at + 1] = dice.random.randbytes(1)
            case 1:
                number = dice.random.choice(HOSTILE)
                broken[at : at + len(number)] = number
            case 2:
                del broken[at : at + dice.random.randrange(1, 9)]
            case 3:
                broken[at:at] = dice.random.randbytes(dice.random.randrange(1, 9))
            case _:
                broken[at : at + 1] = bytes([broken[at] ^ 1 << dice.random.randrange(8)]) if at < len(broken) else b""
    return bytes(broken)
