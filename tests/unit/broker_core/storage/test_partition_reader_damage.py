"""Readers of a log with one damaged batch: everything before it, an error at it, everything behind it."""

import pytest
from support.builders.builders import a_batch, a_commit_marker, a_transactional_batch, an_abort_marker
from support.builders.store_builders import SMALL_SEGMENTS, a_disk, a_store, append, append_control, files_of

from broker_core.model.exceptions import CorruptBatchError
from broker_core.model.identifiers import IsolationLevel
from broker_core.record.batch_reader import iter_headers
from broker_core.record.columns import AbortedFilter, decode

LAYOUTS = [{"index.interval.bytes": "0"}, SMALL_SEGMENTS]
BATCH_COUNT = 14


def a_log_of_transactions(configs):
    """Transactions of producers 7, 8 and 9 that overlap; 7 aborts, commits and aborts, 8 commits, 9 aborts."""
    fs = a_disk()
    store = a_store(fs, **configs)
    append(store)
    append(store, a_transactional_batch(2, producer_id=7))
    append(store, a_transactional_batch(2, producer_id=8))
    append(store)
    append_control(store, an_abort_marker(producer_id=7))
    append(store, a_transactional_batch(2, producer_id=7, base_sequence=2))
    append(store, a_transactional_batch(2, producer_id=9))
    append_control(store, a_commit_marker(producer_id=7))
    append_control(store, a_commit_marker(producer_id=8))
    append(store, a_transactional_batch(2, producer_id=7, base_sequence=4))
    append_control(store, an_abort_marker(producer_id=9))
    append_control(store, an_abort_marker(producer_id=7))
    append(store)
    append(store)
    return fs


def places(fs):
    """(file, position, base offset, next offset, size in bytes) of each batch."""
    return [
        (path, position, header.base_offset, header.next_offset, header.size_bytes)
        for path in files_of(fs, "log")
        for position, header in iter_headers(fs.content(path))
    ]


def damage(fs, path, at):
    content = bytearray(fs.content(path))
    content[at] ^= 0x40
    fs.overwrite(path, bytes(content))


def read_on(store, from_offset, isolation, max_bytes=1 << 20):
    """(offsets that a reader shows from here on, the error that ended it)."""
    found, aborted = [], AbortedFilter() if isolation else None
    while from_offset < store.bounds().readable_end(isolation):
        try:
            fetched = store.read(from_offset, max_bytes=max_bytes, isolation=isolation)
        except CorruptBatchError as error:
            return found, error
        if aborted is not None:
            aborted.add(fetched.aborted_transactions)
        decoded = decode(fetched.buffer, from_offset=from_offset, columns=frozenset({"offset"}), aborted=aborted)
        found += decoded.record_batch.column("offset").to_pylist()
        from_offset = fetched.next_offset
    return found, None


@pytest.mark.parametrize("isolation", IsolationLevel)
@pytest.mark.parametrize("max_bytes", [1, 1 << 20], ids=["a batch a read", "all at once"])
@pytest.mark.parametrize("configs", LAYOUTS, ids=["one segment", "many"])
@pytest.mark.parametrize("damaged", range(BATCH_COUNT))
def test_a_reader_gets_all_that_is_visible_before_and_behind_a_damaged_batch(damaged, configs, max_bytes, isolation):
    fs = a_log_of_transactions(configs)
    visible, error = read_on(a_store(fs, writable=False, **configs), 0, isolation)
    assert error is None
    path, position, offset, next_offset, size_bytes = places(fs)[damaged]
    damage(fs, path, position + size_bytes - 1)
    store = a_store(fs, writable=False, **configs)
    before, error = read_on(store, 0, isolation, max_bytes)
    assert before == [each for each in visible if each < offset]
    assert (error.file, error.position, error.offset, error.next_offset) == (path, position, offset, next_offset)
    assert "t-0: checksum of the content is" in str(error) and f"{path}, position {position}" in str(error)
    behind, error = read_on(store, next_offset, isolation, max_bytes)
    assert error is None
    assert behind == [each for each in visible if each >= next_offset]


def test_neighbouring_damaged_batches_are_each_reported_with_their_end():
    fs = a_disk()
    store = a_store(fs)
    for _ in range(4):
        append(store)
    for path, position, *_, size_bytes in places(fs)[1:3]:
        damage(fs, path, position + size_bytes - 1)
    reader = a_store(fs, writable=False)
    ends = []
    for offset in (0, 3, 6, 9):
        found, error = read_on(reader, offset, IsolationLevel.READ_COMMITTED)
        ends.append((found, error and error.next_offset))
    assert ends == [([0, 1, 2], 6), ([], 6), ([], 9), ([9, 10, 11], None)]


def test_the_end_of_a_batch_with_a_damaged_length_is_not_guessed():
    fs = a_disk()
    store = a_store(fs)
    for _ in range(3):
        append(store)
    path, position, *_ = places(fs)[1]
    damage(fs, path, position + 11)
    found, error = read_on(a_store(fs, writable=False), 0, IsolationLevel.READ_COMMITTED)
    assert found == [0, 1, 2]
    assert error.next_offset is None


def test_a_damaged_marker_and_a_damaged_transaction_index_are_not_answered_by_a_guess():
    fs = a_disk()
    store = a_store(fs)
    append(store, a_transactional_batch(2, producer_id=7))
    append_control(store, an_abort_marker(producer_id=7))
    append(store, a_batch(1))
    path, position, *_, size_bytes = places(fs)[1]
    damage(fs, path, position + size_bytes - 1)
    (index,) = files_of(fs, "txnindex")
    damage(fs, index, 0)
    found, error = read_on(a_store(fs, writable=False), 0, IsolationLevel.READ_COMMITTED)
    assert (found, error.offset) == ([], 2)


def test_the_walk_to_the_damage_is_remembered():
    fs = a_disk()
    store = a_store(fs)
    for sequence in range(30):
        append(store, a_transactional_batch(1, producer_id=7, base_sequence=sequence))
    append_control(store, an_abort_marker(producer_id=7))
    append(store)
    path, position, *_, size_bytes = places(fs)[30]
    damage(fs, path, position + size_bytes - 1)
    reader = a_store(fs, writable=False)
    costs = []
    for offset in range(30):
        before = fs.read_count
        fetched = reader.read(offset, max_bytes=1, isolation=IsolationLevel.READ_COMMITTED)
        assert [each.first_offset for each in fetched.aborted_transactions] == [offset]
        costs.append(fs.read_count - before)
    assert max(costs[1:]) <= 3
