"""The header of an LZ4 frame: the checks of Kafka's readers, made before the library gets the frame.

0  magic     04 22 4D 18
4  FLG       version 01, independent blocks, block checksum, content size, content checksum, reserved, dictionary
5  BD        largest block: 4 to 7 for 64 KiB to 4 MiB
6  content size, 8 bytes, only if FLG says so
…  header checksum: second byte of xxh32 over FLG up to here
…  blocks: int32 size (high bit: stored as it is), content, checksum if FLG says so; then a size of 0
"""

from __future__ import annotations

from broker_core.model.exceptions import CorruptBatchError

_MAGIC = b"\x04\x22\x4d\x18"
_INDEPENDENT_BLOCKS = 0x20
_CONTENT_SIZE = 0x08
_DICTIONARY = 0x01
_BLOCK_CHECKSUM = 0x10
_CHECKSUM_BYTES = 4
_STORED_BIT = 1 << 31
_PRIME = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)
_MASK = 0xFFFFFFFF


def checked_frame(view: memoryview, max_bytes: int) -> memoryview:
    """The frame in a form that the library can read: a legacy header checksum is replaced by the correct one.

    Raises EOFError for a truncated frame or other bytes, CorruptBatchError for linked blocks and a declared size above
    `max_bytes`.
    """
    if bytes(view[:4]) != _MAGIC or view.nbytes < 7:
        raise EOFError("no LZ4 frame starts at this position")
    flags = view[4]
    checksum_position = 6 + (8 if flags & _CONTENT_SIZE else 0)
    if view.nbytes <= checksum_position:
        raise EOFError("the frame's header is cut off")
    if not flags & _INDEPENDENT_BLOCKS:
        raise CorruptBatchError("lz4 frame has linked blocks, which Kafka's readers refuse", codec="lz4")
    if flags & _DICTIONARY:
        raise CorruptBatchError("lz4 frame needs a dictionary", codec="lz4")
    if flags & _CONTENT_SIZE and int.from_bytes(view[6:14], "little") > max_bytes:
        raise CorruptBatchError(f"lz4 content inflates to more than the limit of {max_bytes} bytes", codec="lz4")
    right = (xxh32(bytes(view[4:checksum_position])) >> 8) & 0xFF
    found = view[checksum_position]
    if found == right:
        return view
    if found != (xxh32(bytes(view[:checksum_position])) >> 8) & 0xFF:
        raise EOFError(f"the frame's header checksum is {found:#04x}, not {right:#04x}")
    repaired = bytearray(view)
    repaired[checksum_position] = right
    return memoryview(repaired)


def bound_content(frame: memoryview) -> int:
    """The maximum size of the blocks of a checked frame, regardless of the size in its header.

    Raises EOFError if the blocks do not end in the frame.
    """
    block_size_code = frame[5] >> 4 & 7
    if block_size_code < 4:
        raise EOFError(f"the frame's block size has the unknown code {block_size_code}")
    largest = 1 << (8 + 2 * block_size_code)
    trailer = _CHECKSUM_BYTES if frame[4] & _BLOCK_CHECKSUM else 0
    position = 7 + (8 if frame[4] & _CONTENT_SIZE else 0)
    blocks = 0
    while position + 4 <= frame.nbytes:
        size = int.from_bytes(frame[position : position + 4], "little") & ~_STORED_BIT
        if size == 0:
            return blocks * largest
        position += 4 + size + trailer
        blocks += 1
    raise EOFError("the frame is cut off")


def xxh32(data: bytes, seed: int = 0) -> int:
    """xxHash of 32 bits, for the few bytes of a frame header."""
    p1, p2, p3, p4, p5 = _PRIME
    position = 0
    if len(data) >= 16:
        lanes = [(seed + p1 + p2) & _MASK, (seed + p2) & _MASK, seed, (seed - p1) & _MASK]
        while position + 16 <= len(data):
            for lane in range(4):
                word = int.from_bytes(data[position : position + 4], "little")
                lanes[lane] = _rotate((lanes[lane] + word * p2) & _MASK, 13) * p1 & _MASK
                position += 4
        digest = _rotate(lanes[0], 1) + _rotate(lanes[1], 7) + _rotate(lanes[2], 12) + _rotate(lanes[3], 18)
    else:
        digest = seed + p5
    digest = (digest + len(data)) & _MASK
    while position + 4 <= len(data):
        word = int.from_bytes(data[position : position + 4], "little")
        digest = _rotate((digest + word * p3) & _MASK, 17) * p4 & _MASK
        position += 4
    for byte in data[position:]:
        digest = _rotate((digest + byte * p5) & _MASK, 11) * p1 & _MASK
    digest = (digest ^ digest >> 15) * p2 & _MASK
    digest = (digest ^ digest >> 13) * p3 & _MASK
    return digest ^ digest >> 16


def _rotate(word: int, bits: int) -> int:
    return ((word << bits) | (word >> (32 - bits))) & _MASK
