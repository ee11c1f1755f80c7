"""Where the frames of a zstd content end, by their block headers (RFC 8878), without inflating anything.

The library's stream reader takes a cut-off frame for a short one; this walk tells them apart, and bounds what the
content can hold whatever its header declares: a block inflates to at most 128 KiB.
"""

from __future__ import annotations

import zstandard

MAX_BLOCK_BYTES = 128 * 1024
_MAGIC = 0xFD2FB528
_SKIPPABLE_MAGIC = 0x184D2A50
_SKIPPABLE_MASK = 0xFFFFFFF0
_RLE_BLOCK, _RESERVED_BLOCK = 1, 3
_CHECKSUM_BYTES = 4


def count_blocks(view: memoryview) -> int:
    """Blocks of all frames in `view`. Raises EOFError where a frame does not end in it or no frame starts."""
    blocks = 0
    position = 0
    while position < view.nbytes:
        magic = int.from_bytes(view[position : position + 4], "little")
        if magic & _SKIPPABLE_MASK == _SKIPPABLE_MAGIC:
            position += 8 + int.from_bytes(view[position + 4 : position + 8], "little")
        elif magic == _MAGIC:
            position, more = _frame_end(view, position)
            blocks += more
        else:
            raise EOFError(f"no frame starts at byte {position}")
    if position != view.nbytes or not blocks:
        raise EOFError("the last frame is cut off")
    return blocks


def _frame_end(view: memoryview, position: int) -> tuple[int, int]:
    head = view[position : position + 18]
    parameters = zstandard.get_frame_parameters(head)
    position += zstandard.frame_header_size(head)
    blocks = 0
    while True:
        if position + 3 > view.nbytes:
            raise EOFError("a frame is cut off")
        header = view[position] | view[position + 1] << 8 | view[position + 2] << 16
        kind = header >> 1 & 3
        if kind == _RESERVED_BLOCK:
            raise EOFError(f"a block at byte {position} is of the reserved type")
        position += 3 + (1 if kind == _RLE_BLOCK else header >> 3)
        blocks += 1
        if header & 1:
            return position + (_CHECKSUM_BYTES if parameters.has_checksum else 0), blocks
