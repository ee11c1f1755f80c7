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


def test_what_was_begun_runs_while_its_caller_goes_on(log):
    ahead = FetchAhead(log.fetch)
    ahead.begin(7)
    assert log.was_asked.wait(SECONDS)
    log.may_answer.set()
    assert ahead.take(7) == "records at 7"
    ((offset, thread),) = log.asked
    assert (offset, thread is threading.current_thread(), thread.daemon) == (7, False, True)


def test_without_a_beginning_it_is_fetched_when_it_is_taken(log):
    log.may_answer.set()
    assert FetchAhead(log.fetch).take(3) == "records at 3"
    assert log.asked == [(3, threading.current_thread())]


def test_an_answer_is_taken_once(log):
    log.may_answer.set()
    ahead = FetchAhead(log.fetch)
    ahead.begin(1)
    assert (ahead.take(1), ahead.take(1)) == ("records at 1", "records at 1")
    assert [offset for offset, _ in log.asked] == [1, 1]


def test_another_offset_than_the_one_begun_is_fetched_anew(log):
    log.may_answer.set()
    ahead = FetchAhead(log.fetch)
    ahead.begin(1)
    assert ahead.take(5) == "records at 5"


def test_what_the_fetch_raised_is_raised_where_it_is_taken(log):
    log.may_answer.set()
    ahead = FetchAhead(log.fetch)
    ahead.begin(-1)
    with pytest.raises(ValueError, match="no offset -1"):
        ahead.take(-1)
    assert ahead.take(2) == "records at 2"


def test_what_nobody_takes_holds_nobody_back(log):
    ahead = FetchAhead(log.fetch)
    ahead.begin(1)
    assert log.was_asked.wait(SECONDS)
    ahead.begin(2)
    log.may_answer.set()
    assert ahead.take(2) == "records at 2"
