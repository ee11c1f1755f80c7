"""Appends that a loop begins, and ends when their sync has come back from elsewhere."""

import random

import pytest
from support.builders.builders import SOME_TIME_MS, a_batch, a_transactional_batch, an_abort_marker, with_header_field
from support.builders.store_builders import SMALL_SEGMENTS, a_disk, a_store, append, files_of, offsets_in
from support.files.faulty_file_system import Killed

from broker_core.log.append_request import AppendRequest
from broker_core.log.producer_state import AppendOrigin
from broker_core.model.exceptions import DiskFullError, StorageError, StreamlogError
from broker_core.storage.append_group import AppendOutcome


def grouped(batches):
    return [each if isinstance(each, AppendRequest) else AppendRequest(batches=bytearray(each)) for each in batches]


def append_group(store, *batches):
    store.refresh()
    return store.append_group(grouped(batches), now_ms=SOME_TIME_MS, is_synced=True)


def places(outcomes):
    """(first, last) offset of what was appended, the kind of what was refused."""
    return [
        (each.result.base_offset, each.result.last_offset) if isinstance(each, AppendOutcome) else type(each)
        for each in outcomes
    ]


def syncs_of(fs, kind, *, since=0):
    return [path for call, path in fs.calls[since:] if call == "sync" and path.endswith(kind)]


def begin_append(store, *batches):
    return store.begin_append(grouped(batches), now_ms=SOME_TIME_MS)


def test_a_started_append_is_synced_and_visible_only_when_published():
    fs = a_disk()
    store = a_store(fs)
    append(store)
    begun = len(fs.calls)
    started = begin_append(store, a_batch(1), a_batch(2))
    assert places(started.outcomes) == [(3, 3), (4, 5)]
    assert started.needs_sync
    assert {call for call, _ in fs.calls[begun:]} == {"write"}
    assert store.written_bounds().log_end_offset == 3
    started.sync()
    assert len(syncs_of(fs, ".log", since=begun)) == 1
    assert offsets_in(a_store(fs, writable=False)) == [0, 1, 2]
    started.publish()
    assert len(syncs_of(fs, ".log", since=begun)) == 1
    assert offsets_in(a_store(fs, writable=False)) == [0, 1, 2, 3, 4, 5]
    assert store.written_bounds() == store.bounds()
    assert places(append_group(store, a_batch(1))) == [(6, 6)]


def test_a_rolled_back_append_leaves_nothing():
    fs = a_disk()
    store = a_store(fs)
    append(store)
    before = fs.snapshot()
    for is_synced in (False, True):
        started = begin_append(store, a_batch(1, producer=(7, 0, 0)), a_transactional_batch(2, producer_id=8))
        if is_synced:
            started.sync()
        started.rollback()
        assert not store.is_loaded
        assert fs.snapshot() == before
        store.refresh()
    assert store.producer_entries() == {}
    assert places(append_group(store, a_batch(1, producer=(7, 0, 0)))) == [(3, 3)]


def test_a_started_turn_ends_before_an_append_that_begins_a_segment():
    fs = a_disk()
    store = a_store(fs, **SMALL_SEGMENTS)
    append(store)
    batches = [bytearray(a_batch(3)) for _ in range(8)]
    started = begin_append(store, *batches)
    count = len(started.outcomes)
    assert 0 < count < 8
    assert not any(each.rolled for each in started.outcomes)
    started.sync()
    started.publish()
    assert len(files_of(fs, "log")) == 1
    assert begin_append(store, *batches[count:]).outcomes == []
    # The same buffers, which have got offsets by then.
    assert places(append_group(store, *batches[count:])) == [(at, at + 2) for at in range(3 + 3 * count, 27, 3)]
    assert offsets_in(store) == list(range(27))
    assert store.verify() == []


def test_without_a_write_there_is_nothing_to_sync():
    fs = a_disk()
    store = a_store(fs)
    known = a_batch(2, producer=(7, 0, 0))
    append(store, known)
    begun = len(fs.calls)
    started = begin_append(store, known, with_header_field(a_batch(1), 57, ">i", 5))
    assert places(started.outcomes)[0] == (0, 1)
    assert isinstance(started.outcomes[1], StreamlogError)
    assert not started.needs_sync
    started.publish()
    started.rollback()
    assert len(fs.calls) == begun


def test_with_flush_policy_os_a_started_append_needs_no_sync():
    fs = a_disk()
    store = a_store(fs, **{"flush.policy": "os"})
    append(store)
    begun = len(fs.calls)
    started = begin_append(store, a_batch(1))
    assert not started.needs_sync
    started.publish()
    assert syncs_of(fs, ".log", since=begun) == []
    assert offsets_in(a_store(fs, writable=False)) == [0, 1, 2, 3]
    store.flush()
    assert len(syncs_of(fs, ".log", since=begun)) == 1


