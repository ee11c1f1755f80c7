import pytest

from broker_core.server.answer_queue import AnswerQueue


def test_a_response_waits_for_earlier_ones():
    queue = AnswerQueue()
    first, second, third = (queue.add(10) for _ in range(3))
    queue.fill(second, [b"ab", b"c"], 3)
    assert (queue.open_count, queue.open_bytes, queue.ready_bytes) == (2, 20, 3)
    assert queue.take_ready() == []
    queue.fill(first, [b"x"], 1)
    assert queue.take_ready() == [first, second]
    assert (queue.open_count, queue.open_bytes, queue.ready_bytes) == (1, 10, 0)
    queue.fill(third, (), 0)
    assert [place.size_bytes for place in queue.take_ready()] == [0]


def test_a_request_is_answered_once():
    queue = AnswerQueue()
    place = queue.add(1)
    queue.fill(place, (), 0)
    with pytest.raises(AssertionError):
        queue.fill(place, (), 0)


def test_nothing_is_sent_after_a_closing_response():
    queue = AnswerQueue()
    first, last, behind, later = (queue.add(1) for _ in range(4))
    last.closes = True
    for place in (last, behind):
        queue.fill(place, [b"x"], 1)
    queue.fill(first, [b"x"], 1)
    assert queue.take_ready() == [first, last]
    queue.fill(later, [b"x"], 1)
    assert queue.take_ready() == []
