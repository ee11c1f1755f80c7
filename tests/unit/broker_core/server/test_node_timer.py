import asyncio

from broker_core.broker.timer_queue import TimerQueue
from broker_core.log_directory.system_ports import SystemClock
from broker_core.server.node_timer import NodeTimer


class QueueNode:
    def __init__(self):
        self.timers = TimerQueue()
        self.next_timer_ms = self.timers.next_ms
        self.on_time = self.timers.fire


def run(story):
    async def with_timer():
        node, clock = QueueNode(), SystemClock()
        timer = NodeTimer(asyncio.get_running_loop(), node, clock)
        await story(node, clock, timer)
        timer.stop()

    asyncio.run(with_timer())


def test_due_timers_run_on_time_and_in_order():
    async def story(node, clock, timer):
        ran = asyncio.Queue()
        now_ms = clock.now_ms()
        node.timers.set("late", now_ms + 20, lambda at_ms: ran.put_nowait(("late", at_ms)))
        timer.look()
        node.timers.set("early", now_ms + 5, lambda at_ms: ran.put_nowait(("early", at_ms)))
        timer.look()
        found = [await ran.get(), await ran.get()]
        assert [name for name, _ in found] == ["early", "late"]
        assert found[0][1] >= now_ms + 5
        assert found[1][1] >= now_ms + 20

    run(story)


def test_a_callback_may_set_the_next_time():
    async def story(node, clock, timer):
        done = asyncio.Event()

        def again(now_ms):
            node.timers.set("b", now_ms + 1, lambda _: done.set())

        node.timers.set("a", clock.now_ms(), again)
        timer.look()
        await asyncio.wait_for(done.wait(), 20)

    run(story)


def test_an_error_in_a_callback_is_logged(caplog):
    async def story(node, clock, timer):
        done = asyncio.Event()

        def mistake(now_ms):
            raise RuntimeError("mine")

        node.timers.set("a", clock.now_ms(), mistake)
        timer.look()
        await asyncio.sleep(0.01)
        node.timers.set("b", clock.now_ms(), lambda _: done.set())
        timer.look()
        await asyncio.wait_for(done.wait(), 20)

    run(story)
    assert "mine" in caplog.text


def test_no_timer_runs_after_a_close():
    async def story(node, clock, timer):
        ran = []
        node.timers.set("a", clock.now_ms() + 1, ran.append)
        timer.look()
        timer.stop()
        timer.look()
        await asyncio.sleep(0.01)
        assert not ran

    run(story)


def test_a_later_timer_does_not_read_the_clock():
    async def story(node, clock, timer):
        asked = []
        now_ms, clock.now_ms = clock.now_ms, lambda: asked.append(1) or now_ms()
        done = asyncio.Event()
        node.timers.set("first", now_ms() + 10, lambda _: None)
        timer.look()
        asked.clear()
        node.timers.cancel("first")
        node.timers.set("later", now_ms() + 20, lambda _: done.set())
        timer.look()
        assert not asked
        await asyncio.wait_for(done.wait(), 20)

    run(story)
