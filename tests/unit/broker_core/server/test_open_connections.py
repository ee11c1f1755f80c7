import logging

from support.brokers.small_broker import SmallBroker, until, versions

from broker_core.protocol.api_table import ApiKey
from broker_core.server import open_connections


def test_an_idle_connection_is_closed(caplog):
    with (
        SmallBroker(connections__max__idle__ms=50) as broker,
        broker.connect() as client,
        caplog.at_level(logging.INFO),
    ):
        versions(client)
        assert client.is_hung_up_on()
    assert any("connections.max.idle.ms" in record.getMessage() for record in caplog.records)


def test_a_connection_that_waits_for_a_response_is_not_idle():
    with SmallBroker(connections__max__idle__ms=50) as broker, broker.connect() as waiting, broker.connect() as silent:
        waiting.send(ApiKey.HEARTBEAT, 0, group_id="g", generation_id=1, member_id="m")
        until(lambda: broker.node.parked)
        assert silent.is_hung_up_on()
        broker.answer()
        assert waiting.receive().error_code == 0


def test_an_idle_connection_with_unread_responses_is_closed():
    with SmallBroker(connections__max__idle__ms=100, socket__send__buffer__bytes=5000) as broker:
        broker.node.answer_bytes = 20_000_000
        with broker.connect() as client:
            client.send(ApiKey.METADATA, 9, topics=())
            until(lambda: broker.call(lambda: broker.server.memory.held_bytes) > 0)
            until(lambda: broker.call(lambda: len(broker.server.connections)) == 0)
        assert broker.call(lambda: broker.server.memory.held_bytes) == 0


def test_with_full_memory_stalled_connections_are_closed_first(monkeypatch):
    monkeypatch.setattr(open_connections, "MAX_STALLED_MS_WHEN_FULL", 50)
    with SmallBroker(socket__send__buffer__bytes=5000, connections__max__idle__ms=2000) as broker:
        broker.call(lambda: setattr(broker.server.memory, "_limit_bytes", 1_000_000))
        broker.node.answer_bytes = 20_000_000
        with broker.connect() as greedy, broker.connect() as good:
            greedy.send(ApiKey.METADATA, 9, topics=())
            until(lambda: broker.call(lambda: broker.server.memory.is_full))
            # It waits until the other one is gone.
            assert versions(good).api_keys


def test_a_negative_idle_limit_keeps_idle_connections():
    with SmallBroker(connections__max__idle__ms=-1) as broker, broker.connect() as client:
        versions(client)
        broker.call(lambda: broker.server.connections.sweep())
        assert versions(client).api_keys
