import pytest
from support.builders.builders import a_batch
from support.builders.store_builders import DIRECTORY, PARTITION, SMALL_SEGMENTS, a_disk, a_store, append, offsets_in

from broker_core.model.topic_config import TopicConfig
from broker_core.storage.readable_partition import ReadablePartition
from broker_core.storage.segment_names import FolderListing, segment_path
from broker_core.storage.unfinished_swaps import SwapsFinished

KINDS = ("index", "timeindex", "log")


@pytest.fixture
def disk():
    """A folder as a Kafka has it: several segments, and no bounds file of ours."""
    fs = a_disk()
    store = a_store(fs, **SMALL_SEGMENTS)
    while len(store.segments()) < 4:
        append(store, a_batch(3))
    store.close()
    fs.remove(f"{DIRECTORY}/partition.bounds")
    return fs


def bases_of(fs):
    return FolderListing.of(fs.list_directory(DIRECTORY)).logs


def rename(fs, base, *, from_suffix="", to_suffix=""):
    for kind in KINDS:
        path = segment_path(DIRECTORY, base, kind)
        if fs.exists(path + from_suffix):
            fs.rename(path + from_suffix, path + to_suffix)


def read(fs):
    store = ReadablePartition.open(SwapsFinished(fs), DIRECTORY, PARTITION, config=TopicConfig(), topic_id=None)
    try:
        return offsets_in(store)
    finally:
        store.close()


def test_a_segment_that_exists_only_as_swap_file_is_part_of_the_log(disk):
    # Kafka was killed between renaming the replaced segments to .deleted and the compacted one from .swap: plain names
    # alone lost all of its records, without a word.
    whole = read(disk)
    rename(disk, bases_of(disk)[1], to_suffix=".swap")
    before = disk.snapshot()
    assert read(disk) == whole
    assert disk.snapshot() == before


def test_segments_covered_by_a_swap_file_are_not_read(disk):
    first, second, third = bases_of(disk)[:3]
    whole = read(disk)
    merged = b"".join(disk.content(segment_path(DIRECTORY, base, "log")) for base in (first, second))
    disk.overwrite(segment_path(DIRECTORY, first, "log", ".swap"), merged)
    rename(disk, first, to_suffix=".deleted")
    assert bases_of(SwapsFinished(disk))[:2] == (first, third)
    assert read(disk) == whole


def test_a_swap_file_at_or_above_a_cleaned_file_is_ignored(disk):
    base = bases_of(disk)[1]
    whole = read(disk)
    disk.overwrite(segment_path(DIRECTORY, base, "log", ".swap"), b"")
    disk.overwrite(segment_path(DIRECTORY, base, "log", ".cleaned"), b"")
    assert read(disk) == whole


def test_a_swap_file_that_is_renamed_between_listing_and_opening_is_found(disk):
    base = bases_of(disk)[1]
    rename(disk, base, to_suffix=".swap")
    view = SwapsFinished(disk)
    assert base in bases_of(view)
    rename(disk, base, from_suffix=".swap")
    view.open(segment_path(DIRECTORY, base, "log"), writable=False).close()
