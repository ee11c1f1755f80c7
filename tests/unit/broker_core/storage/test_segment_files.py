import pytest
from support.builders.builders import a_batch, a_record
from support.builders.store_builders import DIRECTORY, a_disk, a_store, append

from broker_core.model.exceptions import CorruptBatchError
from broker_core.storage.segment_files import SegmentFiles
from broker_core.storage.segment_indexes import SegmentExtent


@pytest.fixture
def fs():
    fs = a_disk()
    store = a_store(fs, **{"index.interval.bytes": "0"})
    for number in range(40):
        append(store, a_batch([a_record(number, timestamp_ms=1_700_000_000_000 + number % 7)]))
    return fs


def opened(fs):
    return SegmentFiles(fs, DIRECTORY, 0, index_interval_bytes=0)


def test_a_reader_follows_a_growing_segment(fs):
    files = opened(fs)
    sizes = [position + header.size_bytes for position, header in files.walk(SegmentExtent(
        end_position=files.size_bytes(), next_offset=40))]  # fmt: skip
    for count in (1, 7, 8, 40):
        extent = SegmentExtent(end_position=sizes[count - 1], next_offset=count, dense_from=0)
        assert files.find_batch(count - 1, extent)[1].base_offset == count - 1
        assert files.find_batch(count, extent) is None
        assert files.largest_timestamp(extent).timestamp_ms == 1_700_000_000_000 + min(count - 1, 6)


def test_the_first_batch_is_found_without_an_index_and_others_with_one(fs, monkeypatch):
    files = opened(fs)
    extent = SegmentExtent(end_position=files.size_bytes(), next_offset=40, dense_from=0)
    read, real = [], fs.open
    monkeypatch.setattr(fs, "open", lambda path, **how: read.append(path) or real(path, **how))
    assert files.find_batch(0, extent)[0] == 0
    assert read == []
    assert files.find_batch(20, extent)[1].base_offset == 20
    assert read == [f"{DIRECTORY}/{0:020}.index"]


def test_an_open_segment_stays_readable_when_its_file_is_replaced(fs):
    files = opened(fs)
    extent = SegmentExtent(end_position=files.size_bytes(), next_offset=40, dense_from=0)
    fs.rename(f"{DIRECTORY}/00000000000000000000.log", f"{DIRECTORY}/00000000000000000000.log.deleted")
    assert files.find_batch(20, extent)[1].base_offset == 20
    run = files.read(0, extent, base_offset=0, max_bytes=1 << 20, until_offset=10)
    assert (run.count, run.next_offset) == (10, 10)


def test_a_removed_segment_is_not_found():
    with pytest.raises(FileNotFoundError):
        SegmentFiles(a_disk(), DIRECTORY, 99, index_interval_bytes=0)


def test_a_whole_segment_is_read_run_by_run(fs):
    files = opened(fs)
    extent = SegmentExtent(end_position=files.size_bytes(), next_offset=40, dense_from=0)
    runs = list(files.runs(extent, max_bytes=300))
    assert len(runs) > 5
    assert b"".join(run.buffer for run in runs) == fs.content(files.path)
    assert runs[-1].next_offset == 40


@pytest.mark.timeout(20)
@pytest.mark.parametrize("slot", [0, 5, 39])
def test_reading_a_segment_ends_at_a_batch_with_offsets_of_the_next_segment(fs, slot):
    # A base offset is outside the CRC: with one at or above the next segment compaction went on at the same place for
    # ever.
    files = opened(fs)
    extent = SegmentExtent(end_position=files.size_bytes(), next_offset=40)
    position = [position for position, _ in files.walk(extent)][slot]
    content = bytearray(fs.content(files.path))
    content[position : position + 8] = (40 + slot).to_bytes(8, "big")
    fs.overwrite(files.path, bytes(content))
    with pytest.raises(CorruptBatchError) as caught:
        list(opened(fs).runs(extent, max_bytes=1 << 20))
    assert caught.value.file == files.path


def test_a_byte_limit_ends_the_range_after_the_last_batch_that_fits(fs):
    files = opened(fs)
    extent = SegmentExtent(end_position=files.size_bytes(), next_offset=40, dense_from=0)
    places = [(position, position + header.size_bytes) for position, header in files.walk(extent)]
    for slot, (position, _) in enumerate(places):
        for limit in range(position, extent.end_position + 1, 37):
            fits = [offset for offset, (_, end) in enumerate(places) if offset >= slot and end <= limit]
            reached, behind = files.end_within(position, extent, limit)
            assert reached == (fits[-1] + 1 if fits else -1)
            assert (behind.base_offset if behind else 40) == (fits[-1] + 1 if fits else slot)
