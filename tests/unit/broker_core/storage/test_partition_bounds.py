import pytest
from support.files.faulty_file_system import FaultyFileSystem, Killed

from broker_core.storage.partition_bounds import BOUNDS_FILE_BYTES, BoundsFile, PublishedBounds, decode_bounds


@pytest.fixture
def fs():
    fs = FaultyFileSystem()
    fs.make_directory("/p")
    return fs


def bounds(sequence, **fields):
    return PublishedBounds(sequence=sequence, **({"log_end_offset": sequence * 10} | fields))


def test_the_last_published_bounds_are_read(fs):
    file = BoundsFile.open(fs, "/p", writable=True, create=True)
    assert file.read() is None
    for sequence in range(1, 6):
        file.publish(bounds(sequence, generation=3, dense_from_offset=2, max_timestamp_ms=-1))
        reader = BoundsFile.open(fs, "/p", writable=False)
        assert reader.read() == bounds(sequence, generation=3, dense_from_offset=2, max_timestamp_ms=-1)


def test_a_torn_slot_falls_back_to_the_previous_bounds(fs):
    file = BoundsFile.open(fs, "/p", writable=True, create=True)
    file.publish(bounds(1))
    for torn_bytes in range(1, 99):
        fs.kill_at_call(0, torn_bytes=torn_bytes)
        with pytest.raises(Killed):
            file.publish(bounds(2))
        fs.restart()
        assert BoundsFile.open(fs, "/p", writable=False).read() == bounds(1)
        file = BoundsFile.open(fs, "/p", writable=True)
    assert fs.hits["torn_write"] == 98


def test_publishing_works_on_a_full_disk(fs):
    file = BoundsFile.open(fs, "/p", writable=True, create=True)
    fs.fill_up_after(0)
    file.publish(bounds(1))
    file.publish(bounds(2))
    assert file.read() == bounds(2)
    assert fs.snapshot()["/p/partition.bounds"].__len__() == BOUNDS_FILE_BYTES


def test_a_missing_short_or_unknown_bounds_file_gives_no_bounds(fs):
    assert BoundsFile.open(fs, "/p", writable=False) is None
    assert decode_bounds(b"") is None
    assert decode_bounds(bounds(1).encode()[:-1]) is None
    assert decode_bounds(bounds(1).encode()) == bounds(1)


def test_a_damaged_slot_that_claims_to_be_newer_is_ignored():
    for newer in (4, 5):
        data = bytearray(BOUNDS_FILE_BYTES)
        for sequence in (newer - 1, newer):
            at = sequence % 2 * 512
            content = bounds(sequence).encode()
            data[at : at + len(content)] = content
        assert decode_bounds(bytes(data)).sequence == newer
        data[newer % 2 * 512 + 40] ^= 1
        assert decode_bounds(bytes(data)).sequence == newer - 1
        data[(newer - 1) % 2 * 512 + 40] ^= 1
        assert decode_bounds(bytes(data)) is None
