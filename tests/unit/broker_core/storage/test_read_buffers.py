import threading

import pyarrow as pa
import pytest

from broker_core.storage.read_buffers import LEAST_BYTES, ReadBuffers

MIB = 1024 * 1024


@pytest.fixture
def buffers():
    return ReadBuffers(kept_bytes=4 * MIB)


def test_unreferenced_memory_is_reused(buffers):
    view = buffers.take(MIB)
    memory = id(view.obj)
    del view
    assert id(buffers.take(MIB).obj) == memory
    assert id(buffers.take(MIB - 5).obj) == memory


@pytest.mark.parametrize(
    "kept",
    [lambda view: view[100:200], lambda view: view.cast("q"), memoryview, pa.py_buffer],
    ids=["a part", "another type", "another view", "Arrow's"],
)
def test_referenced_memory_is_not_reused(buffers, kept):
    view = buffers.take(MIB)
    memory, held = id(view.obj), kept(view)
    del view
    assert id(buffers.take(MIB).obj) != memory
    del held
    taken = [buffers.take(MIB), buffers.take(MIB)]
    assert memory in {id(view.obj) for view in taken}


def test_views_have_the_requested_size(buffers):
    assert [len(buffers.take(size)) for size in (LEAST_BYTES, MIB + 1)] == [LEAST_BYTES, MIB + 1]


def test_kept_memory_is_bounded(buffers):
    held = [buffers.take(MIB) for _ in range(6)]
    assert [view is None for view in held] == [False] * 4 + [True] * 2


def test_small_and_huge_buffers_are_not_kept(buffers):
    assert buffers.take(LEAST_BYTES - 1) is None
    assert buffers.take(4 * MIB + 1) is None


def test_idle_memory_that_is_too_small_is_replaced_by_larger(buffers):
    small = [buffers.take(MIB) for _ in range(4)]
    assert buffers.take(3 * MIB) is None
    del small
    assert len(buffers.take(3 * MIB)) == 3 * MIB


def test_threads_do_not_share_memory(buffers):
    wrong = []

    def work(mark):
        for _ in range(300):
            view = buffers.take(LEAST_BYTES)
            if view is None:
                continue
            view[:8] = mark
            if bytes(view[:8]) != mark:
                wrong.append(mark)

    threads = [threading.Thread(target=work, args=(bytes([number]) * 8,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
