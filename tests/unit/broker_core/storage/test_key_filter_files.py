import itertools
import random

import pyarrow as pa
import pytest
from support.builders.builders import a_commit_marker, a_transactional_batch, an_abort_marker
from support.builders.store_builders import (
    DIRECTORY,
    SMALL_SEGMENTS,
    a_disk,
    a_rebuilder,
    a_store,
    append,
    append_control,
    assert_no_key_is_denied,
    files_of,
    keyed,
    make_key_filters,
)
from support.files.faulty_file_system import Killed

from broker_core.log.key_filter import KEY_FILTER_HEADER_BYTES, ClosedSegment, KeyFilterBuilder
from broker_core.model.exceptions import CorruptBatchError
from broker_core.model.identifiers import CompressionType
from broker_core.model.limits import KEY_FILTER_SPARE_BYTES
from broker_core.record.key_places import BLOCK_BYTES
from broker_core.storage.key_filter_files import KeyFilterFile

COMPACTED = SMALL_SEGMENTS | {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}


def a_log(fs, *, batch_count=12, first=0, **configs):
    """Batches of three records with keys of their own: five batches make a segment."""
    store = a_store(fs, **(SMALL_SEGMENTS | configs))
    for number in range(first, first + batch_count):
        append(store, keyed(*(b"key-%03d" % (3 * number + n) for n in range(3))))
    return store


def absent(store, key=b"there is no such key"):
    return store.ranges_with_key(key, 0, store.bounds().log_end_offset)


def test_closed_segments_get_a_filter_but_not_the_active_one():
    fs = a_disk()
    store = a_log(fs)
    *closed, active = store.segments()
    assert len(closed) >= 2
    assert make_key_filters(store) == len(closed)
    assert files_of(fs, "keyfilter") == [s.path.replace(".log", ".keyfilter") for s in closed]
    assert absent(store).ranges == ((active.base_offset, active.next_offset),)
    assert_no_key_is_denied(store)
    assert make_key_filters(store) == 0
    assert store.verify() == []


def test_only_segments_with_the_key_remain_and_skipped_ones_are_counted():
    store = a_log(a_disk())
    first, *middle, active = store.segments()
    make_key_filters(store)
    found = store.ranges_with_key(b"key-001", 0, active.next_offset)
    assert found.ranges == ((0, first.next_offset), (active.base_offset, active.next_offset))
    assert found.skipped_bytes == sum(s.size_bytes for s in middle)


def test_without_filters_no_segment_is_skipped():
    store = a_log(a_disk())
    found = absent(store)
    assert (found.ranges, found.skipped_bytes) == (((0, 36),), 0)


@pytest.mark.parametrize("codec", CompressionType)
def test_keys_of_compressed_batches_are_in_the_filter(codec):
    store = a_store(a_disk(), **SMALL_SEGMENTS)
    for number in range(12):
        append(store, keyed(*(b"%d-%d" % (number, n) for n in range(8)), compression=codec))
    store.refresh()
    store.roll(0)
    make_key_filters(store)
    assert absent(store).ranges == ()
    assert_no_key_is_denied(store)


def test_null_keys_can_be_looked_up():
    store = a_store(a_disk(), **SMALL_SEGMENTS)
    append(store, keyed(b"a", b""))
    store.roll(0)
    append(store, keyed(None))
    store.roll(0)
    make_key_filters(store)
    assert [store.ranges_with_key(key, 0, 3).ranges for key in (None, b"", b"a", b"b")] == [
        ((2, 3),), ((0, 2),), ((0, 2),), (),
    ]  # fmt: skip


def test_the_filter_holds_keys_of_aborted_records_but_not_of_markers():
    fs = a_disk()
    store = a_store(fs, **SMALL_SEGMENTS)
    append(store, a_transactional_batch(2))
    append_control(store, an_abort_marker())
    store.roll(0)
    append(store, a_transactional_batch(1, base_sequence=2))
    append_control(store, a_commit_marker())
    store.roll(0)
    make_key_filters(store)
    assert store.ranges_with_key(b"key-1", 0, 5).ranges == ((0, 3),)
    assert store.ranges_with_key(None, 0, 5).ranges == ()


