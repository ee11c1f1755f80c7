"""The header of a gzip member (RFC 1952), as Java's reader looks for further members.

0   1f 8b 08         magic and method
3   flags            02 header checksum, 04 extra field, 08 name, 10 comment
4   6 bytes          time, extra flags, system
…   extra field (little-endian uint16 length), name and comment (each up to a zero byte), uint16 checksum: as flagged
"""

from __future__ import annotations

import zlib
from typing import Final

_MAGIC: Final = b"\x1f\x8b\x08"
_FIXED_BYTES: Final = 10
_LEAST_MEMBER_BYTES: Final = 19
"""With 18 bytes or fewer left, Java does not look for another member."""
_MOST_HEAD_BYTES: Final = 4096
_HEADER_CHECKSUM, _EXTRA, _NAME, _COMMENT = 0x02, 0x04, 0x08, 0x10


def begins_member(rest: memoryview) -> bool:
    """Whether `rest`, the bytes after a member, starts another one. Other bytes are ignored."""
    if rest.nbytes < _LEAST_MEMBER_BYTES or bytes(rest[: len(_MAGIC)]) != _MAGIC:
        return False
    head, position = bytes(rest[:_MOST_HEAD_BYTES]), _FIXED_BYTES
    flags = head[len(_MAGIC)]
    if flags & _EXTRA:
        position += 2 + int.from_bytes(head[position : position + 2], "little")
    for flag in (_NAME, _COMMENT):
        if flags & flag:
            end = head.find(0, position)
            if end < 0:
                return False
            position = end + 1
    if flags & _HEADER_CHECKSUM:
        checksum = zlib.crc32(head[:position]) & 0xFFFF
        if head[position : position + 2] != checksum.to_bytes(2, "little"):
            return False
        position += 2
    return position <= len(head)
