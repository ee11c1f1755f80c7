"""Damaged files of every kind: found and named, or rebuilt; no wrong record, no quiet cut, no bare IndexError.

The partition lies on an in-memory disk, so that every byte can be damaged in turn. What a reader sees of it must be all
of the truth, or the truth up to a refusal that names file, position and offset.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

import pytest
from fuzz.batches import a_batch_of, rows_of
from fuzz.log_machine import START_MS
from fuzz.partition_scenario import appending, ending, prepared
from fuzz.plain_log import Content, Row
from fuzz.store_machine import DIRECTORY, PARTITION, TOPIC_ID, StoreLog
from support.files.faulty_file_system import FaultyFileSystem

from broker_core.model.exceptions import CorruptBatchError, CorruptDataError, DirectoryFormatError, StreamlogError
from broker_core.model.identifiers import CompressionType, IsolationLevel
from broker_core.model.topic_config import TopicConfig
from broker_core.record import columns
from broker_core.storage.readable_partition import ReadablePartition
from broker_core.storage.writable_partition import WritablePartition

CONFIGS = {"internal.segment.bytes": "800", "index.interval.bytes": "0", "retention.ms": "-1"}
KINDS = [
    "log", "index", "timeindex", "txnindex", "snapshot", "partition.bounds", "partition.metadata",
    "leader-epoch-checkpoint", "log-start-offset-checkpoint",
]  # fmt: skip
REBUILT = {"index", "timeindex", "txnindex", "snapshot", "partition.bounds"}
"""Kinds that hold nothing which the log does not say: damage to them may cost time, never a refusal."""


@dataclass(frozen=True)
class Truth:
    files: dict[str, bytes]
    rows: dict[IsolationLevel, list[Row]]
    log_start_offset: int
    log_end_offset: int
    timestamps: dict[int, tuple[int, int] | None]
    batches: dict[str, list[tuple[int, int, int]]]
    """Per .log: (position, size, base offset)."""


@cache
def truth() -> Truth:
    fs = prepared(FaultyFileSystem())
    WritablePartition.create(fs, DIRECTORY, PARTITION, TOPIC_ID)
    log = StoreLog(fs, CONFIGS)
    steps = [
        appending(0, [3], CompressionType.NONE), appending(3, [2, 4], CompressionType.ZSTD),
        appending(0, [3], CompressionType.LZ4, 2), appending(9, [6], CompressionType.NONE), ending(commit=False),
        appending(3, [2], CompressionType.NONE, 2), appending(15, [4], CompressionType.GZIP), ending(commit=True),
        appending(19, [6], CompressionType.SNAPPY), appending(25, [5, 5], CompressionType.NONE),
    ]  # fmt: skip
    for step in steps:
        step.do(log)
    log.delete_records(2)
    log.close()
    log = StoreLog(fs, CONFIGS)
    rows = {isolation: seen_by(log.store, isolation) for isolation in IsolationLevel}
    assert len(rows[0]) - len(rows[1]) == 3
    times = sorted({row.timestamp_ms + step for row in rows[0] for step in (0, 1)})
    found = {t: log.find_timestamp(t) for t in times}
    files = fs.snapshot()
    return Truth(
        files,
        rows,
        log.bounds().log_start_offset,
        log.bounds().log_end_offset,
        {t: f and (f.offset, f.timestamp_ms) for t, f in found.items()},
        {path: batches_in(content) for path, content in files.items() if path.endswith(".log")},
    )


def batches_in(content: bytes) -> list[tuple[int, int, int]]:
    found, position = [], 0
    while position < len(content):
        size = 12 + int.from_bytes(content[position + 8 : position + 12])
        found.append((position, size, int.from_bytes(content[position : position + 8])))
        position += size
    return found


def seen_by(store: ReadablePartition, isolation: IsolationLevel, into: list[Row] | None = None) -> list[Row]:
    """What a reader gets; `into` keeps what came before a refusal."""
    found = [] if into is None else into
    bounds = store.bounds()
    offset, aborted = bounds.log_start_offset, columns.AbortedFilter() if isolation else None
    while offset < bounds.readable_end(isolation):
        fetched = store.read(offset, max_bytes=300, isolation=isolation)
        found += rows_of(fetched, offset, aborted=aborted)
        assert fetched.next_offset > offset
        offset = fetched.next_offset
    return found


def a_disk_with(path: str, damaged: bytes | None) -> FaultyFileSystem:
    fs = FaultyFileSystem()
    fs.make_directory("/log")
    fs.make_directory(DIRECTORY)
    for name, content in truth().files.items():
        fs.overwrite(name, content)
    if damaged is None:
        fs.remove(path)
    else:
        fs.overwrite(path, damaged)
    return fs


Opened = TypeVar("Opened", ReadablePartition, WritablePartition)


def opened(fs: FaultyFileSystem, kind: type[Opened]) -> Opened:
    return kind.open(fs, DIRECTORY, PARTITION, config=TopicConfig.from_strings(CONFIGS), topic_id=TOPIC_ID)


def what_goes_wrong(path: str, damaged: bytes | None, at: int | None, kind: str) -> str | None:
    """None when all is as it should be."""
    fs = a_disk_with(path, damaged)
    try:
        wrong = _reader(fs, path, kind, at) or _writer(fs, path, kind, at)
    except StreamlogError as refusal:
        wrong = _refused(refusal, path, kind, at)
    except Exception as bare:
        wrong = f"a bare {type(bare).__name__}: {bare}"
    return wrong


def _reader(fs: FaultyFileSystem, path: str, kind: str, at: int | None) -> str | None:
    before = fs.snapshot()
    store = opened(fs, ReadablePartition)
    whole = truth()
    wrong = None
    for isolation in IsolationLevel:
        found: list[Row] = []
        try:
            seen_by(store, isolation, found)
            # An older slot of the bounds is also true, until the next writer reads what follows it.
            complete = found == whole.rows[isolation] or kind == "partition.bounds"
        except StreamlogError as refusal:
            wrong = _refused(refusal, path, kind, at)
            complete = True
        strangers = [row for row in found if row not in whole.rows[isolation]]
        if strangers:
            return f"wrong records: {strangers}"
        if wrong or not complete:
            return wrong or f"{len(found)} of {len(whole.rows[isolation])} rows, and no word about it"
    for asked_ms, expected in whole.timestamps.items():
        try:
            answer = store.find_offset_by_timestamp(asked_ms)
        except CorruptDataError as refusal:
            wrong = wrong or _refused(refusal, path, kind, at)
            continue
        if kind != "partition.bounds" and (answer and (answer.offset, answer.timestamp_ms)) != expected:
            return f"timestamp {asked_ms}: {answer}, not {expected}"
    if fs.snapshot() != before:
        return "a reader changed files"
    return wrong


def _writer(fs: FaultyFileSystem, path: str, kind: str, at: int | None) -> str | None:
    before = fs.snapshot()
    store = opened(fs, WritablePartition)
    refused = None
    try:
        store.refresh()
        end = store.append(a_batch_of([Content(START_MS, b"new", b"new")]), now_ms=START_MS).result.base_offset
    except StreamlogError as refusal:
        end, refused = truth().log_end_offset, refusal
    after = fs.snapshot()
    for name, content in before.items():
        if name.endswith(".log") and not after.get(name, b"").startswith(content):
            return f"{name} was cut or changed"
    if refused is not None:
        return _refused(refused, path, kind, at)
    if end != truth().log_end_offset:
        return f"the next append landed at {end}, not at {truth().log_end_offset}"
    found: list[Row] = []
    try:
        seen_by(store, IsolationLevel.READ_UNCOMMITTED, found)
    except StreamlogError as refusal:
        return _refused(refusal, path, kind, at)
    rows = [row for row in found if row.offset < end]
    if rows != truth().rows[IsolationLevel.READ_UNCOMMITTED]:
        return f"after a writer came there are {len(rows)} rows from {rows[0].offset if rows else None}"
    if kind != "log":
        return None
    return None if store.verify() else "it was not detected"


def _refused(refusal: StreamlogError, path: str, kind: str, at: int | None) -> str | None:
    """Whether this refusal is right for that damage."""
    if kind in REBUILT:
        return f"refused instead of rebuilt: {refusal}"
    if path not in str(refusal):
        return f"does not name {path}: {refusal}"
    if kind != "log":
        return None if isinstance(refusal, DirectoryFormatError | CorruptDataError) else f"the wrong kind: {refusal!r}"
    if not isinstance(refusal, CorruptDataError):
        return f"the wrong kind: {refusal!r}"
    if at is None or not isinstance(refusal, CorruptBatchError):
        return None
    position, size, _ = next(b for b in truth().batches[path] if b[0] <= at < b[0] + b[1])
    # A base offset that is too low shows only at the next batch.
    places = [(path, position), (path, position + size)]
    if (refusal.fields.get("file"), refusal.fields.get("position")) not in places:
        return f"the damage is in the batch at {position}: {refusal}"
    return None if refusal.fields.get("offset") is not None else f"names no offset: {refusal}"


def paths_of(kind: str) -> list[str]:
    found = [path for path in truth().files if path.endswith((f".{kind}", f"/{kind}"))]
    assert found, f"the disk has no {kind}"
    return found


EPOCH_BYTES = range(12, 16)
DEPTHS = ["many places", pytest.param("every byte", marks=[pytest.mark.long, pytest.mark.timeout(3600)])]


def places_in(path: str, kind: str, depth: str) -> list[int]:
    """Where to damage a file: all of what is small or carries structure, every so often in what is only content."""
    size = len(truth().files[path])
    if kind == "log":
        # No record depends on the leader epoch, and no checksum covers it.
        places = [at for at in range(size) if position_in_batch(path, at) not in EPOCH_BYTES]
        if depth == "every byte":
            return places
        # Every eleventh byte of a header, so each of its fields in some batch.
        return [at for at in places if (position_in_batch(path, at) < 61 and at % 11 == 0) or at % 61 == 0]
    if depth == "every byte":
        return list(range(size))
    if size < 90:
        return list(range(0, size, 2))
    structured = range(0, 104, 5) if kind == "partition.bounds" else range(0, 20, 2)
    return [at for at in range(size) if at % 512 in structured or at % 47 == 0]


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_flipped_bit_is_detected_or_harmless(kind, depth):
    rng = random.Random(kind)
    found, count = {}, 0
    for path in paths_of(kind):
        for position in places_in(path, kind, depth):
            damaged = bytearray(truth().files[path])
            damaged[position] ^= 1 << rng.randrange(8)
            count += 1
            wrong = what_goes_wrong(path, bytes(damaged), position, kind)
            if wrong:
                found[path.rpartition("/")[2], position, damaged[position] ^ truth().files[path][position]] = wrong
    assert count
    assert not found, f"{len(found)} of {count}: {dict(list(found.items())[:12])}"


def position_in_batch(path: str, position: int) -> int:
    return next(position - start for start, size, _ in truth().batches[path] if start <= position < start + size)


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_truncated_file_is_detected_or_harmless(kind, depth):
    found, count = {}, 0
    for path in paths_of(kind):
        content = truth().files[path]
        sizes = set(range(0, len(content), 1 if depth == "every byte" else max(1, len(content) // 6)))
        for size in sorted(sizes | {position for position, _, _ in truth().batches.get(path, [])}):
            count += 1
            wrong = what_goes_wrong(path, content[:size], None, kind)
            if wrong:
                found[path.rpartition("/")[2], size] = wrong
    assert count
    assert not found, f"{len(found)} of {count}: {dict(list(found.items())[:12])}"


@pytest.mark.parametrize("kind", [k for k in KINDS if k in REBUILT])
def test_a_missing_file_is_rebuilt(kind):
    found = {path: wrong for path in paths_of(kind) if (wrong := what_goes_wrong(path, None, None, kind))}
    assert not found


@pytest.mark.parametrize("kind", [k for k in KINDS if k in REBUILT])
def test_a_file_with_foreign_content_is_rebuilt(kind):
    rng = random.Random(kind)
    found = {}
    for path in paths_of(kind):
        size = len(truth().files[path])
        other = paths_of("index")[0]
        for name, damaged in {
            "noise": rng.randbytes(size), "zeros": bytes(size), "ones": b"\xff" * size, "longer": bytes(size * 3 + 5),
            "another file": truth().files[other], "text": b"hello\n" * 20,
        }.items():  # fmt: skip
            wrong = what_goes_wrong(path, damaged, None, kind)
            if wrong:
                found[path.rpartition("/")[2], name] = wrong
    assert not found


def test_only_garbage_after_the_flushed_range_is_truncated():
    path = max(paths_of("log"))
    whole = truth().files[path]
    for garbage in (b"\0" * 100, b"\xff" * 30, whole[:61], random.Random(3).randbytes(5000), whole[: len(whole) // 2]):
        fs = a_disk_with(path, whole + garbage)
        reader = opened(fs, ReadablePartition)
        assert seen_by(reader, IsolationLevel.READ_UNCOMMITTED) == truth().rows[IsolationLevel.READ_UNCOMMITTED]
        writer = opened(fs, WritablePartition)
        writer.refresh()
        assert fs.content(path) == whole
        assert writer.verify() == []
