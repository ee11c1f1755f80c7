"""Where zstd frames end."""

import os

import pytest
import zstandard

from broker_core.record.zstd_frame import count_blocks


def test_blocks_of_all_frames_are_counted():
    noise = zstandard.compress(os.urandom(300_000))
    assert count_blocks(memoryview(noise)) >= 3
    assert count_blocks(memoryview(noise * 2)) == 2 * count_blocks(memoryview(noise))


def test_a_skippable_frame_is_skipped_but_is_no_content():
    skippable = b"\x50\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"abc"
    assert count_blocks(memoryview(skippable + zstandard.compress(b"x"))) == 1
    with pytest.raises(EOFError):
        count_blocks(memoryview(skippable))


def test_a_cut_off_frame_does_not_end():
    frame = zstandard.ZstdCompressor(write_checksum=True).compress(b"x" * 1000)
    for size in range(len(frame)):
        with pytest.raises((EOFError, zstandard.ZstdError)):
            count_blocks(memoryview(frame[:size]))
