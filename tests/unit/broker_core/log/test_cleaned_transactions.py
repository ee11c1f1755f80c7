from support.builders.log_builders import a_header, a_marker, a_marker_header

from broker_core.log.cleaned_transactions import CleanedTransactions
from broker_core.log.transaction_index import AbortedTransactionEntry

ABORTED = AbortedTransactionEntry(producer_id=7, first_offset=0, last_offset=2, last_stable_offset=3)


def data(base_offset: int, *, producer_id: int = 7, transactional: bool = True):
    return a_header(base_offset=base_offset, producer_id=producer_id, sequence=0, transactional=transactional)


def test_batches_of_an_aborted_transaction_are_recognized_until_its_marker():
    transactions = CleanedTransactions([ABORTED])
    assert transactions.on_data(data(0))
    assert not transactions.on_data(data(1, producer_id=8))
    assert not transactions.on_data(data(1, transactional=False))
    assert not transactions.on_control(a_marker_header(base_offset=2, producer_id=7), a_marker(is_commit=False))
    assert not transactions.on_data(data(3))


def test_a_marker_whose_batches_remain_is_kept_with_its_index_entry():
    transactions = CleanedTransactions([ABORTED])
    transactions.on_data(data(0))
    transactions.on_control(a_marker_header(base_offset=2, producer_id=7), a_marker(is_commit=False))
    assert transactions.take_retained() == (ABORTED,)
    assert transactions.take_retained() == ()


def test_a_marker_without_batches_may_be_removed():
    transactions = CleanedTransactions([ABORTED])
    assert transactions.on_control(a_marker_header(base_offset=2, producer_id=7), a_marker(is_commit=False))
    assert transactions.on_control(a_marker_header(base_offset=3, producer_id=8), a_marker(is_commit=True))
    assert transactions.take_retained() == ()


def test_a_commit_marker_is_kept_while_records_of_its_transaction_remain():
    transactions = CleanedTransactions([])
    transactions.on_data(data(0))
    assert not transactions.on_control(a_marker_header(base_offset=1, producer_id=7), a_marker())
    assert transactions.on_control(a_marker_header(base_offset=2, producer_id=7), a_marker())


def test_one_producers_transactions_follow_one_another():
    second = AbortedTransactionEntry(producer_id=7, first_offset=5, last_offset=6, last_stable_offset=7)
    transactions = CleanedTransactions([second, ABORTED])
    told = [transactions.on_data(data(0))]
    transactions.on_control(a_marker_header(base_offset=2, producer_id=7), a_marker(is_commit=False))
    told.append(transactions.on_data(data(3)))
    transactions.on_control(a_marker_header(base_offset=4, producer_id=7), a_marker())
    told.append(transactions.on_data(data(5)))
    assert told == [True, False, True]


def test_emptied_control_batches_may_be_removed_and_unknown_ones_are_kept():
    transactions = CleanedTransactions([])
    emptied = a_header(base_offset=0, records=1, producer_id=7, control=True)
    emptied = emptied._replace(record_count=0)
    assert transactions.on_control(emptied, None)
    assert not transactions.on_control(a_header(base_offset=1, control=True), None)


def test_transactions_that_ended_before_the_first_batch_are_ignored():
    transactions = CleanedTransactions([ABORTED])
    assert not transactions.on_data(data(3))


def test_a_transaction_without_its_marker_still_ends():
    transactions = CleanedTransactions([ABORTED])
    assert transactions.on_data(data(0))
    assert not transactions.on_data(data(3))
