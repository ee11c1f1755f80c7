import asyncio

import pytest
from kio.schema.errors import ErrorCode
from support.brokers.small_broker import SmallBroker, SmallNode, dispatch, until, versions

from broker_core.broker.settings.broker_config import parse_broker_config
from broker_core.model.exceptions import DirectoryLockedError
from broker_core.protocol.api_table import ApiKey
from broker_core.server.broker_server import BrokerServer


def config(**settings):
    given = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": "/nowhere"}
    return parse_broker_config(given | {name.replace("__", "."): value for name, value in settings.items()})


def test_a_chosen_port_is_advertised():
    with SmallBroker() as broker:
        endpoint = broker.node.config.endpoints["PLAINTEXT"]
        assert (endpoint.host, endpoint.port) == ("127.0.0.1", broker.port)
        assert broker.thread.bootstrap_servers == f"127.0.0.1:{broker.port}"


def test_an_advertised_address_keeps_its_port():
    with SmallBroker(advertised__listeners="PLAINTEXT://broker.example.com:9") as broker:
        assert str(broker.node.config.endpoints["PLAINTEXT"]) == "broker.example.com:9"


def test_a_listener_without_a_host_advertises_the_machines_name():
    with SmallBroker(listeners="PLAINTEXT://:0") as broker:
        assert broker.node.config.endpoints["PLAINTEXT"].host


def test_clients_of_every_listener_are_served():
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,B://127.0.0.1:0",
        "listener__security__protocol__map": "B:PLAINTEXT",
    }
    with SmallBroker(**settings) as broker, broker.connect("PLAINTEXT") as one, broker.connect("B") as other:
        assert versions(one).api_keys
        assert versions(other).api_keys
        assert {call.listener for call in broker.node.asked} == {"PLAINTEXT", "B"}


def test_a_failed_start_reports_the_reason_and_closes_everything():
    class LockedNode(SmallNode):
        def start(self, on_ready, on_error):
            on_error(DirectoryLockedError("somebody else has it"))

    async def story():
        server = BrokerServer(config(), new_node=LockedNode, dispatch_request=dispatch)
        port = server.config.listeners[0].port
        with pytest.raises(DirectoryLockedError):
            await server.start()
        # The port is free again.
        again = BrokerServer(config(listeners=f"PLAINTEXT://127.0.0.1:{port}"), new_node=SmallNode)
        await again.start()
        await again.stop()

    asyncio.run(story())


def test_a_stop_is_clean_while_requests_are_parked():
    broker = SmallBroker()
    with broker, broker.connect() as waiting, broker.connect() as idle:
        waiting.send(ApiKey.HEARTBEAT, 0, group_id="g", generation_id=1, member_id="m")
        versions(idle)
        until(lambda: broker.node.parked)
        broker.thread.stop()
        assert broker.node.is_stopped
        assert waiting.is_hung_up_on()
        assert idle.is_hung_up_on()


def test_responses_during_a_stop_are_still_sent():
    class AnsweringNode(SmallNode):
        def stop(self, on_done):
            for call in self.parked:
                call.respond(error_code=ErrorCode.none)
            super().stop(on_done)

    broker = SmallBroker(new_node=AnsweringNode)
    with broker, broker.connect() as client:
        client.send(ApiKey.HEARTBEAT, 0, group_id="g", generation_id=1, member_id="m")
        until(lambda: broker.node.parked)
        broker.thread.stop()
        assert client.receive().error_code == 0


def test_a_failed_stop_of_the_node_still_stops_the_server(caplog):
    class FailingNode(SmallNode):
        def stop(self, on_done):
            raise RuntimeError("a mistake of ours")

    broker = SmallBroker(new_node=FailingNode)
    with broker, broker.connect() as client:
        versions(client)
        broker.thread.stop()
        assert client.is_hung_up_on()
    assert "a mistake of ours" in caplog.text


def test_a_killed_broker_sends_nothing_and_abandons_its_log():
    broker = SmallBroker()
    with broker, broker.connect() as client:
        versions(client)
        broker.thread.kill()
        assert broker.node.is_abandoned
        assert not broker.node.is_stopped
        assert client.is_hung_up_on()


def test_a_slow_client_does_not_prevent_a_stop(monkeypatch):
    monkeypatch.setattr("broker_core.server.open_connections._CLOSE_SECONDS", 0.05)
    broker = SmallBroker(socket__send__buffer__bytes=5000)
    with broker, broker.connect() as client:
        broker.node.answer_bytes = 20_000_000
        client.send(ApiKey.METADATA, 9, topics=())
        until(lambda: broker.call(lambda: broker.server.memory.held_bytes) > 0)
        broker.thread.stop()
