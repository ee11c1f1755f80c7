import pytest
from support.builders.builders import a_batch

from broker_core.model.exceptions import CorruptBatchError
from broker_core.object_log.stored_batches import place, seal, seal_placed
from broker_core.record.batch_reader import iter_headers, records_of


def two_sealed():
    batches = a_batch(3) + a_batch(2)
    assert seal(batches)[:2] == (5, 5)
    return batches


def placed(batches, **changes):
    arguments = {"base_offset": 100, "offset_count": 5, "file": "s3://b/l/data/x", "file_position": 1000}
    return place(batches, **(arguments | changes))


def test_sealed_batches_get_their_offsets_in_the_log():
    batches = two_sealed()
    result = placed(batches)
    assert (result.size_bytes, result.batch_count, result.next_offset) == (len(batches), 2, 105)
    offsets = [record.offset for position, _ in iter_headers(batches) for record in records_of(batches, position)]
    assert offsets == [100, 101, 102, 103, 104]
    assert {header.partition_leader_epoch for _, header in iter_headers(batches)} == {0}


def test_the_stored_form_is_as_documented():
    crc32c = pytest.importorskip("crc32c")
    batches = two_sealed()
    second = len(a_batch(3))
    assert int.from_bytes(batches[second : second + 8], "big") == 3
    covered = bytes(batches[second : second + 12] + batches[second + 17 : second + 21])
    assert int.from_bytes(batches[second + 12 : second + 16], "big") == crc32c.crc32c(covered)


def test_batches_are_not_placed_twice():
    batches = two_sealed()
    placed(batches)
    with pytest.raises(CorruptBatchError, match=r"position is wrong .*s3://b/l/data/x, position 1000"):
        placed(batches)


def test_every_flipped_bit_is_found_and_named():
    good = bytes(two_sealed())
    found = bytearray(good)
    placed(found)
    for position in range(len(good)):
        for bit in range(8):
            damaged = bytearray(good)
            damaged[position] ^= 1 << bit
            try:
                result = placed(damaged)
            except CorruptBatchError as error:
                assert "s3://b/l/data/x" in str(error)
            else:
                # A length that grew: the batch is cut off, which the length of the range shows.
                assert result.size_bytes < len(good), (position, bit)


def test_a_cut_off_batch_is_left_for_the_next_read():
    batches = two_sealed()
    first = len(a_batch(3))
    result = placed(batches[: first + 70])
    assert (result.size_bytes, result.next_offset) == (first, 103)


def test_offsets_beyond_the_range_are_refused():
    with pytest.raises(CorruptBatchError, match="offsets 3 to 4 of the batch"):
        placed(two_sealed(), offset_count=4)


def test_batches_with_gaps_keep_them():
    batches = a_batch(2, base_offset=50) + a_batch(1, base_offset=60)
    assert seal_placed(batches, base_offset=40)[:2] == (21, 3)
    placed(batches, base_offset=40, offset_count=21)
    assert [header.base_offset for _, header in iter_headers(batches)] == [50, 60]


def test_bytes_behind_the_last_batch_are_refused():
    with pytest.raises(CorruptBatchError, match="3 bytes follow"):
        seal(a_batch(1) + b"abc")
