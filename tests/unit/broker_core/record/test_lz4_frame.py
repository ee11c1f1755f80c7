"""The head of an LZ4 frame."""

import lz4.frame
import pytest

from broker_core.model.exceptions import CorruptBatchError
from broker_core.model.identifiers import CompressionType
from broker_core.record.compression import decompress
from broker_core.record.lz4_frame import bound_content, checked_frame, xxh32


@pytest.mark.parametrize(
    ("data", "digest"),
    [
        (b"", 0x02CC5D05),
        (b"a", 0x550D7456),
        (b"abc", 0x32D153FF),
        (b"Nobody inspects the spammish repetition", 0xE2293B2F),
    ],
)
def test_xxh32_matches_the_published_vectors(data, digest):
    assert xxh32(data) == digest


@pytest.mark.parametrize("store_size", [False, True])
def test_a_header_checksum_over_the_magic_is_repaired(store_size):
    frame = bytearray(lz4.frame.compress(b"old client" * 20, block_linked=False, store_size=store_size))
    place = 14 if store_size else 6
    frame[place] = (xxh32(bytes(frame[:place])) >> 8) & 0xFF
    assert bytes(decompress(CompressionType.LZ4, bytes(frame))) == b"old client" * 20


def test_any_other_header_checksum_is_refused():
    frame = bytearray(lz4.frame.compress(b"x", block_linked=False))
    right, legacy = (xxh32(bytes(frame[4:6])) >> 8) & 0xFF, (xxh32(bytes(frame[:6])) >> 8) & 0xFF
    frame[6] = next(byte for byte in range(256) if byte not in (right, legacy))
    with pytest.raises(EOFError, match="header checksum"):
        checked_frame(memoryview(frame), 100)


def test_frame_content_is_bounded_by_its_blocks_not_by_its_declared_size():
    frame = bytearray(lz4.frame.compress(b"x", block_linked=False, store_size=True, block_size=4))
    frame[6:14] = (500_000_000).to_bytes(8, "little")
    frame[14] = (xxh32(bytes(frame[4:14])) >> 8) & 0xFF
    assert bound_content(memoryview(frame)) == 64 * 1024
    with pytest.raises(CorruptBatchError):
        decompress(CompressionType.LZ4, bytes(frame))


@pytest.mark.parametrize("block_checksum", [False, True])
def test_blocks_with_checksums_are_counted(block_checksum):
    frame = lz4.frame.compress(
        bytes(300_000), block_linked=False, block_size=4, block_checksum=block_checksum, content_checksum=True
    )
    assert bound_content(memoryview(frame)) == 5 * 64 * 1024


def test_a_valid_frame_is_passed_on_without_a_copy():
    view = memoryview(lz4.frame.compress(b"x", block_linked=False))
    assert checked_frame(view, 100) is view
