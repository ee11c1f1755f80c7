from support.builders.log_builders import a_segment

from broker_core.log.segment_table import SegmentTable


def bases(segments) -> list[int]:
    return [segment.base_offset for segment in segments]


def a_table() -> SegmentTable:
    return SegmentTable([a_segment(50, 70), a_segment(0, 20), a_segment(20, 45)])


def test_segments_are_ordered_and_the_last_one_is_active():
    assert bases(a_table()) == [0, 20, 50]
    assert a_table().active.base_offset == 50
    assert a_table().size_bytes == 3_000


def test_floor_finds_the_segment_that_may_hold_an_offset():
    table = a_table()
    assert [table.floor(offset).base_offset for offset in (0, 19, 20, 47, 50, 999)] == [0, 0, 20, 20, 50, 50]
    assert SegmentTable([a_segment(10, 20)]).floor(9) is None


def test_higher_finds_the_following_segment():
    assert a_table().higher(0).base_offset == 20
    assert a_table().higher(50) is None


def test_iteration_from_an_offset_begins_with_its_segment():
    assert bases(a_table().from_offset(30)) == [20, 50]
    assert bases(SegmentTable([a_segment(10, 20)]).from_offset(3)) == [10]


def test_put_adds_or_replaces():
    table = a_table()
    table.put(a_segment(50, 80))
    table.put(a_segment(90, 90))
    assert bases(table) == [0, 20, 50, 90]
    assert table.floor(50).next_offset == 80


def test_cleaned_segments_are_swapped_in():
    table = a_table()
    table.replace([0, 20], [a_segment(0, 45)])
    assert bases(table) == [0, 50]
    table.remove(0)
    assert bases(table) == [50]


def test_without_batch_timestamps_the_file_time_is_used():
    assert a_segment(0, 5, max_timestamp_ms=7, modified_ms=9).largest_timestamp_ms == 7
    assert a_segment(0, 5, max_timestamp_ms=-1, modified_ms=9).largest_timestamp_ms == 9