def test_the_newest_segments_get_filters_first_and_at_least_one_per_run():
    store = a_log(a_disk())
    first, *_, last, _ = store.segments()
    assert [s.base_offset for s in store.plan_key_filters(1)] == [last.base_offset]
    both = store.plan_key_filters(2 * last.size_bytes)
    assert len(both) == 2
    assert both[0].base_offset == last.base_offset
    assert store.plan_key_filters()[-1].base_offset == first.base_offset


def test_segments_below_the_log_start_get_no_filter():
    store = a_log(a_disk())
    second = store.segments()[1]
    store.refresh()
    store._writer.log.advance_log_start_offset(second.base_offset)
    store._writer.publish(is_synced=True, is_new_generation=True)
    assert store.plan_key_filters()[-1].base_offset == second.base_offset


@pytest.mark.parametrize("damage", ["cut", "longer", "header", "block", "empty", "foreign"])
def test_an_incomplete_filter_is_ignored_and_recreated(damage):
    fs = a_disk()
    store = a_log(fs)
    first = store.segments()[0]
    make_key_filters(store)
    path, other = files_of(fs, "keyfilter")[:2]
    content = fs.content(path)
    flipped = bytearray(content)
    flipped[10 if damage == "header" else 100] ^= 4
    fs.overwrite(
        path,
        {
            "cut": content[:-1], "longer": content + b"\0", "header": bytes(flipped), "block": bytes(flipped),
            "empty": b"", "foreign": fs.content(other),
        }[damage],
    )  # fmt: skip
    reader = a_store(fs, writable=False)
    assert absent(reader).ranges[0] == (0, first.next_offset)
    assert_no_key_is_denied(reader)
    findings = reader.verify()
    assert [(f.file, f.is_damage) for f in findings] == [(path, False)]
    if damage != "block":  # which is found only by who asks for a key in it
        assert make_key_filters(store) == 1
        assert fs.content(path) == content


def test_a_filter_that_misses_an_existing_key_is_reported_as_damage_with_the_offset():
    fs = a_disk()
    store = a_log(fs)
    make_key_filters(store)
    first = store.segments()[0]
    path = files_of(fs, "keyfilter")[0]
    # Two of the fifteen keys, in a filter that says it was made for the whole segment.
    builder = KeyFilterBuilder(ClosedSegment(base_offset=0, next_offset=first.next_offset, size_bytes=first.size_bytes))
    builder.add(pa.array([b"key-000", b"key-001"], pa.binary()))
    fs.overwrite(path, builder.finish())
    [finding] = store.verify()
    assert (finding.file, finding.offset, finding.is_damage) == (path, 2, True)


def test_a_damaged_segment_gets_no_filter():
    fs = a_disk()
    store = a_log(fs)
    segment = store.plan_key_filters()[-1]
    path = files_of(fs, "log")[0]
    content = bytearray(fs.content(path))
    content[100] ^= 1
    fs.overwrite(path, bytes(content))
    with pytest.raises(CorruptBatchError) as caught:
        a_rebuilder(fs).write_key_filter(segment)
    assert (caught.value.file, caught.value.position) == (path, 0)
    assert files_of(fs, "keyfilter") == []


def test_a_removed_or_replaced_segment_gets_no_filter():
    fs = a_disk()
    store = a_log(fs)
    *_, second, first = store.plan_key_filters()
    assert store.write_key_filter(second)
    store.refresh()
    store.delete_records(second.next_offset)
    assert not store.place_key_filter(second)
    assert not store.write_key_filter(first)
    assert not any(path.endswith(".tmp") for path in fs.snapshot())


def test_a_filter_is_removed_with_its_segment():
    fs = a_disk()
    store = a_log(fs)
    make_key_filters(store)
    store.refresh()
    store.delete_records(store.segments()[1].next_offset)
    bases = {path.rpartition("/")[2][:20] for path in files_of(fs, "log")}
    assert {path.rpartition("/")[2][:20] for path in files_of(fs, "keyfilter")} < bases


def test_compaction_removes_the_filters_of_replaced_segments():
    fs = a_disk()
    store = a_log(fs, **COMPACTED)
    a_log(fs, **COMPACTED)  # the same keys again
    make_key_filters(store)
    assert files_of(fs, "keyfilter")
    store.refresh()
    report = store.compact(10**15, memory_bytes=1 << 20)
    assert report.records_removed > 0
    assert files_of(fs, "keyfilter") == []
    assert_no_key_is_denied(store)
    assert store.verify() == []
    assert make_key_filters(store) > 0
    assert_no_key_is_denied(store)


