import asyncio
from dataclasses import replace

import pytest
from support.brokers.small_broker import SmallBroker, until, versions

from broker_core.server.connection_quota import ConnectionLimits, ConnectionQuota


def test_max_connections_per_ip_limits_one_address():
    quota = ConnectionQuota(ConnectionLimits(total=9, per_address=2, by_address={"b": 1}))
    assert [quota.admit("L", "a") for _ in range(3)] == [True, True, False]
    assert [quota.admit("L", "b") for _ in range(2)] == [True, False]
    quota.release("L", "a")
    assert quota.admit("L", "a")
    assert quota.count == 3


def test_a_full_node_or_listener_pauses_accepting():
    async def story():
        quota = ConnectionQuota(ConnectionLimits(total=2, per_address=9))
        quota.admit("L", "a")
        await quota.wait_for_room("L", lambda: None)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(quota.wait_for_room("L", lambda: 1), 0.01)
        quota.admit("M", "a")
        waiting = asyncio.create_task(quota.wait_for_room("M", lambda: None))
        await asyncio.sleep(0)
        assert not waiting.done()
        quota.release("M", "a")
        await waiting

    asyncio.run(story())


def test_changed_limits_apply_immediately_and_wake_waiting_listeners():
    async def story():
        quota = ConnectionQuota(ConnectionLimits(total=1, per_address=1))
        assert quota.admit("L", "a")
        waiting = asyncio.create_task(quota.wait_for_room("L", lambda: None))
        await asyncio.sleep(0)
        assert not waiting.done()
        quota.set_limits(ConnectionLimits(total=2, per_address=2))
        await waiting
        assert quota.admit("L", "a")

    asyncio.run(story())


def test_changed_limits_reach_the_listener():
    with SmallBroker(max__connections__per__ip=1) as broker, broker.connect() as first:
        assert versions(first).api_keys
        broker.call(lambda: broker.node.tell_settings(replace(broker.server.config, max_connections_per_ip=2)))
        with broker.connect() as second:
            assert versions(second).api_keys


def test_a_connection_above_the_address_limit_is_closed():
    with SmallBroker(max__connections__per__ip=1) as broker, broker.connect() as first, broker.connect() as second:
        assert versions(first).api_keys
        assert second.is_hung_up_on()
        first.close()
        until(lambda: broker.call(lambda: len(broker.server.connections)) == 0)
        with broker.connect() as third:
            assert versions(third).api_keys


def test_a_full_broker_accepts_the_next_connection_when_one_closes():
    with SmallBroker(max__connections=1) as broker, broker.connect() as first, broker.connect() as second:
        assert versions(first).api_keys
        second.send(18, 0)
        second.socket.settimeout(0.05)
        with pytest.raises(TimeoutError):
            second.receive()
        second.socket.settimeout(20)
        first.close()
        assert second.receive().api_keys
