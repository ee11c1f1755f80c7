import random

import pytest
from support.builders.builders import (
    SOME_TIME_MS,
    a_batch,
    a_commit_marker,
    a_log,
    a_transactional_batch,
    with_header_field,
)
from support.builders.store_builders import SMALL_SEGMENTS, a_disk, a_store, append, files_of, offsets_in
from support.files.faulty_file_system import Killed

from broker_core.log.append_request import AppendRequest
from broker_core.log.producer_state import AppendOrigin
from broker_core.model.exceptions import (
    CorruptBatchError,
    CorruptDataError,
    DiskFullError,
    OutOfOrderSequenceError,
    StorageError,
    StreamlogError,
)
from broker_core.model.identifiers import IsolationLevel
from broker_core.storage.append_group import AppendOutcome


def append_group(store, *batches, now_ms=SOME_TIME_MS, is_synced=True):
    store.refresh()
    appends = [each if isinstance(each, AppendRequest) else AppendRequest(batches=bytearray(each)) for each in batches]
    return store.append_group(appends, now_ms=now_ms, is_synced=is_synced)


def places(outcomes):
    """(first, last) offset of what was appended, the kind of what was refused."""
    return [
        (each.result.base_offset, each.result.last_offset) if isinstance(each, AppendOutcome) else type(each)
        for each in outcomes
    ]


def syncs_of(fs, kind, *, since=0):
    return [path for call, path in fs.calls[since:] if call == "sync" and path.endswith(kind)]


def test_a_group_costs_one_sync_and_one_publish():
    fs = a_disk()
    store = a_store(fs)
    append(store)
    begun = len(fs.calls)
    assert places(append_group(store, a_batch(1), a_batch(2), a_batch(1))) == [(3, 3), (4, 5), (6, 6)]
    assert len(syncs_of(fs, ".log", since=begun)) == 1
    assert [path for call, path in fs.calls[begun:] if call == "write" and path.endswith("partition.bounds")] == [
        "/log/t-0/partition.bounds"
    ]
    assert offsets_in(a_store(fs, writable=False)) == list(range(7))


def test_a_refused_append_fails_alone_without_a_gap():
    store = a_store()
    damaged = a_batch(2)
    damaged[-1] ^= 1
    out_of_order = a_batch(1, producer=(7, 0, 5))
    outcomes = append_group(store, a_batch(1, producer=(7, 0, 0)), damaged, out_of_order, a_batch(2))
    assert places(outcomes) == [(0, 0), CorruptBatchError, OutOfOrderSequenceError, (1, 2)]
    assert offsets_in(store) == [0, 1, 2]


def test_appends_of_one_group_see_each_others_producer_state():
    store = a_store()
    first, second = a_batch(2, producer=(7, 0, 0)), a_batch(1, producer=(7, 0, 2))
    outcomes = append_group(store, first, second, first)
    assert places(outcomes) == [(0, 1), (2, 2), (0, 1)]
    assert [each.result.is_duplicate for each in outcomes] == [False, False, True]
    assert [each.producer_ids for each in outcomes] == [{7}, {7}, frozenset()]


def test_a_marker_may_follow_its_transaction_in_a_group():
    store = a_store()
    marker = AppendRequest(batches=bytearray(a_commit_marker()), origin=AppendOrigin.COORDINATOR)
    assert places(append_group(store, a_transactional_batch(2), marker)) == [(0, 1), (2, 2)]
    assert store.bounds().last_stable_offset == 3
    assert offsets_in(store, isolation=IsolationLevel.READ_COMMITTED) == [0, 1]


def test_segments_roll_in_the_middle_of_a_group():
    fs = a_disk()
    store = a_store(fs, **SMALL_SEGMENTS)
    outcomes = append_group(store, *[a_batch(3) for _ in range(8)])
    assert [each.result.base_offset for each in outcomes] == list(range(0, 24, 3))
    assert any(each.rolled for each in outcomes[1:])
    assert not outcomes[0].rolled
    assert len(files_of(fs, "log")) == 1 + sum(each.rolled for each in outcomes)
    assert offsets_in(store) == list(range(24))
    assert store.verify() == []
    assert a_store(fs).bounds() == store.bounds()


