"""What readers have seen of an append stays: the disk refuses one operation after the other, and a reader looks all the
time."""

import errno

import pytest
from support.builders.builders import SOME_TIME_MS, a_batch, a_transactional_batch, an_abort_marker
from support.builders.store_builders import a_disk, a_store, append, append_control
from support.files.faulty_file_system import FaultyFileSystem

from broker_core.log.append_request import AppendRequest
from broker_core.log.producer_state import AppendOrigin
from broker_core.model.exceptions import StorageError
from broker_core.storage.partition_bounds import BoundsFile

TINY_SEGMENTS = {"internal.segment.bytes": "150", "index.interval.bytes": "0"}


class RefusingOnce(FaultyFileSystem):
    """Refuses the call of this number with EIO. Calls `on_look` before each call."""

    def __init__(self):
        super().__init__()
        self.refused_number = None
        self.on_look = None
        self._count = 0

    def refuse(self, number):
        self.refused_number, self._count = number, 0

    def on_call(self, kind, path, *, allow_torn=False):
        look, self.on_look = self.on_look, None
        if look is not None:
            look()
            self.on_look = look
        self._count += 1
        if self._count == self.refused_number:
            self.hits["refused"] += 1
            raise OSError(errno.EIO, "refused", path)
        return super().on_call(kind, path, allow_torn=allow_torn)


def places_seen(reader):
    bounds = reader.bounds()
    return bounds.log_end_offset, bounds.last_stable_offset


def append_a_turn(store):
    """Three segments: data of a transaction, its abort, other data."""
    requests = [
        AppendRequest(batches=bytearray(a_transactional_batch(2))),
        AppendRequest(batches=bytearray(an_abort_marker()), origin=AppendOrigin.COORDINATOR),
        AppendRequest(batches=bytearray(a_batch(1))),
    ]
    store.refresh()
    outcomes = store.append_group(requests, now_ms=SOME_TIME_MS, is_synced=True)
    for outcome in outcomes:
        if isinstance(outcome, StorageError):
            raise outcome


def roll(store):
    store.refresh()
    assert store.roll(SOME_TIME_MS)


@pytest.mark.parametrize(("change", "end"), [(append_a_turn, 7), (roll, 3)])
def test_a_refused_change_leaves_nothing_and_no_end_that_a_reader_saw_goes_back(change, end):
    """The bounds of an append that begins a segment went to both of their slots. If the disk refused the second write,
    readers that had seen the first saw the log end lower again, in the middle of what they had read."""
    for number in range(1, 200):
        fs = a_disk(RefusingOnce())
        store, reader = a_store(fs, **TINY_SEGMENTS), a_store(fs, writable=False, **TINY_SEGMENTS)
        append(store, a_batch(3))
        seen = [places_seen(reader)]
        fs.on_look = lambda reader=reader, seen=seen: seen.append(places_seen(reader))
        fs.refuse(number)
        is_refused = False
        try:
            change(store)
        except StorageError:
            is_refused = True
        fs.on_look = None
        seen.append(places_seen(reader))
        store.refresh()
        seen.append(places_seen(reader))
        assert seen == sorted(seen), number
        assert seen[-1] == ((3, 3) if is_refused else (end, end)), number
        assert store.verify() == []
        if not fs.hits["refused"]:
            assert not is_refused
            assert number > 5
            return
    raise AssertionError("the change has no end")


@pytest.mark.parametrize("change", [append_a_turn, roll])
def test_an_interrupt_after_the_bounds_are_published_undoes_nothing(monkeypatch, change):
    """Ctrl-C in the program of an embedded log."""
    fs = a_disk()
    store, reader = a_store(fs, **TINY_SEGMENTS), a_store(fs, writable=False, **TINY_SEGMENTS)
    append(store, a_batch(3))
    publish = BoundsFile.publish

    def interrupted(file, bounds):
        publish(file, bounds)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(BoundsFile, "publish", interrupted)
        with pytest.raises(KeyboardInterrupt):
            change(store)
    seen, segment_count = places_seen(reader), len(reader.segments())
    assert segment_count > 1
    append_control(store, a_batch(1))
    assert places_seen(reader) == (seen[0] + 1, seen[1] + 1)
    assert store.verify() == []
