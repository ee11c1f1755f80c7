from support.builders.builders import a_batch, a_commit_marker, a_record, a_transactional_batch
from support.builders.store_builders import a_disk, a_store, append, append_control

from broker_core.model.identifiers import IsolationLevel


def test_reading_a_long_transaction_walks_to_its_end_once():
    fs = a_disk()
    store = a_store(fs)
    large = [a_record(0, value=b"x" * 100_000)]
    for sequence in range(30):
        append(store, a_transactional_batch(large, producer_id=7, base_sequence=sequence))
    append_control(store, a_commit_marker(producer_id=7))
    reader = a_store(fs, writable=False)
    costs, offset = [], 0
    while offset < 31:
        before = fs.read_count
        fetched = reader.read(offset, max_bytes=1, isolation=IsolationLevel.READ_COMMITTED)
        assert fetched.aborted_transactions == ()
        costs.append(fs.read_count - before)
        offset = fetched.next_offset
    assert costs[0] > 30
    assert max(costs[1:]) <= 3


def test_non_transactional_batches_need_no_walk():
    fs = a_disk()
    store = a_store(fs)
    for _ in range(30):
        append(store, a_batch([a_record(0, value=b"x" * 100_000)]))
    reader = a_store(fs, writable=False)
    reader.read(0, max_bytes=1, isolation=IsolationLevel.READ_COMMITTED)
    before = fs.read_count
    reader.read(1, max_bytes=1, isolation=IsolationLevel.READ_COMMITTED)
    assert fs.read_count - before == 3
