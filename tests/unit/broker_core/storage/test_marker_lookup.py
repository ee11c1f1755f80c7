from support.builders.builders import a_record
from support.builders.store_builders import DIRECTORY, a_disk, a_store, append, append_control

from broker_core.record.batch_builder import build_batch
from broker_core.record.control_records import EndTransactionMarker, build_end_transaction_marker
from broker_core.storage.marker_lookup import find_last_marker

COMMIT, ABORT = (EndTransactionMarker(is_commit=is_commit, coordinator_epoch=3) for is_commit in (True, False))


def end(store, marker, *, producer_id=7, epoch=0):
    append_control(
        store, build_end_transaction_marker(marker, producer_id=producer_id, producer_epoch=epoch, timestamp_ms=1)
    )


def write(store, *, sequence=0):
    append(
        store, build_batch([a_record()], producer_id=7, producer_epoch=0, base_sequence=sequence, is_transactional=True)
    )


def found(store, producer_id=7):
    return find_last_marker(store._fs, DIRECTORY, store._writer.log.segments, producer_id)


def test_the_last_marker_of_the_producer_is_found_in_any_segment():
    store = a_store(a_disk())
    write(store)
    assert found(store) is None
    end(store, COMMIT)
    write(store, sequence=1)
    end(store, ABORT)
    assert found(store) == ABORT
    store.roll(1)
    end(store, COMMIT, producer_id=8)
    append(store)
    store.roll(2)
    assert (found(store), found(store, 8), found(store, 9)) == (ABORT, COMMIT, None)


def test_a_store_knows_the_last_marker_before_and_after_a_snapshot_of_its_producers():
    fs = a_disk()
    store = a_store(fs)
    end(store, ABORT)
    assert store.last_marker(7) == ABORT
    store.roll(1)
    later = a_store(fs)
    later.refresh()
    assert later._writer.log.producers.last_marker(7) is None
    assert later.last_marker(7) == ABORT
    assert later.last_marker(8) is None
