"""Which batches a read-committed reader does not see."""

from broker_core.cluster import AbortedTransaction
from broker_core.record.aborted_filter import AbortedFilter


def aborted(producer_id, first_offset):
    return AbortedTransaction(producer_id=producer_id, first_offset=first_offset)


def test_an_aborted_producer_is_hidden_from_its_first_offset_to_its_marker():
    hider = AbortedFilter([aborted(1, 10)])
    assert not hider.is_hidden(1, 9)
    assert hider.is_hidden(1, 10)
    assert not hider.is_hidden(2, 11)
    hider.on_abort_marker(1, 12)
    assert not hider.is_hidden(1, 13)


def test_a_batch_that_reaches_the_first_offset_with_its_last_record_is_hidden():
    assert AbortedFilter([aborted(1, 10)]).is_hidden(1, 14)


def test_a_second_aborted_transaction_of_the_producer_is_hidden_too():
    hider = AbortedFilter([aborted(1, 20), aborted(1, 10)])
    assert hider.is_hidden(1, 10)
    hider.on_abort_marker(1, 12)
    assert not hider.is_hidden(1, 15)
    assert hider.is_hidden(1, 20)


def test_an_aborted_transaction_in_two_fetch_responses_counts_once():
    hider = AbortedFilter([aborted(1, 10)])
    hider.is_hidden(1, 10)
    hider.add([aborted(1, 10)])
    hider.on_abort_marker(1, 12)
    assert not hider.is_hidden(1, 13)


def test_an_aborted_transaction_stays_ended_if_it_is_listed_after_its_marker():
    hider = AbortedFilter([aborted(1, 10)])
    hider.on_abort_marker(1, 12)
    hider.add([aborted(1, 10), aborted(1, 30)])
    assert not hider.is_hidden(1, 13)
    assert hider.is_hidden(1, 30)


def test_a_reader_that_starts_inside_an_aborted_transaction_hides_its_rest():
    hider = AbortedFilter()
    hider.add([aborted(1, 10)])
    assert hider.is_hidden(1, 500)


def test_ended_transactions_are_dropped_after_two_responses():
    hider = AbortedFilter()
    for number in range(1000):
        hider.add([aborted(number, number)])
        hider.on_abort_marker(number, number)
    assert len(hider._ended) + len(hider._ended_before) + len(hider._open) + len(hider._ahead) <= 2


def test_a_copy_is_independent():
    hider = AbortedFilter([aborted(1, 10)])
    before = hider.copy()
    hider.on_abort_marker(1, 12)
    assert before.is_hidden(1, 13)
    hider.restore(before)
    assert hider.is_hidden(1, 13)
