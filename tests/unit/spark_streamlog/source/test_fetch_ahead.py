import threading

import pytest

from spark_streamlog.source.fetch_ahead import FetchAhead

SECONDS = 20


class SlowLog:
    """Answers when it is told to. `asked` are the offsets, and which thread asked."""

    def __init__(self):
        self.may_answer = threading.Event()
        self.was_asked = threading.Event()
        self.asked = []

    def fetch(self, offset):
        self.asked.append((offset, threading.current_thread()))
        self.was_asked.set()
        assert self.may_answer.wait(SECONDS)
        if offset < 0:
            raise ValueError(f"no offset {offset}")
        return f"records at {offset}"


@pytest.fixture
def log():
    log = SlowLog()
    yield log
    log.may_answer.set()


def test_a_fetch_runs_while_its_caller_continues(log):
    ahead = FetchAhead(log.fetch)
    ahead.begin([7])
    assert log.was_asked.wait(SECONDS)
    log.may_answer.set()
    assert ahead.take(7) == "records at 7"
    ((offset, thread),) = log.asked
    assert (offset, thread is threading.current_thread(), thread.daemon) == (7, False, True)


def test_without_a_begun_fetch_take_fetches(log):
    log.may_answer.set()
    assert FetchAhead(log.fetch).take(3) == "records at 3"
    assert log.asked == [(3, threading.current_thread())]


def test_an_answer_is_returned_once(log):
    log.may_answer.set()
    ahead = FetchAhead(log.fetch)
    ahead.begin([1])
    assert (ahead.take(1), ahead.take(1)) == ("records at 1", "records at 1")
    assert [offset for offset, _ in log.asked] == [1, 1]


def test_taking_another_offset_fetches_again(log):
    log.may_answer.set()
    ahead = FetchAhead(log.fetch)
    ahead.begin([1])
    assert ahead.take(5) == "records at 5"


def test_several_fetches_are_under_way_and_those_that_are_begun_again_go_on(log):
    ahead = FetchAhead(log.fetch)
    ahead.begin([1, 2, 3])
    ahead.begin([2, 3, 4])
    log.may_answer.set()
    assert [ahead.take(offset) for offset in (2, 3, 4)] == ["records at 2", "records at 3", "records at 4"]
    assert sorted(offset for offset, _ in log.asked) == [1, 2, 3, 4]


def test_an_error_of_the_fetch_is_raised_by_take(log):
    log.may_answer.set()
    ahead = FetchAhead(log.fetch)
    ahead.begin([-1])
    with pytest.raises(ValueError, match="no offset -1"):
        ahead.take(-1)
    assert ahead.take(2) == "records at 2"


def test_a_fetch_that_is_not_taken_does_not_block_the_process(log):
    ahead = FetchAhead(log.fetch)
    ahead.begin([1])
    assert log.was_asked.wait(SECONDS)
    ahead.begin([2])
    log.may_answer.set()
    assert ahead.take(2) == "records at 2"
