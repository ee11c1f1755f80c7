"""Avro's int and long: zigzag, then seven bits a byte, the lowest first; ten bytes at most."""

from __future__ import annotations

from typing import Final

from spark_streamlog.serde.decoded_values import Unreadable


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """(number, position behind it). Raises Unreadable, and IndexError where the bytes end."""
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
            raise Unreadable("a number of more than 10 bytes")
    if number >> 64:
        raise Unreadable("a number of more than 64 bits")
    return (number >> 1) ^ -(number & 1), position


def read_length(data: bytes, position: int) -> tuple[int, int]:
    """(length, position behind it), with that many bytes there. Raises Unreadable and IndexError."""
    length = data[position]
    if length < 0x80 and not length & 1:
        length >>= 1
        position += 1
    else:
        length, position = read_varint(data, position)
    if not 0 <= length <= len(data) - position:
        raise Unreadable(f"a length of {length}, and {len(data) - position} bytes are left")
    return length, position


def varint(number: int) -> bytes:
    """Of a number of 64 bits."""
    zigzag = (number << 1) ^ (number >> 63)
    if zigzag < 0x80:
        return _SHORT[zigzag]
    out = bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


_SHORT: Final = [bytes([number]) for number in range(0x80)]
