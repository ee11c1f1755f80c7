"""Variable-length integers of the v2 record: zigzag, then seven bits per byte, lowest first.

A varint holds 32 bits in at most 5 bytes, a varlong 64 bits in at most 10. Encodings longer than needed are accepted,
as Kafka accepts them; one that does not end in its bytes, or overflows its width, is refused.
"""

from __future__ import annotations

from broker_core.record.faults import Fault, KernelFault

_VARINT_BITS = 32
_VARLONG_BITS = 64


def read_varint(buffer: memoryview, position: int, end: int) -> tuple[int, int]:
    """(value, next position) of a 32-bit varint that must end before `end`. Raises KernelFault(VARINT)."""
    return _read(buffer, position, end, _VARINT_BITS)


def read_varlong(buffer: memoryview, position: int, end: int) -> tuple[int, int]:
    """(value, next position) of a 64-bit varint that must end before `end`. Raises KernelFault(VARINT)."""
    return _read(buffer, position, end, _VARLONG_BITS)


def _read(buffer: memoryview, position: int, end: int, bits: int) -> tuple[int, int]:
    raw = 0
    shift = 0
    while position < end:
        byte = buffer[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            if raw >> bits:
                break
            return (raw >> 1) ^ -(raw & 1), position
        shift += 7
        if shift >= bits:
            break
    raise KernelFault(Fault.VARINT, bound=bits)


def append_varint(target: bytearray, value: int) -> None:
    """Appends `value` (32 or 64 bits, the encoding is the same)."""
    raw = (value << 1) ^ (value >> 63)
    raw &= 0xFFFFFFFFFFFFFFFF
    while raw > 0x7F:
        target.append((raw & 0x7F) | 0x80)
        raw >>= 7
    target.append(raw)


def varint_bytes(value: int) -> int:
    """The number of bytes that `append_varint` appends."""
    raw = ((value << 1) ^ (value >> 63)) & 0xFFFFFFFFFFFFFFFF
    return max(1, (raw.bit_length() + 6) // 7)
