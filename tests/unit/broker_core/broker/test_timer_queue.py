import random

from broker_core.broker.timer_queue import TimerQueue


def test_due_timers_run_in_order_of_time_then_of_insertion():
    timers, ran = TimerQueue(), []
    timers.set("late", 20, lambda now_ms: ran.append(("late", now_ms)))
    timers.set("b", 10, lambda now_ms: ran.append(("b", now_ms)))
    timers.set("c", 10, lambda now_ms: ran.append(("c", now_ms)))
    assert timers.fire(9) == 0
    assert timers.fire(15) == 2
    assert ran == [("b", 15), ("c", 15)]
    assert timers.next_ms() == 20


def test_a_timer_that_is_set_again_is_rescheduled():
    timers, ran = TimerQueue(), []
    timers.set("session", 10, ran.append)
    timers.set("session", 30, ran.append)
    assert timers.fire(29) == 0
    assert timers.fire(30) == 1
    assert timers.fire(100) == 0
    assert ran == [30]


def test_a_cancelled_timer_does_not_run():
    timers, ran = TimerQueue(), []
    timers.set("a", 10, ran.append)
    assert timers.cancel("a")
    assert not timers.cancel("a")
    assert timers.next_ms() is None
    assert timers.fire(100) == 0
    assert ran == []


def test_a_callback_that_reschedules_itself_runs_once_per_firing():
    timers, ran = TimerQueue(), []

    def again(now_ms):
        ran.append(now_ms)
        timers.set("tick", now_ms, again)

    timers.set("tick", 0, again)
    assert timers.fire(5) == 1
    assert timers.fire(5) == 1
    assert ran == [5, 5]


def test_rescheduling_a_timer_repeatedly_keeps_the_queue_small():
    timers = TimerQueue()
    for at_ms in range(10_000):
        timers.set("session", at_ms, lambda now_ms: None)
    assert len(timers) == 1
    assert len(timers._heap) <= 65


def test_random_timers_run_in_sorted_order():
    rng = random.Random(7)
    timers, expected, ran = TimerQueue(), {}, []
    for _ in range(2_000):
        key, at_ms = rng.randrange(100), rng.randrange(1_000)
        if rng.random() < 0.3:
            assert timers.cancel(key) == (expected.pop(key, None) is not None)
        else:
            timers.set(key, at_ms, lambda now_ms, key=key: ran.append(key))
            expected[key] = at_ms
    timers.fire(500)
    assert sorted(ran) == sorted(key for key, at_ms in expected.items() if at_ms <= 500)
    assert [expected[key] for key in ran] == sorted(expected[key] for key in ran)


def test_a_failing_callback_does_not_delay_other_timers(caplog):
    timers, called = TimerQueue(), []
    timers.set("a", 1, lambda now_ms: 1 / 0)
    timers.set("b", 1, called.append)
    assert timers.fire(1) == 2
    assert called == [1]
    assert "ZeroDivisionError" in caplog.text