def test_a_disk_that_fills_up_rolls_back_a_started_append_immediately():
    fs = a_disk()
    store = a_store(fs)
    append(store)
    before = fs.content("/log/t-0/00000000000000000000.log")
    fs.fill_up_after(100)
    with pytest.raises(DiskFullError):
        begin_append(store, a_batch(1), a_batch(3))
    assert fs.hits["disk_full"] >= 1
    fs.free_space()
    assert fs.content("/log/t-0/00000000000000000000.log") == before
    assert places(append_group(store, a_batch(1))) == [(3, 3)]


def test_a_failed_publish_rolls_back_a_synced_append():
    fs = a_disk()
    store = a_store(fs)
    append(store)
    started = begin_append(store, a_batch(1))
    started.sync()
    before = fs.content("/log/t-0/00000000000000000000.log")[: -len(a_batch(1))]
    fs.is_read_only = True
    with pytest.raises(StorageError):
        started.publish()
    assert fs.hits["read_only"] >= 1
    fs.is_read_only = False
    assert offsets_in(a_store(fs, writable=False)) == [0, 1, 2]
    # The disk did not let it be cut away either: whole, and kept by the next refresh. It was never acknowledged.
    store.refresh()
    assert fs.content("/log/t-0/00000000000000000000.log").startswith(before)
    assert offsets_in(store) == [0, 1, 2, 3]
    assert store.verify() == []


STEPS = ["sync", "publish", "answer"]
TURN = [0, 1, 2, 3, 4, 5, 7]
"""Of data records when the whole turn is there; 6 is the marker."""


def begin_a_turn(store):
    started = begin_append(
        store,
        a_batch(1, producer=(1, 0, 0)),
        a_transactional_batch(2),
        AppendRequest(batches=bytearray(an_abort_marker()), origin=AppendOrigin.COORDINATOR),
        a_batch(1, producer=(1, 0, 1)),
    )
    assert places(started.outcomes) == [(3, 3), (4, 5), (6, 6), (7, 7)]
    return started


def recovered(fs, mode, survivors):
    """The offsets that the next writer finds, after a look at what was acknowledged and at the log's own rules."""
    if mode in ("process", "torn"):
        fs.restart()
        # The next reader sees the turn as a whole, or nothing of it.
        assert a_store(fs, writable=False).bounds().log_end_offset in (3, 8)
    else:
        fs.power_loss(survivors if mode == "power, some sectors" else None)
    after = a_store(fs)
    after.refresh()
    found = offsets_in(after)
    assert found == TURN[: len(found)]
    assert found[:3] == [0, 1, 2]
    assert after.verify() == []
    # A producer that heard nothing tries again.
    last_sequence = 1 if len(found) == len(TURN) else 0
    again = append_group(after, a_batch(1, producer=(1, 0, last_sequence)))
    assert again[0].result.is_duplicate == (len(found) > 3)
    return found


@pytest.mark.parametrize("mode", ["process", "torn", "power", "power, some sectors"])
def test_a_crash_at_any_file_operation_of_a_turn_loses_no_acknowledged_append(mode):
    for call in range(100):
        fs = a_disk()
        store = a_store(fs)
        append(store)
        fs.kill_at_call(call, torn_bytes=70 if mode == "torn" else None)
        try:
            started = begin_a_turn(store)
            started.sync()
            started.publish()
        except Killed:
            assert fs.hits["killed"] + fs.hits["torn_write"] == 1
            recovered(fs, mode, random.Random(call))
        else:
            assert recovered(fs, mode, random.Random(call)) == TURN
            assert call > 5
            return
    raise AssertionError("the turn has no end")


@pytest.mark.parametrize("mode", ["process", "power", "power, some sectors"])
@pytest.mark.parametrize("step", STEPS)
def test_a_crash_between_the_steps_of_a_turn_keeps_all_synced_data(mode, step):
    for seed in range(10):
        fs = a_disk()
        store = a_store(fs)
        append(store)
        started = begin_a_turn(store)
        if step != "sync":
            started.sync()
        if step == "answer":
            started.publish()
        found = recovered(fs, mode, random.Random(seed))
        if mode == "process" or step != "sync":
            assert found == TURN


@pytest.mark.parametrize("mode", ["process", "torn", "power", "power, some sectors"])
def test_a_crash_at_any_file_operation_of_a_rollback_leaves_a_usable_log(mode):
    for call in range(100):
        fs = a_disk()
        store = a_store(fs)
        append(store)
        started = begin_a_turn(store)
        fs.fail_sync()
        with pytest.raises(StorageError):
            started.sync()
        assert fs.hits["sync_failed"] == 1
        fs.kill_at_call(call, torn_bytes=70 if mode == "torn" else None)
        try:
            started.rollback()
        except Killed:
            recovered(fs, mode, random.Random(call))
        else:
            assert recovered(fs, mode, random.Random(call)) == TURN[:3]
            assert call > 2
            return
    raise AssertionError("the rolling back has no end")
