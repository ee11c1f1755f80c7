"""What a copy takes of the batches that it fetches."""

import pytest
from support.builders.builders import a_batch, a_commit_marker, a_transactional_batch, an_abort_marker

from broker_core.cluster import AbortedTransaction, FetchedBatches, PartitionBounds
from broker_core.log_copy.committed_batches import CommittedBatches
from broker_core.model.exceptions import CorruptBatchError
from broker_core.record.batch_reader import check_crc, iter_headers

END = PartitionBounds(log_start_offset=0, last_stable_offset=100, high_watermark=100, log_end_offset=100)


def fetched(*batches, next_offset, aborted=()):
    buffer = memoryview(b"".join(batches))
    return FetchedBatches(buffer=buffer, next_offset=next_offset, bounds=END, aborted_transactions=aborted)


def offsets_of(picked):
    return [(header.base_offset, header.next_offset) for _, header in iter_headers(picked.batches)]


def test_plain_batches_keep_their_bytes():
    batch = a_batch(3, base_offset=5)
    picked = CommittedBatches().pick(fetched(batch, next_offset=8), 5, 100)
    assert picked.batches == batch
    assert (picked.until_offset, picked.end_offset, picked.record_count) == (8, 8, 3)


def test_committed_batches_leave_transaction_and_producer_behind():
    answer = fetched(a_transactional_batch(2), a_commit_marker(base_offset=2), next_offset=3)
    picked = CommittedBatches().pick(answer, 0, 100)
    ((position, header),) = iter_headers(picked.batches)
    assert (header.producer_id, header.base_sequence, header.is_transactional) == (-1, -1, False)
    check_crc(picked.batches, position, header)
    assert (picked.until_offset, picked.end_offset) == (3, 2)


def test_aborted_batches_are_left_out_also_across_fetches():
    committed = CommittedBatches()
    aborted = (AbortedTransaction(producer_id=7, first_offset=0),)
    first = committed.pick(fetched(a_transactional_batch(2), next_offset=2, aborted=aborted), 0, 100)
    assert (first.batches, first.until_offset, first.end_offset) == (b"", 2, 0)
    second = committed.pick(
        fetched(
            a_transactional_batch(2, base_offset=2, base_sequence=2),
            an_abort_marker(base_offset=4),
            a_transactional_batch(1, base_offset=5, base_sequence=4),
            next_offset=6,
            aborted=aborted,
        ),
        2,
        100,
    )
    assert offsets_of(second) == [(5, 6)]


def test_batches_at_or_above_the_end_and_below_the_start_are_not_taken():
    answer = fetched(*(a_batch(2, base_offset=offset) for offset in (0, 2, 4)), next_offset=6)
    picked = CommittedBatches().pick(answer, 2, 4)
    assert offsets_of(picked) == [(2, 4)]
    assert picked.until_offset == 4


def test_a_gap_up_to_the_end_is_looked_at():
    picked = CommittedBatches().pick(fetched(next_offset=9), 3, 9)
    assert (picked.batches, picked.until_offset) == (b"", 9)


@pytest.mark.parametrize("producer", [None, (7, 0, 0)])
def test_a_wrong_checksum_is_an_error_and_not_replaced_by_a_right_one(producer):
    batch = a_batch(3, producer=producer)
    batch[-1] ^= 1
    with pytest.raises(CorruptBatchError, match="checksum"):
        CommittedBatches().pick(fetched(batch, next_offset=3), 0, 100)
