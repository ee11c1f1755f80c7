"""Proposals of a broker's leaders on their way to the controller."""

from kio.schema.errors import ErrorCode

from broker_core.replication.isr_request_queue import RETRY_PAUSE_MS, IsrRequestQueue
from broker_core.replication.replication_values import MemberProposal


def a_proposal(partition_epoch=1):
    return MemberProposal(members=((1, 101),), leader_epoch=1, partition_epoch=partition_epoch)


def test_everything_that_waits_goes_into_one_request_and_one_is_under_way():
    queue = IsrRequestQueue()
    queue.submit("a", a_proposal())
    queue.submit("b", a_proposal())
    assert queue.next_request(0) == {"a": a_proposal(), "b": a_proposal()}
    queue.submit("c", a_proposal())
    assert (queue.next_request(0), queue.next_timer_ms) == (None, None)
    assert queue.on_answered([ErrorCode.none, ErrorCode.none], 0).keys() == {"a", "b"}
    assert queue.next_request(0) == {"c": a_proposal()}


def test_after_a_failure_all_of_it_is_sent_again_after_a_pause_with_what_is_newer():
    queue = IsrRequestQueue()
    queue.submit("a", a_proposal(1))
    queue.submit("b", a_proposal(1))
    queue.next_request(0)
    queue.submit("a", a_proposal(2))
    queue.on_failed(10)
    assert (queue.next_request(10), queue.next_timer_ms) == (None, 10 + RETRY_PAUSE_MS)
    assert queue.next_request(10 + RETRY_PAUSE_MS) == {"a": a_proposal(2), "b": a_proposal(1)}


def test_an_error_that_asks_for_another_try_makes_a_pause():
    queue = IsrRequestQueue()
    queue.submit("a", a_proposal())
    queue.next_request(0)
    queue.on_answered([ErrorCode.not_controller], 10)
    queue.submit("a", a_proposal())
    assert queue.next_request(10) is None
    assert queue.next_request(10 + RETRY_PAUSE_MS) is not None
