import pytest

from broker_core.storage.segment_names import FolderListing, SegmentFileName, parse_name, segment_path


def test_segment_file_names_match_kafka():
    assert segment_path("/p", 42, "timeindex", ".swap") == "/p/00000000000000000042.timeindex.swap"
    assert parse_name("00000000000000000042.log") == SegmentFileName(base_offset=42, kind="log", suffix="")
    assert str(parse_name("00000000000000000042.index.cleaned")) == "00000000000000000042.index.cleaned"


@pytest.mark.parametrize(
    "name", ["42.log", "00000000000000000042.logs", "00000000000000000042.log.tmp", "partition.metadata", "x"]
)
def test_other_files_are_not_segment_files(name):
    assert parse_name(name) is None


def test_a_listing_separates_files_in_use_from_leftovers():
    names = [
        "00000000000000000009.log", "00000000000000000000.log", "00000000000000000000.index",
        "00000000000000000009.timeindex", "00000000000000000009.txnindex", "00000000000000000009.snapshot",
        "00000000000000000005.log.deleted", "00000000000000000000.log.swap", "partition.bounds",
    ]  # fmt: skip
    listing = FolderListing.of(names)
    assert listing.logs == (0, 9)
    assert (listing.offset_indexes, listing.time_indexes, listing.transaction_indexes) == ({0}, {9}, {9})
    assert listing.snapshots == (9,)
    assert [str(name) for name in listing.leftovers] == names[6:8]
