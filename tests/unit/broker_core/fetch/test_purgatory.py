from broker_core.fetch.purgatory import Purgatory


class CountedRequest:
    """Completes at the n-th time that it is asked."""

    def __init__(self, completes_at=1, on_complete=lambda: None):
        self.moved, self._completes_at, self._on_complete = [], completes_at, on_complete

    @property
    def asked(self):
        return len(self.moved)

    def maybe_complete(self, partition):
        self.moved.append(partition)
        if self.asked < self._completes_at:
            return False
        self._on_complete()
        return True


def test_a_parked_request_is_checked_when_its_partition_advances_and_removed_once_complete():
    purgatory, request = Purgatory(), CountedRequest()
    purgatory.park(request, ["a", "b"])
    purgatory.wake("c")
    assert (request.asked, len(purgatory)) == (0, 1)
    for partition in ("b", "a", "b"):
        purgatory.wake(partition)
    assert (request.moved, len(purgatory)) == (["b"], 0)


def test_an_incomplete_request_stays_parked():
    purgatory, request = Purgatory(), CountedRequest(completes_at=3)
    purgatory.park(request, ["a"])
    for _ in range(4):
        purgatory.wake("a")
    assert (request.asked, len(purgatory)) == (3, 0)


def test_a_removed_request_is_not_checked():
    purgatory, request = Purgatory(), CountedRequest()
    purgatory.park(request, ["a", "a"])
    assert purgatory.remove(request)
    assert not purgatory.remove(request)
    purgatory.wake("a")
    assert request.asked == 0


def test_a_request_removed_by_another_reply_is_not_checked():
    purgatory, second = Purgatory(), CountedRequest()
    first = CountedRequest(on_complete=lambda: purgatory.remove(second))
    purgatory.park(first, ["a"])
    purgatory.park(second, ["a"])
    purgatory.wake("a")
    assert (first.asked, second.asked) == (1, 0)


def test_a_request_parked_by_a_reply_is_not_checked_in_the_same_round():
    purgatory, later = Purgatory(), CountedRequest()
    purgatory.park(CountedRequest(on_complete=lambda: purgatory.park(later, ["a"])), ["a"])
    purgatory.wake("a")
    assert later.asked == 0
    purgatory.wake("a")
    assert later.asked == 1


def test_completed_requests_leave_no_state():
    purgatory = Purgatory()
    for number in range(100):
        request = CountedRequest()
        purgatory.park(request, [number, number + 1])
        purgatory.remove(request)
    assert purgatory._waiting == {}