def test_a_group_of_only_refused_appends_writes_nothing():
    fs = a_disk()
    store = a_store(fs)
    append(store)
    begun = len(fs.calls)
    assert places(append_group(store, with_header_field(a_batch(1), 57, ">i", 5))) != [(3, 3)]
    assert len(fs.calls) == begun
    assert append_group(store) == []


def test_a_failed_sync_fails_the_whole_group_and_the_next_group_reuses_its_offsets():
    fs = a_disk()
    store = a_store(fs)
    append(store)
    before = fs.content("/log/t-0/00000000000000000000.log")
    damaged = a_batch(2)
    damaged[-1] ^= 1
    fs.fail_sync()
    outcomes = append_group(store, a_batch(1, producer=(7, 0, 0)), damaged, a_batch(1, producer=(7, 0, 0)))
    assert fs.hits["sync_failed"] == 1
    assert [type(each) for each in outcomes] == [StorageError] * 3
    assert fs.content("/log/t-0/00000000000000000000.log") == before
    assert places(append_group(store, a_batch(1, producer=(7, 0, 0)))) == [(3, 3)]
    assert offsets_in(store) == [0, 1, 2, 3]


def test_a_disk_that_fills_up_rolls_back_the_whole_group_with_its_new_segments():
    fs = a_disk()
    store = a_store(fs, **SMALL_SEGMENTS)
    append(store)
    before = {path for path in fs.snapshot() if not path.endswith(".tmp")}
    fs.fill_up_after(900)
    outcomes = append_group(store, *[a_batch(3) for _ in range(10)])
    assert fs.hits["disk_full"] >= 1
    assert [type(each) for each in outcomes] == [DiskFullError] * 10
    fs.free_space()
    assert offsets_in(a_store(fs, writable=False)) == [0, 1, 2]
    assert places(append_group(store, a_batch(2))) == [(3, 4)]
    assert {path for path in fs.snapshot() if path.endswith(".log")} == {p for p in before if p.endswith(".log")}
    assert store.verify() == []


def test_a_segment_begun_by_a_dead_writer_keeps_the_producer_state_when_earlier_segments_are_removed():
    batch, adopted, number = a_batch(3, producer=(7, 0, 0)), 0, 0
    while True:
        fs = a_disk()
        store = a_store(fs)
        append(store, batch[:])
        store.refresh()
        fs.kill_at_call(number)
        try:
            store.roll(SOME_TIME_MS)
            break
        except Killed:
            fs.restart()
        survivor = a_store(fs)
        append(survivor, a_batch(1))
        bases = [segment.base_offset for segment in survivor.segments()]
        if len(bases) > 1:
            adopted += 1
            survivor.refresh()
            survivor.delete_records(bases[1])
        assert append(a_store(fs), batch[:]).result.is_duplicate, fs.calls[-1]
        number += 1
    assert adopted > 5


def test_a_new_segment_has_empty_indexes_despite_leftovers_of_a_rollback():
    """A process that died while it did so: the others, who have the log open, see the log end where they know it."""
    fs = a_disk()
    store = a_store(fs)
    append(store)
    for kind in ("index", "timeindex", "txnindex"):
        fs.overwrite(f"/log/t-0/{3:020}.{kind}", b"\1" * 24)
    store.refresh()
    assert store.roll(SOME_TIME_MS)
    append(store)
    assert store.roll(SOME_TIME_MS)
    assert store.verify() == []
    assert offsets_in(store) == [0, 1, 2, 3, 4, 5]


def test_with_flush_policy_os_a_group_is_not_synced():
    fs = a_disk()
    store = a_store(fs, **{"flush.policy": "os"})
    append(store)
    begun = len(fs.calls)
    append_group(store, a_batch(1), a_batch(1))
    assert syncs_of(fs, ".log", since=begun) == []
    assert offsets_in(a_store(fs, writable=False)) == [0, 1, 2, 3, 4]
    store.flush()
    assert len(syncs_of(fs, ".log", since=begun)) == 1
    fs.power_loss()
    assert offsets_in(a_store(fs, writable=False)) == [0, 1, 2, 3, 4]


