"""The four codecs of a record batch, each with a limit of the decompressed size.

    gzip    members of RFC 1952, one or several
    snappy  Kafka's (xerial's) framing: 82 'SNAPPY' 00, two int32 versions, then blocks of int32 length + raw snappy;
            one or several. A bare raw block, as some clients write it, is read too.
    lz4     one LZ4 frame of independent blocks. Kafka refuses linked blocks, so both directions do. Content size and
            checksums are verified where present; a header checksum that old clients computed over the magic as well
            (KAFKA-3160) is accepted.
    zstd    frames of RFC 8878, one or several, with or without content size

Bytes after the last frame are ignored where Kafka's readers ignore them: any bytes after an LZ4 frame, bytes after a
gzip member that do not start another one, up to three bytes after the last block of snappy, and the start of a zstd
frame that is too short for any content. Kafka accepts and serves such batches, so a reader has to read them.

A declared size is checked against the limit, and against the most that so many bytes can expand to, before it is
allocated. All errors in compressed data raise CorruptBatchError; callers add the position.
"""

from __future__ import annotations

import io
import zlib
from functools import cache
from typing import Any, Final

import lz4.frame
import zstandard
from typing_extensions import Buffer

from broker_core.model.exceptions import CorruptBatchError, InvalidConfigError
from broker_core.model.identifiers import CompressionType
from broker_core.model.limits import MAX_DECOMPRESSED_BATCH_BYTES
from broker_core.record.gzip_member import begins_member
from broker_core.record.lz4_frame import bound_content, checked_frame
from broker_core.record.zstd_frame import MAX_BLOCK_BYTES, whole_frames

GZIP_LEVELS: Final = range(1, 10)
LZ4_LEVELS: Final = range(1, 18)
ZSTD_LEVELS: Final = range(-131_072, 23)
DEFAULT_LEVELS: Final = {CompressionType.GZIP: -1, CompressionType.LZ4: 9, CompressionType.ZSTD: 3}
"""Defaults of compression.gzip.level, compression.lz4.level and compression.zstd.level."""

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + (1).to_bytes(4, "big") + (1).to_bytes(4, "big")
_XERIAL_BLOCK_BYTES = 32 * 1024
_XERIAL_SIZE_BYTES = 4
_SNAPPY_MAX_RATIO = 32
"""A snappy element of three bytes copies at most 64; the margin is for the preamble."""
_GZIP_WINDOW_BITS = 31
_GZIP_MEMBER_BYTES = 1024
_LZ4_FASTEST, _LZ4_LOWEST_HIGH, _LZ4_HIGHEST = 0, 3, 12
_CHUNK_BYTES = 64 * 1024


@cache
def _snappy() -> Any:
    """Loaded at first use: pyarrow is a third of the memory of a broker that does not need it."""
    import pyarrow as pa

    return pa.Codec("snappy")


def compress(codec: CompressionType, data: Buffer, level: int | None = None) -> bytes:
    """Compresses `data` as the content of a batch. `level` None is Kafka's default; snappy has no levels.

    Raises InvalidConfigError for a level out of the codec's range.
    """
    view = memoryview(data).cast("B")
    _check_level(codec, level)
    if codec is CompressionType.GZIP:
        gzip = zlib.compressobj(DEFAULT_LEVELS[codec] if level is None else level, zlib.DEFLATED, _GZIP_WINDOW_BITS)
        return gzip.compress(view) + gzip.flush()
    if codec is CompressionType.SNAPPY:
        return _compress_xerial(view)
    if codec is CompressionType.LZ4:
        frame: bytes = lz4.frame.compress(
            view,
            compression_level=_lz4_effort(level),
            block_size=lz4.frame.BLOCKSIZE_MAX64KB,
            block_linked=False,
            store_size=False,
        )
        return frame
    if codec is CompressionType.ZSTD:
        return zstandard.ZstdCompressor(level=DEFAULT_LEVELS[codec] if level is None else level).compress(view)
    return view.tobytes()


def decompress(codec: CompressionType, data: Buffer, *, max_bytes: int = MAX_DECOMPRESSED_BATCH_BYTES) -> Buffer:
    """The decompressed content. Raises CorruptBatchError for invalid data and for more than `max_bytes`."""
    view = memoryview(data).cast("B")
    try:
        return _DECOMPRESSORS[codec](view, max_bytes)
    except (zlib.error, zstandard.ZstdError, RuntimeError, OSError, EOFError) as error:
        raise _refusal(codec, f"{codec.name.lower()} content is corrupt: {error}") from error


def _check_level(codec: CompressionType, level: int | None) -> None:
    levels = {
        CompressionType.GZIP: GZIP_LEVELS,
        CompressionType.LZ4: LZ4_LEVELS,
        CompressionType.ZSTD: ZSTD_LEVELS,
    }.get(codec)
    if level is None or levels is None or level in levels or level == DEFAULT_LEVELS[codec]:
        return
    name = codec.name.lower()
    raise InvalidConfigError(f"compression.{name}.level must be in {levels.start} to {levels.stop - 1}, not {level}")


def _lz4_effort(level: int | None) -> int:
    # Kafka's default level 9 means the fast compressor; every other level the slow, tight one.
    if level is None or level == DEFAULT_LEVELS[CompressionType.LZ4]:
        return _LZ4_FASTEST
    return min(max(level, _LZ4_LOWEST_HIGH), _LZ4_HIGHEST)


