"""Finds the end of zstd frames by their block headers (RFC 8878), without decompression.

The library's stream reader accepts a truncated frame as a short one; this walk detects it. It also limits the size of
the content regardless of its header: a block expands to at most 128 KiB.
"""

from __future__ import annotations

import zstandard

MAX_BLOCK_BYTES = 128 * 1024
_MAGIC = 0xFD2FB528
_MAGIC_BYTES = 4
_MOST_HEADER_BYTES = 18
_SKIPPABLE_MAGIC = 0x184D2A50
_SKIPPABLE_MASK = 0xFFFFFFF0
_RLE_BLOCK, _RESERVED_BLOCK = 1, 3
_CHECKSUM_BYTES = 4


def whole_frames(view: memoryview) -> tuple[int, int]:
    """(blocks of all frames in `view`, byte after the last whole one). Raises EOFError if not even the first one is
    whole, or if no frame starts after a whole one."""
    blocks = 0
    position = 0
    while position < view.nbytes:
        magic = int.from_bytes(view[position : position + _MAGIC_BYTES], "little")
        if view.nbytes - position < _MAGIC_BYTES:
            break
        if magic & _SKIPPABLE_MASK == _SKIPPABLE_MAGIC:
            end, more = position + 8 + int.from_bytes(view[position + 4 : position + 8], "little"), 0
        elif magic == _MAGIC:
            end, more = _frame_end(view, position)
        else:
            raise EOFError(f"no frame starts at byte {position}")
        if end > view.nbytes:
            break
        position, blocks = end, blocks + more
    if not blocks:
        raise EOFError("the frame is cut off")
    return blocks, position


def _frame_end(view: memoryview, position: int) -> tuple[int, int]:
    """(byte after the frame, its blocks). The end of a truncated frame is beyond the view."""
    cut_off = view.nbytes + 1, 0
    head = view[position : position + _MOST_HEADER_BYTES]
    try:
        parameters = zstandard.get_frame_parameters(head)
        position += zstandard.frame_header_size(head)
    except zstandard.ZstdError:
        if head.nbytes < _MOST_HEADER_BYTES:
            return cut_off
        raise
    blocks = 0
    while True:
        if position + 3 > view.nbytes:
            return cut_off
        header = view[position] | view[position + 1] << 8 | view[position + 2] << 16
        kind = header >> 1 & 3
        if kind == _RESERVED_BLOCK:
            raise EOFError(f"a block at byte {position} is of the reserved type")
        position += 3 + (1 if kind == _RLE_BLOCK else header >> 3)
        blocks += 1
        if header & 1:
            return position + (_CHECKSUM_BYTES if parameters.has_checksum else 0), blocks
