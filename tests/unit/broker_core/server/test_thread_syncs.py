import asyncio
import threading
from types import SimpleNamespace

import pytest
from support.builders.builders import a_batch
from support.nodes.replica_builders import T0, ReplicaNode

from broker_core.log.append_request import AppendRequest
from broker_core.server import thread_syncs
from broker_core.server.thread_jobs import ThreadJobs
from broker_core.server.thread_syncs import CHEAP_SYNC_SECONDS, ThreadSyncs

LONG_SECONDS = 30
"""For what comes at once, unless something is broken."""


def run(story, *, thread_count=4):
    async def with_syncs():
        loop = asyncio.get_running_loop()
        jobs = ThreadJobs(loop, thread_count=thread_count)
        try:
            await asyncio.wait_for(story(ThreadSyncs(loop, jobs), jobs), LONG_SECONDS)
        finally:
            await asyncio.to_thread(jobs.close)

    asyncio.run(with_syncs())


class Told:
    """What came, in order; `until(count)` waits for so many."""

    def __init__(self):
        self.all = []
        self._came = asyncio.Event()

    def __call__(self, what):
        self.all.append(what)
        self._came.set()

    def sync(self, syncs, name, work=lambda: None):
        syncs.sync(work, lambda: self((name, "synced")), lambda error: self((name, error)))

    async def until(self, count):
        while len(self.all) < count:
            await self._came.wait()
            self._came.clear()
        return self.all


def become_slow(syncs):
    """As after many syncs that took long."""
    syncs._mean_seconds = 2 * CHEAP_SYNC_SECONDS


async def next_turn():
    await asyncio.sleep(0)


def test_end_of_turn_callbacks_run_once_after_all_events_of_the_turn():
    async def story(syncs, jobs):
        ran = []
        for name in "ab":
            syncs.at_end_of_turn(lambda name=name: ran.append(name))
        asyncio.get_running_loop().call_soon(ran.append, "of the next turn")
        assert ran == []
        await next_turn()
        assert ran == ["a", "b", "of the next turn"]
        await next_turn()
        assert len(ran) == 3
        syncs.at_end_of_turn(lambda: ran.append("c"))
        await next_turn()
        assert ran[3:] == ["c"]

    run(story)


def test_a_callback_registered_during_the_end_of_a_turn_runs_in_the_next_one():
    async def story(syncs, jobs):
        ran = []

        def first():
            ran.append("first")
            syncs.at_end_of_turn(lambda: ran.append("second"))

        syncs.at_end_of_turn(first)
        await next_turn()
        assert ran == ["first"]
        await next_turn()
        assert ran == ["first", "second"]

    run(story)


def test_syncs_of_a_turn_start_after_all_its_writes():
    async def story(syncs, jobs):
        told, written = Told(), []
        seen = []
        told.sync(syncs, "early", lambda: seen.append(list(written)))
        for name in "ab":

            def write(name=name):
                written.append(name)
                told.sync(syncs, name, lambda: seen.append(list(written)))

            syncs.at_end_of_turn(write)
        await told.until(3)
        assert seen == [["a", "b"]] * 3
        assert told.all == [(name, "synced") for name in ("early", "a", "b")]

    run(story)


def test_a_sync_runs_in_a_thread_and_returns_to_the_loop():
    async def story(syncs, jobs):
        threads, done = [], asyncio.Event()

        def synced():
            threads.append(threading.get_ident())
            done.set()

        syncs.sync(lambda: threads.append(threading.get_ident()), synced, pytest.fail)
        await done.wait()
        assert threads[0] != threads[1] == threading.get_ident()

    run(story)


def test_cheap_syncs_of_a_turn_share_one_thread_and_return_together():
    async def story(syncs, jobs):
        told, threads = Told(), []
        for name in "abc":
            told.sync(syncs, name, lambda: threads.append(threading.get_ident()))
        await next_turn()
        assert jobs.unfinished_count == 1
        await told.until(3)
        assert len(set(threads)) == 1
        assert told.all == [(name, "synced") for name in "abc"]

    run(story)


def test_slow_syncs_of_a_turn_run_concurrently_and_return_independently():
    async def story(syncs, jobs):
        become_slow(syncs)
        told, meeting, go_on = Told(), threading.Barrier(3), threading.Event()

        def wait_for_the_end():
            meeting.wait(LONG_SECONDS)
            assert go_on.wait(LONG_SECONDS)

        told.sync(syncs, "slowest", wait_for_the_end)
        for name in "ab":
            told.sync(syncs, name, lambda: meeting.wait(LONG_SECONDS))
        await told.until(2)
        assert sorted(told.all) == [("a", "synced"), ("b", "synced")]
        go_on.set()
        await told.until(3)
        assert told.all[2] == ("slowest", "synced")

    run(story)


def test_the_typical_sync_duration_decides_and_an_outlier_does_not(monkeypatch):
    now, seconds_each = [0.0], [0.004]

    def read_clock():
        now[0] += seconds_each[0]
        return now[0]

    monkeypatch.setattr(thread_syncs, "time", SimpleNamespace(perf_counter=read_clock))

    async def story(syncs, jobs):
        told = Told()

        async def are_one_threads_work():
            """Two more syncs, of one turn."""
            count = len(told.all)
            told.sync(syncs, "a")
            told.sync(syncs, "b")
            await next_turn()
            job_count = jobs.unfinished_count
            await told.until(count + 2)
            return job_count == 1

        told.sync(syncs, "by chance")
        await told.until(1)
        assert await are_one_threads_work()
        assert not await are_one_threads_work()
        seconds_each[0] = 0.0
        for _ in range(20):
            await are_one_threads_work()
        assert await are_one_threads_work()

    run(story)


