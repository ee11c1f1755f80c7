"""Batches for the fuzzing suites, written from Kafka's description of the format: no code of the encoders under test.

a_batch_of(contents, codec, producer=(id, epoch, first sequence), is_transactional=...)  a v2 batch at offset 0
a_marker(producer_id, commit=...)                                                    a coordinator's end marker
some_contents(seed, count, ...)                                                      records of every awkward kind
rows_of(fetched, from_offset)                                                        what a reader sees of a fetch
"""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import crc32c
from fuzz.plain_log import Content, Row

from broker_core.cluster import FetchedBatches
from broker_core.model.identifiers import CompressionType
from broker_core.record import columns
from broker_core.record.compression import compress

_BEHIND_CRC = struct.Struct(">hiqqqhii")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def a_batch_of(
    contents: Sequence[Content],
    codec: CompressionType = CompressionType.NONE,
    *,
    producer: tuple[int, int, int] = (-1, -1, -1),
    is_transactional: bool = False,
    is_control: bool = False,
) -> bytearray:
    first_ms = contents[0].timestamp_ms
    payload: bytes = b"".join(_record(slot, content, first_ms) for slot, content in enumerate(contents))
    if codec is not CompressionType.NONE:
        payload = bytes(compress(codec, payload))
    attributes = int(codec) | is_transactional << 4 | is_control << 5
    greatest_ms = max(content.timestamp_ms for content in contents)
    counted = _BEHIND_CRC.pack(attributes, len(contents) - 1, first_ms, greatest_ms, *producer, len(contents)) + payload
    checked = struct.pack(">ibI", -1, 2, crc32c.crc32c(counted)) + counted
    return bytearray(struct.pack(">qi", 0, len(checked)) + checked)


def a_marker(producer_id: int, *, commit: bool, timestamp_ms: int, producer_epoch: int = 0) -> bytearray:
    content = Content(timestamp_ms, struct.pack(">hh", 0, int(commit)), struct.pack(">hi", 0, 0))
    return a_batch_of([content], producer=(producer_id, producer_epoch, -1), is_transactional=True, is_control=True)


def _record(slot: int, content: Content, first_ms: int) -> bytes:
    body = (
        b"\0" + _varint(content.timestamp_ms - first_ms) + _varint(slot) + _bytes(content.key) + _bytes(content.value)
    )
    body += _varint(len(content.headers))
    for name, value in content.headers:
        body += _bytes(name.encode()) + _bytes(value)
    return _varint(len(body)) + body


def _bytes(data: bytes | None) -> bytes:
    return _varint(-1) if data is None else _varint(len(data)) + data


def _varint(number: int) -> bytes:
    zigzag = (number << 1) ^ (number >> 63)
    written = bytearray()
    while zigzag > 0x7F:
        written.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    written.append(zigzag)
    return bytes(written)


def some_contents(seed: int, count: int, *, now_ms: int, with_null_keys: bool = True) -> list[Content]:
    """Few keys, so that compaction has work; null and empty keys, values and header values; times out of order."""
    rng = random.Random(f"{seed} {count}")
    keys = [b"", *(b"key-%d" % n for n in range(6))] + ([None] if with_null_keys else [])
    return [
        Content(
            timestamp_ms=now_ms + rng.choice([0, 0, 1, 5, -3, -100_000]),
            key=rng.choice(keys),
            value=_some_value(rng),
            headers=_some_headers(rng),
        )
        for _ in range(count)
    ]


def _some_value(rng: random.Random) -> bytes | None:
    return rng.choice([None, b"", b"plain", rng.randbytes(rng.randrange(1, 50)), b"again " * rng.randrange(1, 9)])


def _some_headers(rng: random.Random) -> tuple[tuple[str, bytes | None], ...]:
    if rng.random() < 0.6:
        return ()
    return tuple((rng.choice(["a", "b", "", "ü"]), rng.choice([None, b"", b"v"])) for _ in range(rng.randrange(1, 4)))


def rows_of(fetched: FetchedBatches, from_offset: int, *, aborted: columns.AbortedFilter | None = None) -> list[Row]:
    if aborted is not None:
        aborted.add(fetched.aborted_transactions)
    decoded = columns.decode(
        fetched.buffer, from_offset=from_offset, until_offset=2**62, aborted=aborted, columns=columns.ALL_COLUMNS
    )
    table = decoded.record_batch.to_pydict()
    names = ("offset", "timestamp", "timestampType", "key", "value", "headers")
    return [
        Row(
            offset,
            (timestamp - _EPOCH) // _MILLISECOND,
            timestamp_type,
            key,
            value,
            tuple((h["key"], h["value"]) for h in headers or ()),
        )
        for offset, timestamp, timestamp_type, key, value, headers in zip(*(table[n] for n in names), strict=True)
    ]