def test_the_writers_bounds_and_producers_match_the_published_ones():
    fs = a_disk()
    store = a_store(fs)
    append_group(store, a_batch(2, producer=(7, 0, 0)), a_transactional_batch(1, producer_id=8))
    assert store.written_bounds() == store.bounds()
    assert store.producer_entries() == {number: store.producer_entry(number) for number in (7, 8)}
    fs.fail_sync()
    append_group(store, a_batch(1))
    assert store.written_bounds() == store.bounds()
    assert store.bounds().log_end_offset == 3


def test_the_leader_epochs_match_the_checkpoint():
    fs = a_disk()
    reader = a_store(fs, writable=False)
    assert reader.leader_epochs().encode() == "0\n1\n0 0\n"
    fs.remove("/log/t-0/leader-epoch-checkpoint")
    assert reader.leader_epochs().entries == ()
    fs.overwrite("/log/t-0/leader-epoch-checkpoint", b"\xff")
    with pytest.raises(CorruptDataError):
        reader.leader_epochs()


def group_of_a_crash():
    """Plain, transactional and rolling appends, each of its own kind of file."""
    return [
        a_batch(3, producer=(1, 0, 0)),
        a_transactional_batch(2),
        AppendRequest(batches=bytearray(a_commit_marker()), origin=AppendOrigin.COORDINATOR),
        a_log(a_batch(3), a_batch(3)),
        a_batch(3, producer=(1, 0, 3)),
    ]


@pytest.mark.parametrize("mode", ["process", "torn", "power", "power, some sectors"])
def test_a_crash_at_any_file_operation_of_a_group_loses_no_acknowledged_append(mode):
    whole = a_store(**SMALL_SEGMENTS)
    append(whole)
    append_group(whole, *group_of_a_crash())
    end = whole.bounds().log_end_offset
    for call in range(1000):
        fs = a_disk()
        store = a_store(fs, **SMALL_SEGMENTS)
        append(store)
        fs.kill_at_call(call, torn_bytes=70 if mode == "torn" else None)
        try:
            append_group(store, *group_of_a_crash())
        except Killed:
            assert fs.hits["killed"] + fs.hits["torn_write"] == 1
        else:
            assert call > 20
            return
        if mode in ("process", "torn"):
            fs.restart()
            # The next reader sees whole groups only: the one that was acknowledged, or both.
            assert a_store(fs, writable=False, **SMALL_SEGMENTS).bounds().log_end_offset in (3, end)
        else:
            fs.power_loss(random.Random(call) if mode == "power, some sectors" else None)
        after = a_store(fs, **SMALL_SEGMENTS)
        after.refresh()
        found = offsets_in(after)
        assert found[:3] == [0, 1, 2]
        assert 3 <= after.bounds().log_end_offset <= end
        assert after.verify() == []
        again = append_group(after, a_batch(3, producer=(1, 0, 0)))
        assert not isinstance(again[0], StreamlogError)
        assert again[0].result.base_offset == 3 or not found[3:]
    raise AssertionError("the group has no end")


def test_an_append_that_begins_a_segment_is_visible_only_after_all_syncs():
    """The failure was answered with an error, and what readers had seen was rolled back."""
    fs = a_disk()
    store, reader = a_store(fs, **SMALL_SEGMENTS), a_store(fs, writable=False, **SMALL_SEGMENTS)
    append(store)
    rolls = 0
    for _ in range(20):
        first_call, count = len(fs.calls), len(reader.segments())
        append(store)
        is_visible = False
        for kind, path in fs.calls[first_call:]:
            is_visible |= kind == "write" and path.endswith("partition.bounds")
            assert not (is_visible and kind.startswith("sync")), (kind, path)
        rolls += len(reader.segments()) - count
    assert rolls > 2