def _compress_xerial(view: memoryview) -> bytes:
    parts = [_XERIAL_HEADER]
    for start in range(0, view.nbytes, _XERIAL_BLOCK_BYTES):
        block = _snappy().compress(view[start : start + _XERIAL_BLOCK_BYTES], asbytes=True)
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


def _copy(view: memoryview, max_bytes: int) -> Buffer:
    if view.nbytes > max_bytes:
        raise _bomb(CompressionType.NONE, max_bytes)
    return view


def _inflate_gzip(view: memoryview, max_bytes: int) -> Buffer:
    parts: list[bytes] = []
    left, position = max_bytes, 0
    # The unused input of a member is copied: the first one, nearly always the only one, gets all of the input, the
    # others a little at a time.
    chunk_bytes = view.nbytes
    while True:
        member = zlib.decompressobj(_GZIP_WINDOW_BITS)
        while not member.eof:
            if position >= view.nbytes:
                raise EOFError("the stream ends inside a member")
            chunk = view[position : position + chunk_bytes]
            parts.append(member.decompress(chunk, left + 1))
            left -= len(parts[-1])
            if left < 0:
                raise _bomb(CompressionType.GZIP, max_bytes)
            position += chunk.nbytes - len(member.unused_data)
            chunk_bytes *= 2
        if not begins_member(view[position:]):
            return parts[0] if len(parts) == 1 else b"".join(parts)
        chunk_bytes = _GZIP_MEMBER_BYTES


def _inflate_snappy(view: memoryview, max_bytes: int) -> Buffer:
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _inflate_snappy_block(view, max_bytes, max_bytes)
    parts: list[Buffer] = []
    left = max_bytes
    position = len(_XERIAL_HEADER)
    if view.nbytes < position:
        raise EOFError("the header of the framing is cut off")
    while view.nbytes - position >= _XERIAL_SIZE_BYTES:
        if bytes(view[position : position + len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC:
            position += len(_XERIAL_HEADER)
            if position > view.nbytes:
                raise EOFError("the header of a second framing is cut off")
            continue
        size = int.from_bytes(view[position : position + _XERIAL_SIZE_BYTES], "big")
        position += _XERIAL_SIZE_BYTES
        if size > view.nbytes - position:
            raise EOFError(f"a block claims {size} bytes where {max(0, view.nbytes - position)} are left")
        part = _inflate_snappy_block(view[position : position + size], left, max_bytes)
        left -= len(part)
        parts.append(part)
        position += size
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _inflate_snappy_block(block: memoryview, left: int, max_bytes: int) -> bytes:
    size, shift = 0, 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    else:
        raise EOFError("the length of a block is cut off")
    if size > left:
        raise _bomb(CompressionType.SNAPPY, max_bytes)
    if size > block.nbytes * _SNAPPY_MAX_RATIO:
        raise EOFError(f"a block of {block.nbytes} bytes claims to hold {size}")
    if size == 0:
        return b""
    inflated: bytes = _snappy().decompress(block, decompressed_size=size, asbytes=True)
    return inflated


def _inflate_lz4(view: memoryview, max_bytes: int) -> Buffer:
    frame = checked_frame(view, max_bytes)
    decompressor = lz4.frame.LZ4FrameDecompressor()
    # The library allocates the whole limit, so the limit is at most what the blocks can hold.
    possible_bytes = max(1, bound_content(frame))
    inflated: bytes = decompressor.decompress(frame, max_length=min(possible_bytes, max_bytes + 1))
    if len(inflated) > max_bytes:
        raise _bomb(CompressionType.LZ4, max_bytes)
    if not decompressor.eof:
        raise EOFError("the frame is cut off")
    return inflated


def _inflate_zstd(view: memoryview, max_bytes: int) -> Buffer:
    blocks, end_position = whole_frames(view)
    if end_position < view.nbytes and _gives_anything(view[end_position:]):
        raise EOFError("the last frame is cut off")
    view, possible_bytes = view[:end_position], blocks * MAX_BLOCK_BYTES
    with zstandard.ZstdDecompressor().stream_reader(view, read_across_frames=True) as reader:
        inflated = reader.read(min(possible_bytes, 4 * view.nbytes + _CHUNK_BYTES, max_bytes + 1))
        target = io.BytesIO(inflated)
        target.seek(0, io.SEEK_END)
        while inflated and target.tell() <= max_bytes:
            inflated = reader.read(min(target.tell() + _CHUNK_BYTES, max_bytes + 1))
            target.write(inflated)
    if target.tell() > max_bytes:
        raise _bomb(CompressionType.ZSTD, max_bytes)
    return target.getvalue()


def _gives_anything(cut_off: memoryview) -> bool:
    """Whether the truncated frame has any content. Raises ZstdError if no frame starts there."""
    with zstandard.ZstdDecompressor().stream_reader(cut_off) as reader:
        return bool(reader.read(1))


def _bomb(codec: CompressionType, max_bytes: int) -> CorruptBatchError:
    return _refusal(codec, f"{codec.name.lower()} content inflates to more than the limit of {max_bytes} bytes")


def _refusal(codec: CompressionType, what: str) -> CorruptBatchError:
    return CorruptBatchError(what, codec=codec.name.lower())


_DECOMPRESSORS = {
    CompressionType.NONE: _copy,
    CompressionType.GZIP: _inflate_gzip,
    CompressionType.SNAPPY: _inflate_snappy,
    CompressionType.LZ4: _inflate_lz4,
    CompressionType.ZSTD: _inflate_zstd,
}
