import logging
import socket
import time

import pytest
from support.brokers.scripted_broker import ScriptedBroker

from broker_core.client.deadline import Deadline
from broker_core.client.unreachable_warning import PAUSE_SECONDS, UnreachableWarning, trying_until
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


def test_the_first_failure_is_logged_with_address_setting_and_timeout(warning, caplog):
    warning.on_failure(GIVEN, REFUSED, deadline(), then=trying_until(deadline()))
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert record.message == (
        "it cannot be reached: Connection refused (from bootstrap.servers). The broker may not be available; trying for"
        " up to 60 s (default.api.timeout.ms)."
    )


def test_an_advertised_address_is_logged_as_such(warning, caplog):
    warning.on_failure(ADVERTISED, REFUSED, deadline(), then="trying again")
    assert "(as advertised by the cluster)" in caplog.text


def test_the_warning_is_logged_once_per_address_and_not_per_attempt(warning, caplog, clock):
    until = deadline()
    for _ in range(10):
        warning.on_failure(GIVEN, REFUSED, until, then="trying again")
        warning.on_failure(ADVERTISED, REFUSED, until, then="trying again")
    assert len(caplog.records) == 2
    clock[0] += PAUSE_SECONDS
    warning.on_failure(GIVEN, REFUSED, until, then="trying again")
    assert len(caplog.records) == 3


def test_no_warning_is_logged_at_the_timeout_because_the_call_fails_with_it(warning, caplog):
    until = Deadline(1, setting="x")
    time.sleep(0.01)
    warning.on_failure(GIVEN, REFUSED, until, then="trying again")
    assert caplog.records == []


def test_a_client_warns_while_it_waits_and_continues_when_another_address_answers(caplog):
    port = closed_port()
    with ScriptedBroker() as broker:
        broker.topics["t"] = 1
        client = broker.client(bootstrap__servers=f"127.0.0.1:{port},{broker.address}")
        assert "t" in client.describe_topics()
    [record] = [each for each in caplog.records if each.name == "broker_core.client.unreachable_warning"]
    assert record.message == (
        f"127.0.0.1:{port} cannot be reached: Connection refused (from bootstrap.servers). The broker may not be"
        f" available; trying {broker.address} next."
    )


def test_each_unreachable_address_is_warned_about_once_before_the_call_fails(caplog):
    ports = closed_port(), closed_port()
    with ScriptedBroker() as broker:
        addresses = ",".join(f"127.0.0.1:{port}" for port in ports)
        client = broker.client(bootstrap__servers=addresses, default__api__timeout__ms=600)
    with pytest.raises(BrokerUnavailableError):
        client.describe_topics()
    said = [each.message for each in caplog.records if each.name == "broker_core.client.unreachable_warning"]
    assert [message.split()[0] for message in said] == [f"127.0.0.1:{port}" for port in ports]
    assert [message.partition("; ")[2] for message in said] == [
        f"trying 127.0.0.1:{ports[1]} next.",
        "trying for up to 0.6 s (default.api.timeout.ms).",
    ]


def test_a_reachable_broker_logs_no_warning(caplog):
    with ScriptedBroker() as broker:
        broker.client().describe_topics()
    assert caplog.records == []
