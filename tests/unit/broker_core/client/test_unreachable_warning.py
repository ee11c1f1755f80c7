import logging
import socket
import time

import pytest
from support.brokers.scripted_broker import ScriptedBroker

from broker_core.client.deadline import Deadline
from broker_core.client.unreachable_warning import PAUSE_SECONDS, UnreachableWarning
from broker_core.model.client_settings import BrokerAddress, parse_client_settings
from broker_core.model.exceptions import BrokerUnavailableError

GIVEN, ADVERTISED = BrokerAddress(host="a", port=1), BrokerAddress(host="b", port=2)
REFUSED = BrokerUnavailableError("it cannot be reached: Connection refused")


@pytest.fixture
def warning():
    return UnreachableWarning(parse_client_settings({"bootstrap.servers": str(GIVEN)}))


@pytest.fixture
def clock(monkeypatch):
    """The seconds that a warning goes by, in a list of one."""
    seconds = [1.0]
    monkeypatch.setattr("broker_core.client.unreachable_warning.time.monotonic", lambda: seconds[0])
    return seconds


def deadline():
    return Deadline(60_000, setting="default.api.timeout.ms")


def closed_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def test_the_first_failure_is_told_with_the_place_its_setting_and_for_how_long_it_is_tried(warning, caplog):
    warning.on_failure(GIVEN, REFUSED, deadline())
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert record.message == (
        "it cannot be reached: Connection refused (from bootstrap.servers). The broker may not be available; trying for"
        " up to 60 s (default.api.timeout.ms)."
    )


def test_an_address_that_nobody_gave_is_told_as_the_clusters(warning, caplog):
    warning.on_failure(ADVERTISED, REFUSED, deadline())
    assert "(as advertised by the cluster)" in caplog.text


def test_it_is_repeated_for_each_address_but_not_with_every_try(warning, caplog, clock):
    until = deadline()
    for _ in range(10):
        warning.on_failure(GIVEN, REFUSED, until)
        warning.on_failure(ADVERTISED, REFUSED, until)
    assert len(caplog.records) == 2
    clock[0] += PAUSE_SECONDS
    warning.on_failure(GIVEN, REFUSED, until)
    assert len(caplog.records) == 3


def test_nothing_is_said_when_time_is_up_since_the_call_fails_with_the_same_words(warning, caplog):
    until = Deadline(1, setting="x")
    time.sleep(0.01)
    warning.on_failure(GIVEN, REFUSED, until)
    assert caplog.records == []


def test_a_client_warns_while_it_waits_and_goes_on_when_another_address_answers(caplog):
    port = closed_port()
    with ScriptedBroker() as broker:
        broker.topics["t"] = 1
        client = broker.client(bootstrap__servers=f"127.0.0.1:{port},{broker.address}")
        assert "t" in client.describe_topics()
    [record] = [each for each in caplog.records if each.name == "broker_core.client.unreachable_warning"]
    assert record.message.startswith(f"127.0.0.1:{port} cannot be reached: Connection refused (from bootstrap.servers)")


def test_all_addresses_refuse_and_each_is_warned_of_once_before_the_call_fails(caplog):
    ports = closed_port(), closed_port()
    with ScriptedBroker() as broker:
        addresses = ",".join(f"127.0.0.1:{port}" for port in ports)
        client = broker.client(bootstrap__servers=addresses, default__api__timeout__ms=100)
    with pytest.raises(BrokerUnavailableError):
        client.describe_topics()
    said = [each.message for each in caplog.records if each.name == "broker_core.client.unreachable_warning"]
    assert [message.split()[0] for message in said] == [f"127.0.0.1:{port}" for port in ports]


def test_a_broker_that_answers_is_warned_of_by_nobody(caplog):
    with ScriptedBroker() as broker:
        broker.client().describe_topics()
    assert caplog.records == []
