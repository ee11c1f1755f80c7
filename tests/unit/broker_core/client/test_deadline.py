import time

from broker_core.client.deadline import Backoff, Deadline


def test_a_deadline_expires():
    deadline = Deadline(30, setting="x")
    assert 0 < deadline.remaining_seconds <= 0.03
    assert not deadline.is_over
    assert deadline.pause(10) is False
    assert deadline.is_over
    assert deadline.remaining_seconds == 0


def test_a_pause_within_the_deadline_waits():
    began = time.monotonic()
    assert Deadline(10_000, setting="x").pause(0.01)
    assert time.monotonic() - began >= 0.01


def test_pauses_double_up_to_the_maximum_with_jitter():
    backoff = Backoff(first_ms=100, longest_ms=350)
    for wanted in (0.1, 0.2, 0.35, 0.35):
        assert 0.8 * wanted <= backoff.next_seconds() <= 1.2 * wanted
    assert len({Backoff(first_ms=100, longest_ms=100).next_seconds() for _ in range(20)}) > 1
