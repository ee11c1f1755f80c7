"""Where zstd frames end."""

import os

import pytest
import zstandard

from broker_core.record.zstd_frame import whole_frames


def test_the_blocks_of_all_frames_are_counted():
    noise = zstandard.compress(os.urandom(300_000))
    blocks, end = whole_frames(memoryview(noise))
    assert blocks >= 3
    assert end == len(noise)
    assert whole_frames(memoryview(noise * 2)) == (2 * blocks, 2 * end)


def test_a_skippable_frame_adds_no_content():
    skippable = b"\x50\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"abc"
    frame = zstandard.compress(b"x")
    assert whole_frames(memoryview(skippable + frame)) == (1, len(skippable + frame))
    with pytest.raises(EOFError):
        whole_frames(memoryview(skippable))


def test_a_truncated_frame_has_no_end():
    frame = zstandard.ZstdCompressor(write_checksum=True).compress(b"x" * 1000)
    for size in range(len(frame)):
        with pytest.raises((EOFError, zstandard.ZstdError)):
            whole_frames(memoryview(frame[:size]))


def test_a_truncated_frame_after_a_whole_one_is_not_counted():
    first = zstandard.compress(b"x")
    second = zstandard.ZstdCompressor(write_checksum=True).compress(b"y" * 1000)
    for size in range(len(second)):
        assert whole_frames(memoryview(first + second[:size])) == (1, len(first))


def test_bytes_after_a_whole_frame_that_start_no_frame_are_refused():
    with pytest.raises(EOFError, match="no frame starts at byte"):
        whole_frames(memoryview(zstandard.compress(b"x") + b"noise"))
