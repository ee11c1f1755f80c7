"""Requests to the active controller, of which two are played."""

import asyncio
import threading

import pytest
from kio.schema.errors import ErrorCode
from support.brokers.scripted_broker import ScriptedBroker

from broker_core.model.client_settings import BrokerAddress
from broker_core.protocol.api_table import message_types
from broker_core.protocol.message_builder import build
from broker_core.server.cluster.controller_link import ControllerLink
from broker_core.server.quorum.peer_dialer import PeerDialer

ALLOCATE = 67
REQUEST = build(message_types(ALLOCATE, 0).request, {"broker_id": 1, "broker_epoch": 5})


def an_answer(first_id, error=ErrorCode.none):
    values = {"producer_id_start": first_id, "producer_id_len": 1000, "error_code": error}
    return build(message_types(ALLOCATE, 0).response, values)


@pytest.fixture
def controllers():
    with ScriptedBroker() as first, ScriptedBroker() as second:
        for each in (first, second):
            each.versions |= {ALLOCATE: (0, 0)}
        yield first, second


def asked(leader, *, timeout_seconds=20):
    """What the link tells, with the leader that the function names."""
    told = []

    async def run():
        over = asyncio.Event()
        link = ControllerLink(leader, PeerDialer(), timeout_seconds=timeout_seconds)

        def tell(what):
            told.append(what)
            over.set()

        link.ask(REQUEST, lambda answer: tell(answer.producer_id_start), lambda error: tell(error.error_code))
        await asyncio.wait_for(over.wait(), 30)
        link.close()

    asyncio.run(run())
    return told


def address_of(broker):
    return BrokerAddress(host="127.0.0.1", port=int(broker.address.rpartition(":")[2]))


def test_the_active_controller_answers(controllers):
    first, _ = controllers
    first.script(ALLOCATE, an_answer(7000))
    assert asked(lambda: address_of(first)) == [7000]


def test_a_request_waits_until_a_controller_is_known(controllers):
    first, _ = controllers
    first.script(ALLOCATE, an_answer(7000))
    looks = iter(range(1000))
    assert asked(lambda: address_of(first) if next(looks) > 3 else None) == [7000]


def test_another_controller_is_asked_when_the_first_one_says_that_it_is_not_active(controllers):
    first, second = controllers
    first.script(ALLOCATE, an_answer(-1, ErrorCode.not_controller))
    second.script(ALLOCATE, an_answer(8000))
    assert asked(lambda: address_of(second if first.asked(ALLOCATE) else first)) == [8000]


def test_a_frozen_controller_does_not_keep_a_request_when_another_one_leads(controllers):
    first, second = controllers
    is_frozen, thaw = threading.Event(), threading.Event()

    def freeze(request):
        is_frozen.set()
        thaw.wait(20)
        return an_answer(-1)

    first.script(ALLOCATE, freeze)
    second.script(ALLOCATE, an_answer(8000))
    try:
        assert asked(lambda: address_of(second if is_frozen.is_set() else first)) == [8000]
    finally:
        thaw.set()


def test_a_request_that_no_controller_answers_is_given_up(controllers):
    assert asked(lambda: None, timeout_seconds=0.3) == [ErrorCode.request_timed_out]
