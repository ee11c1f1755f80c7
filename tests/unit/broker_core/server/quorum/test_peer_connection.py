"""Links to a controller whose listener wants TLS and a login, with right and wrong settings."""

import asyncio
import logging
import shutil
import time
from dataclasses import replace

import pytest
from kio.schema.errors import ErrorCode
from support.brokers.cluster_in_process import ClusterInProcess
from support.brokers.reachable_broker import PEMS, free_ports
from support.brokers.secured_nodes import LISTENER, secured_client_settings, secured_settings

from broker_core.broker.settings.link_security import LinkSecurity
from broker_core.model.client_settings import BrokerAddress, SaslSettings, TlsSettings
from broker_core.model.exceptions import AuthenticationError, BrokerUnavailableError
from broker_core.protocol.api_table import message_types
from broker_core.protocol.message_builder import build
from broker_core.server.quorum.peer_connection import PeerConnection
from broker_core.server.quorum.peer_dialer import PeerDialer

DESCRIBE_CLUSTER = 60
RIGHT = LinkSecurity(
    listener="CONTROLLER",
    tls=TlsSettings(trust_path=str(PEMS / "authority.pem")),
    sasl=SaslSettings(mechanism="PLAIN", username="node", password="between-nodes"),
)


@pytest.fixture(scope="module")
def keystore(tmp_path_factory):
    return shutil.copy(PEMS / "broker.pem", tmp_path_factory.mktemp("keys") / "node.pem")


@pytest.fixture(scope="module")
def controller(tmp_path_factory, keystore):
    """The address of one that wants SASL_SSL."""
    given = {
        "settings": {**secured_settings(has_authorizer=False), "ssl.keystore.location": str(keystore)},
        "listener": LISTENER,
        "client_settings": secured_client_settings(),
    }
    with ClusterInProcess(tmp_path_factory.mktemp("node"), 1, **given) as cluster:
        host, _, port = cluster.controllers[0].partition(":")
        yield BrokerAddress(host=host, port=int(port))


def question(version):
    return build(message_types(DESCRIBE_CLUSTER, version).request, {"endpoint_type": 2})


async def ask(connection):
    return await connection.ask(DESCRIBE_CLUSTER, range(1, 3), question)


def errors_of(address, security, *, count=1, dialer=None):
    """What each of so many attempts raises."""

    async def run():
        shared = dialer or PeerDialer(security)
        found = []
        for _ in range(count):
            with pytest.raises((AuthenticationError, BrokerUnavailableError)) as raised:
                await ask(PeerConnection(address, shared))
            found.append(raised.value)
        return found

    return asyncio.run(run())


def test_a_link_logs_in_over_tls_and_is_used_for_several_requests(controller):
    async def run():
        connection = PeerConnection(controller, PeerDialer(RIGHT))
        answers = [await ask(connection), await ask(connection)]
        connection.close()
        return answers

    assert [answer.error_code for answer in asyncio.run(run())] == [ErrorCode.none] * 2


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"tls": TlsSettings(trust_path=str(PEMS / "stranger.pem"))}, "certificate is not accepted.*ssl.truststore"),
        ({"tls": TlsSettings(trust_path="/nowhere.pem")}, "ssl.truststore.location: no PEM certificates in /nowhere"),
        ({"sasl": replace(RIGHT.sasl, password="wrong")}, "login of 'node' by PLAIN: Authentication failed"),
        ({"sasl": replace(RIGHT.sasl, mechanism="SCRAM-SHA-256")}, "the broker offers PLAIN, SCRAM-SHA-512"),
        ({"sasl": replace(RIGHT.sasl, mechanism="SCRAM-SHA-512")}, "by SCRAM-SHA-512: Authentication failed"),
    ],
)
def test_a_wrong_certificate_or_login_is_said_once_with_its_settings_and_tried_ever_more_slowly(
    controller, wrong, words, caplog
):
    caplog.set_level(logging.WARNING, logger="broker_core.server.quorum.peer_dialer")
    began = time.monotonic()
    errors = errors_of(controller, replace(RIGHT, **wrong), count=3)
    # The pauses before the second and the third attempt are 0.05 and 0.1 s.
    assert time.monotonic() - began > 0.14
    assert {type(error) for error in errors} == {AuthenticationError}
    (record,) = [each for each in caplog.records if each.name.endswith("peer_dialer")]
    assert (record.levelname, str(controller) in record.message) == ("WARNING", True)
    assert "listener.name.controller.*" in record.message
    with pytest.raises(AuthenticationError, match=words):
        raise errors[-1]


