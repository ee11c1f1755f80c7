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


def test_a_request_is_asked_when_one_of_its_partitions_moves_and_is_gone_once_it_has_answered():
    purgatory, request = Purgatory(), CountedRequest()
    purgatory.park(request, ["a", "b"])
    purgatory.wake("c")
    assert (request.asked, len(purgatory)) == (0, 1)
    for partition in ("b", "a", "b"):
        purgatory.wake(partition)
    assert (request.moved, len(purgatory)) == (["b"], 0)


def test_a_request_that_has_not_enough_stays():
    purgatory, request = Purgatory(), CountedRequest(completes_at=3)
    purgatory.park(request, ["a"])
    for _ in range(4):
        purgatory.wake("a")
    assert (request.asked, len(purgatory)) == (3, 0)


def test_a_removed_request_is_not_asked_any_more():
    purgatory, request = Purgatory(), CountedRequest()
    purgatory.park(request, ["a", "a"])
    assert purgatory.remove(request)
    assert not purgatory.remove(request)
    purgatory.wake("a")
    assert request.asked == 0


def test_a_request_that_removes_another_while_it_answers_keeps_that_from_being_asked():
    purgatory, second = Purgatory(), CountedRequest()
    first = CountedRequest(on_complete=lambda: purgatory.remove(second))
    purgatory.park(first, ["a"])
    purgatory.park(second, ["a"])
    purgatory.wake("a")
    assert (first.asked, second.asked) == (1, 0)


def test_a_request_that_is_parked_by_an_answer_is_not_asked_in_the_same_round():
    purgatory, later = Purgatory(), CountedRequest()
    purgatory.park(CountedRequest(on_complete=lambda: purgatory.park(later, ["a"])), ["a"])
    purgatory.wake("a")
    assert later.asked == 0
    purgatory.wake("a")
    assert later.asked == 1


def test_nothing_is_kept_of_requests_that_are_gone():
    purgatory = Purgatory()
    for number in range(100):
        request = CountedRequest()
        purgatory.park(request, [number, number + 1])
        purgatory.remove(request)
    assert purgatory._waiting == {}
