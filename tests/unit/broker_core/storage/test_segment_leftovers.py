import pytest
from support.builders.builders import a_batch, a_log
from support.files.faulty_file_system import FaultyFileSystem

from broker_core.storage.segment_leftovers import finish_leftovers
from broker_core.storage.segment_names import FolderListing


@pytest.fixture
def fs():
    fs = FaultyFileSystem()
    fs.make_directory("/p")
    return fs


def put(fs, **contents):
    for name, content in contents.items():
        base, kind = name[1:].split("_", 1)
        fs.overwrite(f"/p/{int(base):020d}.{kind.replace('_', '.')}", content)


def finish(fs):
    return finish_leftovers(fs, "/p", FolderListing.of(fs.list_directory("/p")))


def left(fs):
    """Names with their zeros taken off."""
    return sorted(f"{int(base)}.{rest}" for base, rest in (path[3:].split(".", 1) for path in fs.snapshot()))


def test_without_leftovers_nothing_changes(fs):
    put(fs, b0_log=b"", b0_index=b"")
    calls = len(fs.calls)
    assert not finish(fs)
    assert len(fs.calls) == calls


def test_deleted_files_and_indexes_without_a_log_are_removed(fs):
    put(fs, b0_log=b"", b0_index=b"", b3_log_deleted=b"x", b5_timeindex=b"x")
    assert finish(fs)
    assert left(fs) == ["0.index", "0.log"]


def test_a_complete_swap_replaces_all_segments_that_it_covers(fs):
    new = a_log(a_batch(2), a_batch(2, base_offset=5))
    put(fs, b0_log=b"old", b0_index=b"old", b4_log=b"old", b4_index=b"old", b9_log=b"stays")
    put(fs, b0_log_swap=new, b0_index_swap=b"", b0_timeindex_swap=b"", b0_txnindex_swap=b"")
    assert finish(fs)
    assert left(fs) == ["0.index", "0.log", "0.timeindex", "0.txnindex", "9.log"]
    assert fs.content("/p/00000000000000000000.log") == new
    assert not finish(fs)


def test_a_swap_in_its_last_step_is_finished(fs):
    put(fs, b0_log=a_log(a_batch(2), a_batch(2, base_offset=5)), b0_index=b"", b4_log=b"old", b9_log=b"stays")
    put(fs, b0_txnindex_swap=b"")
    assert finish(fs)
    assert left(fs) == ["0.index", "0.log", "0.txnindex", "9.log"]


def test_an_incomplete_swap_is_rolled_back(fs):
    put(fs, b0_log=b"old", b0_txnindex_swap=b"", b0_index_swap=b"", b0_log_cleaned=b"new")
    assert finish(fs)
    assert left(fs) == ["0.log", "0.log.cleaned"]
