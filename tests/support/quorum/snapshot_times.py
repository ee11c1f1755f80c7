"""Snapshots of the metadata log without what differs between two that say the same: times, and checksums over them."""

from __future__ import annotations

from broker_core.record.batch_reader import iter_headers

_CHECKSUM, _TIMES = slice(17, 21), slice(27, 43)
_HEADER_TIME = slice(73, 81)
"""Of the last record that the snapshot stands for: in its first batch, which begins with a SnapshotHeader."""


def without_times(content: bytes) -> bytes:
    cleaned = bytearray(content)
    for position, header in iter_headers(content):
        batch = memoryview(cleaned)[position : position + header.size_bytes]
        batch[_CHECKSUM] = bytes(4)
        batch[_TIMES] = bytes(16)
        if position == 0:
            batch[_HEADER_TIME] = bytes(8)
    return bytes(cleaned)
