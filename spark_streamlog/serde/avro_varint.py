"""Avro's int and long: zigzag, then seven bits per byte, lowest first; at most ten bytes."""

from __future__ import annotations

from typing import Final

from broker_core.record.varint import append_varint
from spark_streamlog.serde.decoded_values import Unreadable


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Returns (number, position after it). Raises Unreadable, and IndexError if the data ends."""
    byte = data[position]
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    number, shift = byte & 0x7F, 7
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 63:
            raise Unreadable("the number has more than 10 bytes")
    if number >> 64:
        raise Unreadable("the number has more than 64 bits")
    return (number >> 1) ^ -(number & 1), position


def read_length(data: bytes, position: int) -> tuple[int, int]:
    """Returns (length, position after it); at least `length` bytes follow. Raises Unreadable and IndexError."""
    length = data[position]
    if length < 0x80 and not length & 1:
        length >>= 1
        position += 1
    else:
        length, position = read_varint(data, position)
    if not 0 <= length <= len(data) - position:
        raise Unreadable(f"the length is {length}, and {len(data) - position} bytes are left")
    return length, position


def varint(number: int) -> bytes:
    """Encodes a number of 64 bits."""
    zigzag = (number << 1) ^ (number >> 63)
    if zigzag < 0x80:
        return _SHORT[zigzag]
    out = bytearray()
    append_varint(out, number)
    return bytes(out)


_SHORT: Final = [bytes([number]) for number in range(0x80)]
