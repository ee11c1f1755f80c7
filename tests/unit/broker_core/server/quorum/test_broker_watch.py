import asyncio
import socket
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from broker_core.server.quorum.broker_watch import BrokerIncarnation, BrokerWatch
from broker_core.server.quorum.peer_connection import CLIENT_ID

SEVEN = BrokerIncarnation(broker_id=7, broker_epoch=70)


@dataclass(kw_only=True)
class Registered:
    broker_epoch: int = 70
    fenced: bool = False
    end_points: tuple = ()


class Watched:
    """A watch of broker 7, and what it told of it."""

    def __init__(self, port, **registered):
        place = SimpleNamespace(host="127.0.0.1", port=port)
        self.brokers = {7: Registered(end_points=(place,), **registered)}
        self.disconnected, self.gone = [], []
        self.watch = BrokerWatch(
            brokers=lambda: self.brokers, on_disconnected=self.disconnected.append, on_gone=self.gone.append
        )

    async def probed(self):
        """Until all probes are over."""
        while self.watch._probes:
            await asyncio.gather(*self.watch._probes)
            await asyncio.sleep(0)


@pytest.fixture
def listening():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def refusing():
    """A port that is somebody's, and nobody listens there."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def test_a_broker_whose_last_connection_closes_and_who_refuses_another_one_is_gone(refusing):
    async def story():
        seen = Watched(refusing)
        for connection_id in (1, 2):
            seen.watch.on_heartbeat(connection_id, CLIENT_ID, SEVEN)
        seen.watch.on_connection_closed(1)
        await seen.probed()
        assert (seen.disconnected, seen.gone) == ([], []), "it has another connection"
        seen.watch.on_connection_closed(2)
        assert seen.disconnected == [SEVEN]
        await seen.probed()
        assert seen.gone == [SEVEN]

    asyncio.run(story())


def test_a_broker_that_can_still_be_connected_to_is_only_disconnected(listening):
    async def story():
        seen = Watched(listening)
        seen.watch.on_heartbeat(1, CLIENT_ID, SEVEN)
        seen.watch.on_connection_closed(1)
        await seen.probed()
        assert (seen.disconnected, seen.gone) == ([SEVEN], [])

    asyncio.run(story())


def test_a_new_controller_looks_at_all_brokers_that_are_not_fenced(refusing, listening):
    async def story():
        gone, fenced, alive = Watched(refusing), Watched(refusing, fenced=True), Watched(listening)
        for seen in (gone, fenced, alive):
            seen.watch.look_at_all()
            await seen.probed()
        assert [seen.gone for seen in (gone, fenced, alive)] == [[SEVEN], [], []]

    asyncio.run(story())


def test_brokers_of_kafka_have_their_sessions(refusing):
    async def story():
        seen = Watched(refusing)
        seen.watch.on_heartbeat(1, "7", SEVEN)
        seen.watch.on_connection_closed(1)
        await seen.probed()
        assert (seen.disconnected, seen.gone) == ([], [])

    asyncio.run(story())


def test_an_earlier_incarnation_is_nobody_s_business(refusing):
    async def story():
        seen = Watched(refusing, broker_epoch=71)
        seen.watch.on_heartbeat(1, CLIENT_ID, SEVEN)
        seen.watch.on_connection_closed(1)
        await seen.probed()
        assert (seen.disconnected, seen.gone) == ([], [])

    asyncio.run(story())


def test_where_no_controller_is_active_nobody_is_looked_at(refusing):
    async def story():
        seen = Watched(refusing)
        seen.brokers = {}
        seen.watch.on_heartbeat(1, CLIENT_ID, SEVEN)
        seen.watch.on_connection_closed(1)
        seen.watch.look_at_all()
        await seen.probed()
        assert (seen.disconnected, seen.gone) == ([], [])

    asyncio.run(story())
