import asyncio
import threading

from broker_core.server.thread_jobs import ThreadJobs


def run(story):
    async def with_jobs():
        jobs = ThreadJobs(asyncio.get_running_loop(), thread_count=2)
        try:
            await story(jobs)
        finally:
            await asyncio.to_thread(jobs.close)

    asyncio.run(with_jobs())


async def outcome(jobs, work):
    done = asyncio.get_running_loop().create_future()
    jobs.submit(work, done.set_result, done.set_exception)
    return await done


def test_jobs_run_in_a_thread_and_return_to_the_loop():
    async def story(jobs):
        came_back_on = []
        done = asyncio.Event()

        def on_value(thread):
            came_back_on.append((thread, threading.get_ident()))
            done.set()

        jobs.submit(threading.get_ident, on_value, came_back_on.append)
        assert jobs.unfinished_count == 1
        assert not came_back_on
        await done.wait()
        ((worker, loop_thread),) = came_back_on
        assert loop_thread == threading.get_ident() != worker
        assert jobs.unfinished_count == 0

    run(story)


def test_errors_of_jobs_return_to_the_loop():
    async def story(jobs):
        def fail():
            raise OSError("disk full")

        try:
            await outcome(jobs, fail)
        except OSError as error:
            assert str(error) == "disk full"
        else:
            raise AssertionError("nothing was raised")

    run(story)


def test_an_error_in_one_callback_does_not_stop_others(caplog):
    async def story(jobs):
        def mistake(_):
            raise RuntimeError("mine")

        jobs.submit(lambda: None, mistake, mistake)
        assert await outcome(jobs, lambda: 7) == 7

    run(story)
    assert "mine" in caplog.text


def test_a_listener_is_called_after_each_delivery():
    async def story():
        told = []
        jobs = ThreadJobs(asyncio.get_running_loop(), thread_count=1, after_each=lambda: told.append(1))
        await outcome(jobs, lambda: None)
        await asyncio.sleep(0)
        assert told
        await asyncio.to_thread(jobs.close)

    asyncio.run(story())


def test_after_a_close_no_job_starts_and_no_result_arrives():
    async def story(jobs):
        begun, go_on = threading.Event(), threading.Event()

        def work():
            begun.set()
            go_on.wait()

        came = []
        jobs.submit(work, came.append, came.append)
        await asyncio.to_thread(begun.wait)
        closing = asyncio.create_task(asyncio.to_thread(jobs.close))
        while not jobs._is_closed:
            await asyncio.sleep(0)
        jobs.submit(lambda: None, came.append, came.append)
        go_on.set()
        await closing
        await asyncio.sleep(0)
        assert not came

    run(story)


def test_another_thread_count_counts_for_later_jobs_and_loses_none():
    async def story(jobs):
        release = threading.Event()
        earlier = [asyncio.ensure_future(outcome(jobs, release.wait)) for _ in range(4)]
        await asyncio.sleep(0)
        jobs.set_thread_count(3)
        meeting = threading.Barrier(3)
        await asyncio.gather(*(outcome(jobs, lambda: meeting.wait(20)) for _ in range(3)))
        assert not any(one.done() for one in earlier)
        release.set()
        assert await asyncio.gather(*earlier) == [True] * 4
        assert jobs.unfinished_count == 0

    run(story)