def test_a_link_without_tls_to_a_listener_with_tls_says_so(controller, caplog):
    caplog.set_level(logging.WARNING, logger="broker_core.server.quorum.peer_dialer")
    errors = errors_of(controller, LinkSecurity(listener="CONTROLLER"), count=6)
    assert {type(error) for error in errors} == {BrokerUnavailableError}
    (record,) = [each for each in caplog.records if each.name.endswith("peer_dialer")]
    assert "connects with PLAINTEXT, does that listener have it (listener.security.protocol.map)?" in record.message


def test_after_a_complaint_it_is_told_that_the_peer_is_accepted(controller, caplog):
    caplog.set_level(logging.INFO, logger="broker_core.server.quorum.peer_dialer")

    async def run():
        dialer = PeerDialer(replace(RIGHT, sasl=replace(RIGHT.sasl, password="wrong")))
        with pytest.raises(AuthenticationError):
            await ask(PeerConnection(controller, dialer))
        dialer.security = RIGHT
        connection = PeerConnection(controller, dialer)
        await ask(connection)
        await ask(connection)
        connection.close()

    asyncio.run(run())
    assert [record.levelname for record in caplog.records if record.name.endswith("peer_dialer")] == ["WARNING", "INFO"]


def test_a_peer_that_is_away_is_tried_without_a_pause_and_without_a_word(caplog):
    caplog.set_level(logging.INFO, logger="broker_core.server.quorum.peer_dialer")
    (port,) = free_ports(1)

    async def run():
        dialer = PeerDialer(RIGHT)
        for _ in range(20):
            with pytest.raises(ConnectionRefusedError):
                await ask(PeerConnection(BrokerAddress(host="127.0.0.1", port=port), dialer))

    asyncio.run(run())
    assert not [record for record in caplog.records if record.name.endswith("peer_dialer")]


class CountedDialer(PeerDialer):
    count = 0

    async def open(self, address):
        self.count += 1
        return await super().open(address)


def test_more_urgent_requests_do_not_begin_the_handshake_and_the_login_again(controller):
    # A busy machine needs longer for them than a candidate waits for votes: the quorum had no leader for ever.
    async def run():
        dialer = CountedDialer(RIGHT)
        connection = PeerConnection(controller, dialer)
        for _ in range(5):
            asking = asyncio.ensure_future(ask(connection))
            await asyncio.sleep(0)
            asking.cancel()
            connection.give_up()
            await asyncio.wait([asking])
            assert asking.cancelled()
        answer = await ask(connection)
        assert (answer.error_code, dialer.count) == (ErrorCode.none, 1)
        # The answer to what is under way may come any time: it is not that of the next request.
        asking = asyncio.ensure_future(ask(connection))
        await asyncio.sleep(0)
        asking.cancel()
        connection.give_up()
        answer = await ask(connection)
        connection.close()
        assert (answer.error_code, dialer.count) == (ErrorCode.none, 2)

    asyncio.run(run())


def test_a_connection_that_is_closed_while_it_opens_says_so(controller):
    async def run():
        connection = PeerConnection(controller, PeerDialer(RIGHT))
        asking = asyncio.ensure_future(ask(connection))
        await asyncio.sleep(0)
        connection.close()
        with pytest.raises(BrokerUnavailableError, match="closed by this side"):
            await asking
        assert (await ask(connection)).error_code is ErrorCode.none
        connection.close()

    asyncio.run(run())


def test_a_certificate_that_is_replaced_is_used_by_both_sides_for_the_next_connection(controller, keystore, tmp_path):
    trusted = shutil.copy(PEMS / "authority.pem", tmp_path / "trusted.pem")
    security = replace(RIGHT, tls=TlsSettings(trust_path=str(trusted)))

    async def run():
        dialer = PeerDialer(security)
        before = PeerConnection(controller, dialer)
        await ask(before)
        shutil.copy(PEMS / "broker-renewed.pem", keystore)
        await ask(before)
        with pytest.raises(AuthenticationError, match="certificate is not accepted"):
            await ask(PeerConnection(controller, dialer))
        shutil.copy(PEMS / "broker-renewed.pem", trusted)
        after = PeerConnection(controller, dialer)
        await ask(after)
        before.close()
        after.close()

    try:
        asyncio.run(run())
    finally:
        shutil.copy(PEMS / "broker.pem", keystore)
