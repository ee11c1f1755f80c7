import pytest
from support.builders.builders import SOME_TIME_MS, a_batch, a_log, a_transactional_batch, an_abort_marker
from support.builders.store_builders import (
    DIRECTORY,
    SMALL_SEGMENTS,
    a_disk,
    a_store,
    append,
    append_control,
    files_of,
    offsets_in,
)
from support.files.faulty_file_system import FaultyFileSystem, Killed

from broker_core.model.exceptions import CorruptBatchError

LOG = f"{DIRECTORY}/00000000000000000000.log"
BOUNDS = f"{DIRECTORY}/partition.bounds"


def test_whole_batches_after_the_published_end_are_kept_and_synced():
    fs = a_disk()
    append(a_store(fs))
    fs.overwrite(LOG, fs.content(LOG) + a_batch(2, base_offset=3) + a_batch(4, base_offset=5)[:-1])
    store = a_store(fs)
    assert store.bounds().log_end_offset == 3
    store.refresh()
    assert offsets_in(store) == [0, 1, 2, 3, 4]
    assert len(fs.content(LOG)) == len(a_batch(3)) + len(a_batch(2))
    fs.power_loss()
    store = a_store(fs)
    store.refresh()
    assert append(store).result.base_offset == 5


@pytest.mark.parametrize("garbage", [b"\0" * 500, b"\xff" * 70, b"x", a_batch(3, base_offset=2), a_batch(3)])
def test_invalid_bytes_after_the_published_end_are_truncated(garbage):
    fs = a_disk()
    append(a_store(fs))
    whole = fs.content(LOG)
    fs.overwrite(LOG, whole + garbage)
    store = a_store(fs)
    store.refresh()
    assert fs.content(LOG) == whole
    assert append(store).result.base_offset == 3


@pytest.mark.parametrize("position", [7, 9, 16, 100])
def test_damage_below_the_published_end_is_reported_and_never_truncated(position):
    fs = a_disk()
    store = a_store(fs)
    for _ in range(3):
        append(store)
    content = bytearray(fs.content(LOG))
    content[len(a_batch(3)) + position] ^= 0x40
    fs.overwrite(LOG, bytes(content) + b"torn")
    store = a_store(fs)
    with pytest.raises(CorruptBatchError) as caught:
        store.refresh()
        offsets_in(store)
    assert caught.value.fields["position"] == len(a_batch(3))
    assert fs.content(LOG).startswith(bytes(content))


def test_without_bounds_a_torn_tail_is_truncated_but_damage_followed_by_batches_is_not():
    fs = a_disk()
    store = a_store(fs)
    for _ in range(3):
        append(store)
    whole = fs.content(LOG)
    fs.remove(BOUNDS)
    fs.overwrite(LOG, whole[:-1])
    assert offsets_in(a_store(fs, writable=False)) == list(range(6))
    assert fs.content(LOG) == whole[:-1]
    store = a_store(fs)
    store.refresh()
    assert offsets_in(store) == list(range(6))
    fs.remove(BOUNDS)
    fs.overwrite(LOG, whole[:90] + b"?" + whole[91:])
    for writable in (False, True):
        with pytest.raises(CorruptBatchError):
            store = a_store(fs, writable=writable)
            store.refresh() if writable else store.bounds()
    assert len(fs.content(LOG)) == len(whole)


def test_a_crash_anywhere_in_an_append_across_segments_leaves_a_whole_log():
    batches = a_log(*(a_batch(3) for _ in range(9)))
    for call in range(1000):
        fs = a_disk()
        append(a_store(fs, **SMALL_SEGMENTS))
        store = a_store(fs, **SMALL_SEGMENTS)
        store.refresh()
        fs.kill_at_call(call, torn_bytes=200)
        try:
            store.append(bytearray(batches), now_ms=SOME_TIME_MS)
        except Killed:
            assert fs.hits["killed"] + fs.hits["torn_write"] == 1
            fs.restart()
            assert offsets_in(a_store(fs, writable=False)) in ([0, 1, 2], list(range(30)))
            store = a_store(fs, **SMALL_SEGMENTS)
            store.refresh()
            found = offsets_in(store)
            assert found == list(range(len(found)))
            assert 3 <= len(found) <= 30
            assert store.verify() == []
            assert append(store).result.base_offset == len(found)
        else:
            assert call > 20
            return


def test_a_writer_repairs_missing_and_wrong_indexes_on_disk():
    fs = a_disk()
    store = a_store(fs, **SMALL_SEGMENTS)
    append(store, a_transactional_batch(2, producer_id=7))
    append_control(store, an_abort_marker(producer_id=7))
    for _ in range(10):
        append(store)
    right = {path: fs.content(path) for kind in ("index", "timeindex") for path in files_of(fs, kind)}
    for path in right:
        fs.remove(path)
    fs.restart()
    store = a_store(fs, **SMALL_SEGMENTS)
    store.refresh()
    assert {path: fs.content(path) for path in right} == right
    active = f"{DIRECTORY}/{store.segments()[-1].base_offset:020d}.index"
    fs.overwrite(active, right[active] + b"12345678")
    store = a_store(fs, **SMALL_SEGMENTS)
    store.refresh()
    assert fs.content(active) == right[active]
    assert store.verify() == []


def test_producer_state_is_rebuilt_without_a_usable_snapshot():
    fs = a_disk()
    store = a_store(fs, **SMALL_SEGMENTS)
    append(store, a_transactional_batch(2, producer_id=7))
    for sequence in range(0, 30, 3):
        append(store, a_batch(3, producer=(5, 0, sequence)))
    for slot, path in enumerate(files_of(fs, "snapshot")):
        if slot % 2:
            fs.overwrite(path, b"broken")
        else:
            fs.remove(path)
    store = a_store(fs, **SMALL_SEGMENTS)
    store.refresh()
    assert store.open_transactions() == {7: 0}
    assert append(store, a_batch(3, producer=(5, 0, 27))).result.is_duplicate
    assert append(store, a_batch(3, producer=(5, 0, 30))).result.base_offset == 32


class AskedFileSystem(FaultyFileSystem):
    """`missed`: paths of files that were looked for and are not there."""

    def __init__(self):
        super().__init__()
        self.missed = []

    def open(self, path, *, writable, create=False):
        if not create and not super().exists(path):
            self.missed.append(path)
        return super().open(path, writable=writable, create=create)


def test_after_listing_a_folder_missing_files_are_not_opened():
    fs = a_disk(AskedFileSystem())
    append(a_store(fs))
    fs.missed.clear()
    a_store(fs).refresh()
    assert fs.missed == []
    for name in ("leader-epoch-checkpoint", f"{0:020}.index", f"{0:020}.timeindex"):
        fs.remove(f"{DIRECTORY}/{name}")
    a_store(fs).refresh()
    assert fs.missed == []
    assert append(a_store(fs)).result.base_offset == 3
