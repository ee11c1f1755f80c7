"""A crash between any two file operations, and in the middle of any write: what was acknowledged is there afterwards.

The scenario is run once to its end, which gives the state after each step and the number of file operations; then it
is run again and killed at each of these operations. What is found must lie between the state before the step and the
state after it.
"""

from __future__ import annotations

import random

import pytest
from fuzz.batches import a_batch_of
from fuzz.log_machine import START_MS
from fuzz.partition_scenario import (
    CONFIGS,
    EMPTY,
    STEPS,
    ScenarioStep,
    State,
    contents,
    create,
    is_between,
    prepared,
    rehearse,
    run,
    state_of,
)
from fuzz.store_machine import StoreLog
from support.files.faulty_file_system import FaultyFileSystem, Killed, Neighbour

from broker_core.model.exceptions import StorageError, StreamlogError


def test_the_scenario_covers_every_operation_that_changes_files():
    rehearsal = rehearse()
    kinds = {kind for kind, _ in rehearsal.calls}
    endings = {path.rsplit(".", 1)[-1] for _, path in rehearsal.calls}
    assert kinds >= {"create", "write", "sync", "rename", "remove", "truncate", "sync_directory", "make_directory"}
    assert endings >= {"log", "index", "timeindex", "txnindex", "snapshot", "bounds", "cleaned", "swap", "deleted"}
    lengths = [len(state.rows) for state in rehearsal.states]
    shrank = [STEPS[n].name for n in range(len(STEPS)) if lengths[n + 1] < lengths[n]]
    assert shrank == ["delete records", "compact", "compact again", "truncate", "retention"]


def recover(fs: FaultyFileSystem, crash_again_at: int | None) -> StoreLog:
    """A new process takes over. It, too, may die on its way, and a third one comes."""
    create(fs)
    if crash_again_at is not None:
        fs.kill_at_call(crash_again_at)
        try:
            StoreLog(fs, CONFIGS).store.refresh()
        except Killed:
            fs.hits["killed_in_recovery"] += 1
        fs.restart()
    log = StoreLog(fs, CONFIGS)
    log.store.refresh()
    return log


def crash_beside_another(fs: FaultyFileSystem, phase: int) -> str | None:
    """What is wrong for a process that has the log open and looks at it every third step, when another one dies on this
    disk and it goes on alone."""
    prepared(fs)
    reached, neighbours = [-1], []

    def on_step(number: int) -> None:
        reached.append(number)
        if number % 3 == phase:
            if not neighbours:
                neighbours.append(StoreLog(Neighbour(fs), CONFIGS))
            before = len(fs.calls)
            neighbours[0].store.refresh()
            assert len(fs.calls) == before, "looking changes nothing"

    try:
        run(fs, on_step)
    except Killed:
        assert fs.hits["killed"] == 1
    except StorageError:
        assert fs.hits["sync_failed"] == 1
    fs.restart()
    return _maintain(fs, reached[-1], neighbour=neighbours[0] if neighbours else None)


def crash_at(call: int, mode: str, torn_bytes: int | None = None) -> str | None:
    """What is wrong after a crash at this file operation; None if nothing is."""
    fs = prepared(FaultyFileSystem())
    reached = [-1]
    fs.kill_at_call(call, torn_bytes=torn_bytes)
    try:
        run(fs, lambda number: reached.append(number))
        return "the fault was not hit"
    except Killed:
        assert fs.hits["killed"] + fs.hits["torn_write"] == 1
    if mode == "process":
        fs.restart()
        wrong = _reader_alone(fs, reached[-1])
        if wrong:
            return wrong
    else:
        fs.power_loss(random.Random(call) if mode == "power, some sectors" else None)
        assert fs.hits["power_loss"] == 1
    return _maintain(fs, reached[-1], crash_again_at=call % 7 if call % 2 else None)


def _reader_alone(fs: FaultyFileSystem, number: int) -> str | None:
    """What is wrong for somebody who reads before anybody repairs anything, and may not write."""
    if number < 0:
        return None
    states, calls = rehearse().states, len(fs.calls)
    reader = StoreLog(fs, CONFIGS, writable=False)
    try:
        wrong = is_between(state_of(reader), states[number], states[number + 1])
    except StreamlogError as refusal:
        return f"a reader is refused: {refusal}"
    return f"for a reader: {wrong}" if wrong else "a reader changed files" if len(fs.calls) > calls else None


def _maintain(
    fs: FaultyFileSystem, number: int, *, crash_again_at: int | None = None, neighbour: StoreLog | None = None
) -> str | None:
    """What is wrong after a fault in step `number`; -1 is the making of the folder. For `neighbour`, who has the log
    open; without one a new process comes."""
    states = rehearse().states
    before, after = (states[number], states[number + 1]) if number >= 0 else (EMPTY, EMPTY)
    try:
        log = neighbour or recover(fs, crash_again_at)
        log.store.refresh()
        return _what_is_wrong(fs, log, before, after, STEPS[number] if number >= 0 else None)
    except StreamlogError as refusal:
        return f"refused: {refusal}"


