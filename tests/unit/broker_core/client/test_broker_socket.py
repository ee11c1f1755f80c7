import os
import socket
import ssl
from pathlib import Path

import pytest
from support.brokers.scripted_broker import ScriptedBroker, offsets_answer

from broker_core.client.broker_socket import BrokerSocket
from broker_core.client.deadline import Deadline
from broker_core.model.client_settings import BrokerAddress, ClientSettings, TlsSettings
from broker_core.model.exceptions import AuthenticationError, BrokerUnavailableError, RequestTimedOutError
from broker_core.model.identifiers import OffsetSpec, TopicPartition
from broker_core.protocol.api_table import ApiKey

PEMS = Path(__file__).parents[3] / "golden" / "tls"
TRUSTING = TlsSettings(trust_path=str(PEMS / "authority.pem"))


def server_context(certificate="broker.pem", *, asks_for_client=False):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEMS / certificate)
    if asks_for_client:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(PEMS / "authority.pem")
    return context


def address_of(port, host="127.0.0.1"):
    return BrokerAddress(host=host, port=port)


def settings_of(tls=None, **settings):
    return ClientSettings(bootstrap_servers=(), tls=tls, **settings)


def soon():
    return Deadline(2000, setting="x.timeout.ms")


@pytest.fixture
def pair():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        made = BrokerSocket(address_of(listener.getsockname()[1]), settings_of(), soon())
        accepted, _ = listener.accept()
        with accepted:
            yield made, accepted
        made.close()


def test_many_large_parts_arrive_in_order(pair):
    made, accepted = pair
    parts = [b"a", b"", os.urandom(3_000_000), bytearray(b"b"), memoryview(os.urandom(2_000_000))]
    child = os.fork()
    if child == 0:
        made.send(parts, soon())
        os._exit(0)
    wanted, got = b"".join(map(bytes, parts)), bytearray()
    while len(got) < len(wanted):
        got += accepted.recv(2**20)
    os.waitpid(child, 0)
    assert got == wanted


def test_a_silent_socket_times_out_and_a_closed_one_fails(pair):
    made, accepted = pair
    assert made.is_silent
    accepted.sendall(b"x")
    target = memoryview(bytearray(10))
    assert made.receive_into(target, soon()) == 1
    assert made.is_silent
    accepted.close()
    with pytest.raises(BrokerUnavailableError, match="closed the connection"):
        made.receive_into(target, soon())
    assert not made.is_silent


def test_socket_buffers_have_the_configured_sizes(monkeypatch):
    asked = {}

    class NotedSocket(socket.socket):
        def setsockopt(self, level, option, value):
            asked[option] = value
            super().setsockopt(level, option, value)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        monkeypatch.setattr(socket, "socket", NotedSocket)
        settings = settings_of(send_buffer_bytes=40_000, receive_buffer_bytes=50_000)
        BrokerSocket(address_of(listener.getsockname()[1]), settings, soon()).close()
        assert (asked[socket.SO_SNDBUF], asked[socket.SO_RCVBUF]) == (40_000, 50_000)
        asked.clear()
        BrokerSocket(address_of(listener.getsockname()[1]), settings_of(), soon()).close()
        assert not {socket.SO_SNDBUF, socket.SO_RCVBUF} & asked.keys()


def test_connecting_is_bounded(pair):
    made, _ = pair
    with pytest.raises(RequestTimedOutError, match=r"did not answer within 30 ms \(request.timeout.ms\)"):
        made.receive_into(memoryview(bytearray(1)), Deadline(30, setting="request.timeout.ms"))
    with pytest.raises(RequestTimedOutError):
        made.send([bytes(50_000_000)], Deadline(30, setting="request.timeout.ms"))


@pytest.mark.parametrize("host", ["no-such-host.invalid", "x" * 300, "a..b"])
def test_an_unresolvable_host_name_is_reported(host):
    with pytest.raises(BrokerUnavailableError, match="cannot be reached"):
        BrokerSocket(address_of(9, host), settings_of(), soon())


def test_requests_and_large_responses_pass_through_tls():
    with ScriptedBroker(tls=server_context()) as broker:
        broker.topics["t"] = 1
        broker.script(ApiKey.LIST_OFFSETS, offsets_answer(("t", 0, 5)))
        client = broker.client(security__protocol="SSL", ssl__truststore__location=PEMS / "authority.pem")
        assert client.list_offsets({TopicPartition("t", 0): OffsetSpec.LATEST})[TopicPartition("t", 0)].offset == 5


@pytest.mark.parametrize(
    ("certificate", "settings", "said"),
    [
        ("broker.pem", TlsSettings(trust_path=str(PEMS / "stranger.pem")), "certificate is not accepted"),
        ("broker.pem", TlsSettings(), "certificate is not accepted"),
        ("elsewhere.pem", TRUSTING, "certificate is not accepted: IP address mismatch"),
    ],
)
def test_an_untrusted_broker_is_refused(certificate, settings, said):
    with ScriptedBroker(tls=server_context(certificate)) as broker, pytest.raises(AuthenticationError, match=said):
        BrokerSocket(address_of(broker.port), settings_of(settings), soon())


def test_another_host_name_is_accepted_without_host_name_verification():
    settings = TlsSettings(trust_path=str(PEMS / "authority.pem"), verifies_host_name=False)
    with ScriptedBroker(tls=server_context("elsewhere.pem")) as broker:
        BrokerSocket(address_of(broker.port), settings_of(settings), soon()).close()


@pytest.mark.parametrize(
    "identity",
    [
        TlsSettings(trust_path=str(PEMS / "authority.pem"), key_path=str(PEMS / "client.pem")),
        TlsSettings(
            trust_pem=(PEMS / "authority.pem").read_text(),
            key_path=str(PEMS / "client-encrypted.pem"),
            key_password="opensesame",
        ),
    ],
)
def test_a_client_sends_its_certificate_on_request(identity):
    with ScriptedBroker(tls=server_context(asks_for_client=True)) as broker:
        broker.topics["t"] = 1
        made = BrokerSocket(address_of(broker.port), settings_of(identity), soon())
        # In TLS 1.3 the server looks at the certificate after the client's handshake is done.
        with pytest.raises(RequestTimedOutError):
            made.receive_into(memoryview(bytearray(1)), Deadline(100, setting="x"))
        made.close()


def test_a_client_without_a_required_certificate_is_refused():
    with ScriptedBroker(tls=server_context(asks_for_client=True)) as broker:
        client = broker.client(
            security__protocol="SSL", ssl__truststore__location=PEMS / "authority.pem", default__api__timeout__ms=300
        )
        with pytest.raises(Exception, match=r"(?i)certificate|closed|broke|reset"):
            client.describe_topics(["t"])


def test_a_port_without_tls_is_reported():
    refusal = pytest.raises(BrokerUnavailableError, match=r"TLS handshake.*does this port speak TLS\?")
    with ScriptedBroker() as broker, refusal:
        BrokerSocket(address_of(broker.port), settings_of(TRUSTING), soon())


def test_connecting_without_tls_to_a_tls_port_is_reported():
    refusal = pytest.raises(Exception, match=r"security.protocol|closed the connection|broke")
    with ScriptedBroker(tls=server_context()) as broker, refusal:
        broker.client(default__api__timeout__ms=1000).describe_topics(["t"])
