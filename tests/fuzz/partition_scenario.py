"""Nineteen steps of a partition that cover every operation on files, and the right state after each.

`rehearse` runs it undisturbed, once; `run` runs it on a disk that is armed with some fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

from fuzz.batches import a_batch_of, a_marker
from fuzz.log_machine import START_MS, read_everything
from fuzz.plain_log import Content, Row
from fuzz.store_machine import DIRECTORY, PARTITION, TOPIC_ID, StoreLog
from support.files.faulty_file_system import FaultyFileSystem

from broker_core.model.identifiers import CompressionType, IsolationLevel
from broker_core.storage.writable_partition import WritablePartition

CONFIGS = {
    "internal.segment.bytes": "700",
    "index.interval.bytes": "300",
    "cleanup.policy": "compact,delete",
    "retention.ms": "3600000",
    "min.cleanable.dirty.ratio": "0",
}
PLAIN_ID, TRANSACTIONAL_ID, LAST_ID = 1, 2, 3


@dataclass(frozen=True)
class State:
    """What readers see."""

    start: int
    end: int
    rows: tuple[Row, ...]
    committed: tuple[Row, ...]


EMPTY = State(0, 0, (), ())


def state_of(log: StoreLog) -> State:
    start, end = log.bounds().log_start_offset, log.bounds().log_end_offset
    seen, committed = (tuple(read_everything(log, start, 10**6, isolation)) for isolation in IsolationLevel)
    return State(start, end, seen, committed)


@dataclass(frozen=True)
class ScenarioStep:
    name: str
    do: Callable[[StoreLog], object]
    may_be_repeated: bool = True


def contents(first: int, count: int, *, at_ms: int = START_MS) -> list[Content]:
    return [
        Content(at_ms + n, b"key-%d" % (n % 5), b"value %d " % n * 4, (("n", b"%d" % n),))
        for n in range(first, first + count)
    ]


def appending(first: int, counts: list[int], codec: CompressionType, producer_id: int = PLAIN_ID) -> ScenarioStep:
    """Idempotent, so that it may be sent again whether it had landed or not."""

    def do(log: StoreLog) -> object:
        batches, at = bytearray(), first
        for count in counts:
            stamped = {"producer": (producer_id, 0, at), "is_transactional": producer_id == TRANSACTIONAL_ID}
            batches += a_batch_of(contents(at, count), codec, **stamped)
            at += count
        return log.append(batches, START_MS)

    return ScenarioStep(f"append {counts} from {first}, {codec.name}", do)


def ending(*, commit: bool) -> ScenarioStep:
    marker = a_marker(TRANSACTIONAL_ID, commit=commit, timestamp_ms=START_MS)
    return ScenarioStep("commit" if commit else "abort", lambda log: log.append_marker(marker[:], START_MS), False)


def scenario() -> Iterator[ScenarioStep]:
    yield appending(0, [3], CompressionType.NONE)
    yield appending(3, [2, 4], CompressionType.ZSTD)
    yield appending(0, [3], CompressionType.LZ4, TRANSACTIONAL_ID)
    yield appending(9, [6, 6, 6], CompressionType.NONE)
    yield ScenarioStep("delete records", lambda log: log.delete_records(2))
    yield ending(commit=False)
    yield appending(3, [2], CompressionType.NONE, TRANSACTIONAL_ID)
    yield appending(27, [5], CompressionType.GZIP)
    yield ending(commit=True)
    yield appending(32, [8], CompressionType.NONE)
    yield appending(40, [8], CompressionType.SNAPPY)
    yield ScenarioStep("compact", lambda log: log.compact(START_MS))
    yield ScenarioStep("delete segments", lambda log: log.delete_records(12))
    yield appending(48, [7, 7], CompressionType.NONE)
    yield ScenarioStep("compact again", lambda log: log.compact(START_MS + 1000))
    yield ScenarioStep("truncate", lambda log: log.truncate_to(log.bounds().log_end_offset - 7))
    yield appending(0, [4], CompressionType.NONE, LAST_ID)
    yield ScenarioStep("retention", lambda log: log.apply_retention(START_MS + 3_700_000))
    yield appending(4, [3, 3], CompressionType.LZ4, LAST_ID)


STEPS = list(scenario())


def prepared(fs: FaultyFileSystem) -> FaultyFileSystem:
    fs.make_directory("/log")
    fs.sync_directory("")
    return fs


def create(fs: FaultyFileSystem) -> None:
    WritablePartition.create(fs, DIRECTORY, PARTITION, TOPIC_ID)


def run(fs: FaultyFileSystem, on_step: Callable[[int], None]) -> StoreLog:
    """The scenario from the beginning; `on_step(n)` before step n. Raises Killed where the disk is armed."""
    create(fs)
    log = StoreLog(fs, CONFIGS)
    for number, step in enumerate(STEPS):
        on_step(number)
        step.do(log)
    on_step(len(STEPS))
    return log


@dataclass(frozen=True)
class Rehearsal:
    states: list[State]
    """State n: before step n."""
    calls: list[tuple[str, str]]
    first_call: int
    """Of the scenario: what comes before only makes the disk."""


@cache
def rehearse() -> Rehearsal:
    fs = prepared(FaultyFileSystem())
    first_call = len(fs.calls)
    states: list[State] = []

    def look(number: int) -> None:
        states.append(state_of(StoreLog(fs, CONFIGS)) if number else EMPTY)

    log = run(fs, look)
    assert log.store.verify() == []
    return Rehearsal(states, list(fs.calls), first_call)


def is_between(found: State, before: State, after: State) -> str | None:
    """Why `found` is not a state on the way from `before` to `after`; None if it is."""
    if not before.start <= found.start <= after.start:
        return f"log start {found.start} is not in {before.start}..{after.start}"
    if not min(before.end, after.end) <= found.end <= max(before.end, after.end):
        return f"log end {found.end} is not in {before.end}..{after.end}"
    known = {row.offset: row for row in (*before.rows, *after.rows)}
    strangers = [row for row in found.rows if known.get(row.offset) != row]
    if strangers:
        return f"rows that were never written: {strangers}"
    seen = {row.offset for row in found.rows}
    both = {row.offset for row in before.rows} & {row.offset for row in after.rows}
    lost = sorted(offset for offset in both - seen if offset >= found.start)
    if lost:
        return f"lost offsets {lost}"
    if list(found.rows) != sorted(found.rows, key=lambda row: row.offset):
        return "rows out of order"
    committed = {row.offset for row in (*before.committed, *after.committed)}
    early = [row for row in found.committed if row.offset not in committed]
    return f"rows of an undecided or aborted transaction: {early}" if early else None