def _what_is_wrong(
    fs: FaultyFileSystem, log: StoreLog, before: State, after: State, step: ScenarioStep | None
) -> str | None:
    found = state_of(log)
    wrong = is_between(found, before, after)
    if wrong:
        return wrong
    if state_of(StoreLog(fs, CONFIGS)) != found:
        return "another process sees something else"
    findings = log.store.verify()
    if findings:
        return f"verify: {findings}"
    if step is not None and step.name.startswith("append"):
        # No answer said whether it was written, so the producer sends it again.
        step.do(log)
        if state_of(log) != after:
            return f"sent again, the log is {state_of(log)}, not {after}"
    elif step is not None and step.may_be_repeated and step.name != "truncate":
        step.do(log)
        wrong = is_between(state_of(log), before, after)
        if wrong:
            return f"done again: {wrong}"
    end = log.bounds().log_end_offset
    log.append(a_batch_of(contents(500, 2)), START_MS)
    later = state_of(StoreLog(fs, CONFIGS))
    if later.end != end + 2 or [row.offset for row in later.rows[-2:]] != [end, end + 1]:
        return "appending does not go on"
    log.roll(START_MS)
    findings = log.store.verify()
    return f"verify, when it has gone on: {findings}" if findings else None


MODES = ["process", "power", "power, some sectors"]


@pytest.mark.parametrize("mode", ["each in turn", *(pytest.param(mode, marks=pytest.mark.long) for mode in MODES)])
def test_a_crash_before_any_file_operation_loses_nothing_acknowledged(mode):
    """By default before every fifth operation."""
    rehearsal = rehearse()
    found = {}
    for call in range(0, len(rehearsal.calls) - rehearsal.first_call, 1 if mode in MODES else 5):
        wrong = crash_at(call, mode if mode in MODES else MODES[call % 3])
        if wrong:
            found[call, rehearsal.calls[rehearsal.first_call + call]] = wrong
    assert not found


EVERY = pytest.mark.parametrize("every", [11, pytest.param(1, marks=pytest.mark.long)])


@EVERY
def test_a_process_continues_after_another_dies_at_any_file_operation(every):
    rehearsal = rehearse()
    found = {}
    for call in range(0, len(rehearsal.calls) - rehearsal.first_call, every):
        fs = FaultyFileSystem()
        fs.kill_at_call(rehearsal.first_call + call)
        wrong = crash_beside_another(fs, call % 3)
        assert fs.hits["killed"] == 1
        if wrong:
            found[call, rehearsal.calls[rehearsal.first_call + call]] = wrong
    assert not found


class DiskThatFailsOneSync(FaultyFileSystem):
    def __init__(self, number: int) -> None:
        super().__init__()
        self._syncs_before = number

    def take_sync_failure(self) -> bool:
        self._syncs_before -= 1
        if self._syncs_before != -1:
            return False
        self.hits["sync_failed"] += 1
        return True


class DiskThatFailsAndKills(DiskThatFailsOneSync):
    """Whose process dies so many operations after a sync failed: while it rolls back what it wrote."""

    def __init__(self, failing: int, calls_left: int) -> None:
        super().__init__(failing)
        self._calls_left = calls_left

    def take_sync_failure(self) -> bool:
        fails = super().take_sync_failure()
        if fails:
            self.kill_at_call(self._calls_left)
        return fails


@EVERY
def test_a_process_continues_after_another_dies_during_a_rollback(every):
    rehearsal = rehearse()
    found, killed = {}, 0
    for failing in range(0, sum(kind == "sync" for kind, _ in rehearsal.calls[rehearsal.first_call :]), every):
        for calls_left in range(100):
            fs = DiskThatFailsAndKills(failing, calls_left)
            wrong = crash_beside_another(fs, failing % 3)
            assert fs.hits["sync_failed"] == 1
            killed += fs.hits["killed"]
            if wrong:
                found[failing, fs.calls[-1]] = wrong
            if not fs.hits["killed"]:
                break
    assert not found
    assert killed > 100 // every


@pytest.mark.parametrize(
    ("torn_bytes", "every"),
    [((1, 30), 2), *(pytest.param((size,), 1, marks=pytest.mark.long) for size in (1, 30, 150))],
)
def test_a_crash_inside_any_write_loses_nothing_acknowledged(torn_bytes, every):
    """By default in every other write, after one byte and after thirty in turn."""
    rehearsal = rehearse()
    found = {}
    writes = [number for number, (kind, _) in enumerate(rehearsal.calls[rehearsal.first_call :]) if kind == "write"]
    for turn, number in enumerate(writes[::every]):
        wrong = crash_at(number, MODES[turn % 3], torn_bytes[turn % len(torn_bytes)])
        if wrong:
            found[number, rehearsal.calls[rehearsal.first_call + number]] = wrong
    assert not found


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.long)])
def test_a_sync_that_fails_is_never_taken_for_a_success(every):
    """What was told as an error may have landed or not; what was acknowledged survives the loss of power after it."""
    found = {}
    rehearsal = rehearse()
    sync_count = sum(kind == "sync" for kind, _ in rehearsal.calls[rehearsal.first_call :])
    for failing in range(0, sync_count, every):
        wrong = _fail_sync(failing)
        if wrong:
            found[failing] = wrong
    assert not found


def _fail_sync(failing: int) -> str | None:
    fs = prepared(DiskThatFailsOneSync(failing))
    reached = [-1]
    try:
        run(fs, reached.append)
        if fs.hits["sync_failed"]:
            return None
        return "the fault was not hit"
    except StorageError:
        assert fs.hits["sync_failed"] == 1
    except OSError as raw:
        return f"a bare OSError in step {reached[-1]}: {raw}"
    fs.power_loss(random.Random(failing))
    return _maintain(fs, reached[-1])
