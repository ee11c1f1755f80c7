import asyncio
import errno
import os
import threading

import pytest

from broker_core.server.sync_lanes import SyncLanes
from broker_core.server.thread_jobs import ThreadJobs
from broker_core.server.thread_syncs import ThreadSyncs

LONG_SECONDS = 30
"""For what comes at once, unless something is broken."""

pytestmark = pytest.mark.skipif(not SyncLanes.is_built(), reason="the native module was not built: no C compiler")


class Answers:
    def __init__(self):
        self.all = []
        self._came = asyncio.Event()

    def __call__(self, answers):
        self.all += answers
        self._came.set()

    async def until(self, count):
        while len(self.all) < count:
            self._came.clear()
            await self._came.wait()


def run(story):
    async def with_lanes():
        answers = Answers()
        lanes = SyncLanes(asyncio.get_running_loop(), answers)
        try:
            await asyncio.wait_for(story(lanes, answers), LONG_SECONDS)
        finally:
            lanes.stop_hearing()
            await asyncio.to_thread(lanes.close)

    asyncio.run(with_lanes())


@pytest.fixture
def files(tmp_path):
    opened = [(tmp_path / str(number)).open("wb", buffering=0) for number in range(300)]
    yield opened
    for file in opened:
        file.close()


def test_requested_syncs_complete_on_the_loop(files):
    async def story(lanes, answers):
        files[0].write(b"x")
        assert not lanes.order([(7, files[0].fileno())])
        await answers.until(1)
        assert answers.all == [(7, 0)]

    run(story)


def test_hundreds_of_concurrent_syncs_complete_once_each(files):
    async def story(lanes, answers):
        for file in files:
            file.write(b"x" * 5000)
        assert not lanes.order([(number, file.fileno()) for number, file in enumerate(files)])
        await answers.until(len(files))
        assert sorted(answers.all) == [(number, 0) for number in range(len(files))]

    run(story)


def test_a_failed_sync_returns_its_errno(files):
    async def story(lanes, answers):
        reading, writing = os.pipe()
        assert not lanes.order([(1, writing), (2, files[0].fileno())])
        await answers.until(2)
        assert sorted(answers.all) == [(1, errno.EINVAL), (2, 0)]
        os.close(reading)
        os.close(writing)

    run(story)


def test_more_syncs_than_a_pipe_holds_are_submitted_in_pieces(files):
    async def story(lanes, answers):
        assert not lanes.order([(number, files[0].fileno()) for number in range(1500)])
        await answers.until(1500)
        assert sorted(answers.all) == [(number, 0) for number in range(1500)]

    run(story)


def test_syncs_that_do_not_fit_the_pipe_are_returned_in_order(files, monkeypatch):
    async def story(lanes, answers):
        taken = []

        def write(descriptor, data):
            if taken:
                raise BlockingIOError
            taken.append(data)
            return len(data)

        pairs = [(number, files[0].fileno()) for number in range(600)]
        with monkeypatch.context() as patched:
            patched.setattr(os, "write", write)
            assert list(lanes.order(pairs)) == pairs[512:]
        assert len(taken) == 1

    run(story)


def test_closing_waits_for_pending_syncs_and_ends_the_threads(files):
    def lane_threads():
        return {thread for thread in threading.enumerate() if thread.name == "streamlog-sync-lane"}

    of_others = lane_threads()  # a broker that other tests share may be there, too

    async def story():
        lanes = SyncLanes(asyncio.get_running_loop(), lambda answers: None)
        assert lane_threads() > of_others
        files[0].write(b"x" * 1_000_000)
        assert not lanes.order([(0, files[0].fileno())])
        lanes.stop_hearing()
        await asyncio.to_thread(lanes.close)

    asyncio.run(story())
    assert lane_threads() <= of_others


def with_syncs(story, *, is_native=True):
    async def told():
        loop = asyncio.get_running_loop()
        syncs = ThreadSyncs(loop, ThreadJobs(loop, thread_count=2), is_native=is_native)
        try:
            await asyncio.wait_for(story(syncs), LONG_SECONDS)
        finally:
            syncs.stop()
            await asyncio.to_thread(syncs.close)

    asyncio.run(told())


async def outcome_of(syncs, work, descriptor):
    """What came of a sync: None, or the error."""
    came = asyncio.get_running_loop().create_future()
    syncs.sync(work, lambda: came.set_result(None), came.set_result, descriptor=descriptor)
    return await came


@pytest.mark.parametrize("is_native", [True, False])
def test_a_file_with_a_descriptor_uses_its_own_sync_only_without_lanes(files, is_native):
    worked = []

    async def story(syncs):
        assert await outcome_of(syncs, lambda: worked.append("by Python"), files[0].fileno()) is None
        assert syncs.unfinished_count == 0

    with_syncs(story, is_native=is_native)
    assert worked == ([] if is_native else ["by Python"])


def test_a_file_without_a_descriptor_uses_its_own_sync():
    worked = []

    async def story(syncs):
        assert await outcome_of(syncs, lambda: worked.append("by Python"), None) is None

    with_syncs(story)
    assert worked == ["by Python"]


def test_a_failed_sync_in_a_lane_is_an_oserror():
    async def story(syncs):
        reading, writing = os.pipe()
        error = await outcome_of(syncs, lambda: None, writing)
        assert isinstance(error, OSError)
        assert error.errno == errno.EINVAL
        os.close(reading)
        os.close(writing)

    with_syncs(story)


def test_lanes_end_even_if_a_forked_process_holds_the_pipe_open():
    async def story():
        lanes = SyncLanes(asyncio.get_running_loop(), lambda answers: None)
        held_elsewhere = [os.dup(descriptor) for descriptor in lanes._descriptors]
        lanes.stop_hearing()
        await asyncio.wait_for(asyncio.to_thread(lanes.close), LONG_SECONDS)
        for descriptor in held_elsewhere:
            os.close(descriptor)

    asyncio.run(story())


def test_without_lanes_python_threads_sync(files, monkeypatch, caplog):
    worked = []

    def refuse():
        raise OSError(errno.EMFILE, "too many open files")

    async def story(syncs):
        with monkeypatch.context() as patched:
            patched.setattr(os, "pipe", refuse)
            assert await outcome_of(syncs, lambda: worked.append("by Python"), files[0].fileno()) is None

    with_syncs(story)
    assert worked == ["by Python"]
    assert "too many open files" in caplog.text


def test_after_a_close_no_sync_is_submitted(files):
    async def story():
        loop = asyncio.get_running_loop()
        syncs = ThreadSyncs(loop, ThreadJobs(loop, thread_count=1))
        assert await outcome_of(syncs, lambda: None, files[0].fileno()) is None
        syncs.sync(lambda: None, lambda: pytest.fail("it was synced"), pytest.fail, descriptor=files[0].fileno())
        syncs.stop()
        await asyncio.to_thread(syncs.close)
        await asyncio.sleep(0)
        assert syncs.unfinished_count == 0

    asyncio.run(story())