def cut_and_filled_with_other_keys(store):
    """The log of `a_log`, cut within its first segment and grown to the same sizes with other keys."""
    store.refresh()
    store.truncate_to(6)
    for number in range(2, 12):
        append(store, keyed(*(b"new-%03d" % (3 * number + n) for n in range(3))))


def test_a_segment_that_was_truncated_and_grew_to_the_same_size_loses_its_filter():
    # Size and end are those that the filter was made for, and the keys are not.
    fs = a_disk()
    store = a_log(fs)
    make_key_filters(store)
    sizes = [(s.base_offset, s.size_bytes) for s in store.segments()]
    cut_and_filled_with_other_keys(store)
    assert [(s.base_offset, s.size_bytes) for s in store.segments()] == sizes
    assert files_of(fs, "keyfilter") == []
    assert_no_key_is_denied(store)


def a_life(fs):
    """All that touches filters. Each step may be done again."""
    store = a_log(fs, batch_count=7)
    make_key_filters(store)
    cut_and_filled_with_other_keys(store)
    make_key_filters(store)
    store.refresh()
    store.delete_records(8)
    store.delete_records(16)
    a_log(fs, **COMPACTED)
    compacting = a_store(fs, **COMPACTED)
    compacting.refresh()
    compacting.compact(10**15, memory_bytes=1 << 20)
    make_key_filters(compacting)


def calls_of_a_life():
    """Numbers of the calls at and around which something happens to a filter, and of every 40th."""
    fs = a_disk()
    start = len(fs.calls)
    a_life(fs)
    paths = [path for _, path in fs.calls[start:]]
    near = {n + step for n, path in enumerate(paths) if "keyfilter" in path for step in (0, 1)}
    return sorted((near | set(range(0, len(paths), 40))) & set(range(len(paths))))


@pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.long)])
def test_after_a_crash_at_any_step_no_filter_misses_a_key(step):
    for number, is_power_loss in list(itertools.product(calls_of_a_life(), (False, True)))[::step]:
        fs = a_disk()
        fs.kill_at_call(number, torn_bytes=30 if number % 3 == 0 else None)
        with pytest.raises(Killed):
            a_life(fs)
        if is_power_loss:
            fs.power_loss(random.Random(number))
        else:
            fs.restart()
        store = a_store(fs, **SMALL_SEGMENTS)
        store.refresh()
        assert_no_key_is_denied(store)
        assert [f for f in store.verify() if f.is_damage] == []
        # What lay about unnoticed may come to fit when the log has grown.
        store = a_log(fs, batch_count=10, first=100)
        assert_no_key_is_denied(store)
        make_key_filters(store)
        assert_no_key_is_denied(store)
        assert not any(path.endswith(".keyfilter.tmp") for path in fs.snapshot())
        assert [f for f in store.verify() if "key filter" in f.problem] == []


def test_an_open_filter_serves_only_its_segment():
    fs = a_disk()
    store = a_log(fs)
    make_key_filters(store)
    first = store.segments()[0]
    segment = ClosedSegment(base_offset=0, next_offset=first.next_offset, size_bytes=first.size_bytes)
    opened = KeyFilterFile.open(fs, DIRECTORY, segment)
    assert [opened.denies(key) for key in (b"key-000", b"nothing", None)] == [False, True, True]
    opened.close()
    for change in ({"next_offset": 14}, {"size_bytes": first.size_bytes + 1}):
        other = ClosedSegment(
            **{"base_offset": 0, "next_offset": first.next_offset, "size_bytes": first.size_bytes} | change
        )
        assert KeyFilterFile.open(fs, DIRECTORY, other) is None


def test_no_filter_is_written_to_an_almost_full_disk():
    # Filters had taken the page that deleting records needs before it frees others.
    fs = a_disk()
    store = a_log(fs)
    segment = store.plan_key_filters()[0]
    filter_bytes = KEY_FILTER_HEADER_BYTES + BLOCK_BYTES
    for free_bytes in (0, KEY_FILTER_SPARE_BYTES - 1, KEY_FILTER_SPARE_BYTES + filter_bytes - 1):
        fs.fill_up_after(free_bytes)
        assert not store.write_key_filter(segment)
    fs.fill_up_after(KEY_FILTER_SPARE_BYTES + filter_bytes)
    assert store.write_key_filter(segment)