def test_an_error_at_the_end_of_a_turn_stops_no_callback_and_no_sync(caplog):
    async def story(syncs, jobs):
        told = Told()

        def mistake():
            raise RuntimeError("mine")

        told.sync(syncs, "early")
        syncs.at_end_of_turn(mistake)
        syncs.at_end_of_turn(lambda: told.sync(syncs, "late"))
        await told.until(2)
        assert told.all == [("early", "synced"), ("late", "synced")]
        syncs.at_end_of_turn(lambda: told("the turn after"))
        await told.until(3)

    run(story)
    assert "mine" in caplog.text


@pytest.mark.parametrize("are_slow", [False, True])
def test_a_failed_sync_is_reported_and_the_others_of_its_turn_are_synced(are_slow):
    async def story(syncs, jobs):
        if are_slow:
            become_slow(syncs)
        told, refusal = Told(), OSError(5, "Input/output error")

        def fail():
            raise refusal

        told.sync(syncs, "a")
        told.sync(syncs, "b", fail)
        told.sync(syncs, "c")
        await told.until(3)
        assert dict(told.all) == {"a": "synced", "b": refusal, "c": "synced"}

    run(story)


def test_an_error_in_a_sync_callback_does_not_stop_others(caplog):
    async def story(syncs, jobs):
        told = Told()

        def mistake(*_):
            raise RuntimeError("mine")

        syncs.sync(lambda: None, mistake, mistake)
        syncs.sync(lambda: 1 // 0, mistake, mistake)
        told.sync(syncs, "last")
        assert await told.until(1) == [("last", "synced")]

    run(story)
    assert [record.getMessage() for record in caplog.records] == ["the callback of a sync failed"] * 2


def test_after_a_close_nothing_is_synced_and_nothing_returns():
    async def story(syncs, jobs):
        told, begun, go_on, synced = Told(), threading.Event(), threading.Event(), []

        def work():
            begun.set()
            assert go_on.wait(LONG_SECONDS)
            synced.append("begun before")

        told.sync(syncs, "begun before", work)
        await next_turn()
        await asyncio.to_thread(begun.wait, LONG_SECONDS)
        told.sync(syncs, "of the last turn", lambda: synced.append("of the last turn"))
        jobs._is_closed = True  # closing takes a thread; from here on it has begun
        await next_turn()
        go_on.set()
        await asyncio.to_thread(jobs.close)
        told.sync(syncs, "late", lambda: synced.append("late"))
        syncs.at_end_of_turn(lambda: told.sync(syncs, "later", lambda: synced.append("later")))
        for _ in range(3):
            await next_turn()
        assert (synced, told.all) == (["begun before"], [])

    run(story)


@pytest.mark.parametrize("is_refused", [False, True])
def test_jobs_that_wait_for_a_partition_do_not_block_the_sync_that_releases_it(tmp_path, is_refused):
    """They did where syncs were jobs among the others: each thread waited for the lock, and the sync for a thread."""

    async def story():
        loop = asyncio.get_running_loop()
        jobs, sync_jobs = ThreadJobs(loop, thread_count=2), ThreadJobs(loop, thread_count=1)
        first = ReplicaNode(tmp_path / "log")
        first.create()
        first.stop()
        node = ReplicaNode(tmp_path / "log", jobs=jobs, writes=ThreadSyncs(loop, sync_jobs))
        told, waiting = Told(), threading.Semaphore(0)

        def append():
            node.replica().append(
                AppendRequest(batches=a_batch(1), on_done=lambda done: told(done.base_offset), on_error=told)
            )

        append()
        await told.until(1)
        held_up, go_on = threading.Event(), threading.Event()

        def hold_up():
            held_up.set()
            assert go_on.wait(LONG_SECONDS)

        sync_jobs.submit(hold_up, lambda _: None, told)
        await asyncio.to_thread(held_up.wait, LONG_SECONDS)
        if is_refused:
            node.fs.refuse("sync", "t-0/00000000000000000000.log")
        append()
        await next_turn()
        assert sync_jobs.unfinished_count == 2, "the sync is not begun, and the partition is held"

        def want_the_partition():
            waiting.release()
            return node.directory.access.write(T0, lambda store: store.bounds().log_end_offset)

        for _ in range(4):
            jobs.submit(want_the_partition, lambda end: told(f"end {end}"), told)
        for _ in range(2):
            await asyncio.to_thread(waiting.acquire, timeout=LONG_SECONDS)
        assert told.all == [0]
        go_on.set()
        await told.until(6)
        assert sorted(map(str, told.all[1:]))[-4:] == [f"end {1 if is_refused else 2}"] * 4
        assert node.fs.refused == is_refused
        for each in (jobs, sync_jobs):
            await asyncio.to_thread(each.close)
        node.crash()

    asyncio.run(asyncio.wait_for(story(), 2 * LONG_SECONDS))


def test_a_turn_without_a_sync_also_notifies_the_job_listener():
    async def story(syncs, jobs):
        told = Told()
        with_end = ThreadSyncs(asyncio.get_running_loop(), jobs, after_turn=lambda: told("end of turn"))
        with_end.at_end_of_turn(lambda: told("written"))
        await told.until(2)
        assert told.all == ["written", "end of turn"]

    run(story)
