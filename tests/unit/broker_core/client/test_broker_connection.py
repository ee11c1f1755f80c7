import subprocess
import sys
import threading
import time
from datetime import timedelta
from importlib.metadata import version

import pytest
import scramp
from kio.schema.api_versions.v0 import response as api_versions_0
from kio.schema.errors import ErrorCode
from kio.static.primitive import i16, i64Timedelta
from support.brokers.scripted_broker import CLOSE, ScriptedBroker, offsets_answer, schema_of

from broker_core.client.broker_connection import BrokerConnection
from broker_core.client.deadline import Deadline
from broker_core.client.wire_values import duration
from broker_core.model.client_settings import BrokerAddress, parse_client_settings
from broker_core.model.exceptions import (
    AuthenticationError,
    BrokerUnavailableError,
    MalformedMessageError,
    UnsupportedVersionError,
)
from broker_core.model.identifiers import OffsetSpec, TopicPartition
from broker_core.protocol.api_table import ApiKey

T0 = TopicPartition("t", 0)
SCRAM = {
    "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "ann",
    "sasl.password": "s3cret",
}  # fmt: skip


@pytest.fixture
def broker():
    with ScriptedBroker() as scripted:
        scripted.topics["t"] = 1
        yield scripted


def connect(broker, **settings):
    given = {"bootstrap.servers": broker.address, "socket.connection.setup.timeout.ms": "1000"} | settings
    return BrokerConnection(
        BrokerAddress(host="127.0.0.1", port=broker.port), parse_client_settings(given), Deadline(2000, setting="x")
    )


def handshake_answer(*mechanisms, error=ErrorCode.none):
    return schema_of(ApiKey.SASL_HANDSHAKE, 1).SaslHandshakeResponse(error_code=error, mechanisms=mechanisms)


def sasl_answer(data=b"", error=ErrorCode.none, message=None, lifetime_ms=0):
    return schema_of(ApiKey.SASL_AUTHENTICATE, 1).SaslAuthenticateResponse(
        error_code=error,
        error_message=message,
        auth_bytes=data,
        session_lifetime=i64Timedelta(timedelta(milliseconds=lifetime_ms)),
    )


def play_scram(broker, password="s3cret", *, lifetime_ms=0):
    """The broker accepts every client with the password, as Kafka does."""
    made = scramp.ScramMechanism("SCRAM-SHA-256")
    salt, stored_key, server_key, count = made.make_auth_info(password)
    state = {}

    def answer(request):
        text = request.message.auth_bytes.decode()
        try:
            if text.startswith("n,"):
                state["server"] = made.make_server(lambda _: (salt, stored_key, server_key, count))
                state["server"].set_client_first(text)
                return sasl_answer(state["server"].get_server_first().encode())
            state["server"].set_client_final(text)
            return sasl_answer(state["server"].get_server_final().encode(), lifetime_ms=lifetime_ms)
        except scramp.ScramException:
            return sasl_answer(
                error=ErrorCode.sasl_authentication_failed, message="Authentication failed: bad password"
            )

    broker.script(ApiKey.SASL_HANDSHAKE, handshake_answer("SCRAM-SHA-256"))
    broker.script(ApiKey.SASL_AUTHENTICATE, answer)


def test_a_connection_starts_with_api_versions_and_its_client_id(broker):
    connection = connect(broker, **{"client.id": "me"})
    assert [request.api_key for request in broker.requests] == [ApiKey.API_VERSIONS]
    assert broker.requests[0].client_id == "me"
    assert broker.requests[0].message.client_software_name == "spark-streamlog"
    assert broker.requests[0].message.client_software_version == version("spark-streamlog")
    assert connection.supports(ApiKey.FETCH, 12)
    assert not connection.supports(ApiKey.FETCH, 99)


def test_a_client_without_a_login_imports_no_login_modules():
    code = "import sys, broker_core.client.cluster_client; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "broker_core.client.broker_connection" in done.stdout.split()
    assert "scramp" not in done.stdout.split()


def test_no_unsupported_version_is_sent_to_an_older_broker(broker):
    broker.versions[ApiKey.LIST_OFFSETS] = (1, 5)
    with pytest.raises(
        UnsupportedVersionError, match=r"speaks versions 1 to 5 of ListOffsets, and version 7 is needed"
    ):
        broker.client().list_offsets({T0: OffsetSpec.LATEST})
    del broker.versions[ApiKey.LIST_OFFSETS]
    with pytest.raises(UnsupportedVersionError, match="speaks no version of ListOffsets"):
        broker.client().list_offsets({T0: OffsetSpec.LATEST})


def test_a_broker_that_refuses_the_api_versions_version_still_returns_its_versions(broker):
    refusal = api_versions_0.ApiVersionsResponse(
        error_code=ErrorCode.unsupported_version,
        api_keys=(api_versions_0.ApiVersion(api_key=i16(ApiKey.FETCH), min_version=i16(0), max_version=i16(12)),),
    )
    broker.script(ApiKey.API_VERSIONS, refusal)
    assert connect(broker).supports(ApiKey.FETCH, 12)


def test_several_requests_are_pipelined(broker):
    seen = []

    def answer(request):
        seen.append(len(broker.requests))
        return offsets_answer(("t", 0, len(seen)))

    broker.script(ApiKey.LIST_OFFSETS, answer)
    assert broker.client().bounds(T0).high_watermark == 3


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "HTTP response"),
        (b"\x7f\xff\xff\xff", "a message of 2147483647 bytes was announced"),
        (b"\0\0\0\x05\0\0\0\0\0", "are not a ApiVersionsResponse"),
        (b"\0\0\0\x06\0\0\0\x09\0\0", "a response with correlation id 9"),
    ],
)
def test_a_port_that_is_not_kafka_fails_immediately(broker, answer, said):
    broker.script(ApiKey.API_VERSIONS, answer)
    began = time.monotonic()
    with pytest.raises(MalformedMessageError, match=said):
        broker.client(default__api__timeout__ms=60_000).describe_topics(["t"])
    assert time.monotonic() - began < 30


def test_scram_login_succeeds(broker):
    play_scram(broker)
    connection = connect(broker, **SCRAM)
    assert [request.api_key for request in broker.requests] == [
        ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.SASL_AUTHENTICATE,
    ]  # fmt: skip
    assert connection.is_usable


def test_a_wrong_password_fails_immediately(broker):
    play_scram(broker, "another")
    began = time.monotonic()
    settings = {name.replace(".", "__"): value for name, value in SCRAM.items()}
    with pytest.raises(
        AuthenticationError, match=r"login of 'ann' by SCRAM-SHA-256: Authentication failed: bad"
    ) as caught:
        broker.client(default__api__timeout__ms=60_000, **settings).describe_topics(["t"])
    assert "s3cret" not in caught.value.message
    assert time.monotonic() - began < 30


def test_the_error_for_a_disabled_mechanism_lists_the_enabled_ones(broker):
    refusal = handshake_answer("GSSAPI", "PLAIN", error=ErrorCode.unsupported_sasl_mechanism)
    broker.script(ApiKey.SASL_HANDSHAKE, refusal)
    with pytest.raises(AuthenticationError, match="the broker offers GSSAPI, PLAIN"):
        connect(broker, **SCRAM)


def test_plain_sends_one_message(broker):
    broker.script(ApiKey.SASL_HANDSHAKE, handshake_answer("PLAIN"))
    broker.script(ApiKey.SASL_AUTHENTICATE, sasl_answer())
    connect(broker, **SCRAM | {"sasl.mechanism": "PLAIN"})
    assert [message.auth_bytes for message in broker.asked(ApiKey.SASL_AUTHENTICATE)] == [b"\0ann\0s3cret"]


def test_a_login_that_is_about_to_expire_is_not_reused(broker):
    play_scram(broker, lifetime_ms=60_000)
    assert connect(broker, **SCRAM).is_usable
    play_scram(broker, lifetime_ms=30)
    connection = connect(broker, **SCRAM)
    time.sleep(0.026)  # nine tenths are over
    assert not connection.is_usable


def test_a_connection_idle_beyond_connections_max_idle_ms_is_not_reused(broker):
    patient, impatient = connect(broker), connect(broker, **{"connections.max.idle.ms": "1"})
    time.sleep(0.01)
    assert patient.is_usable
    assert not impatient.is_usable


def test_a_broker_that_closes_the_connection_during_the_login_is_unavailable(broker):
    broker.script(ApiKey.SASL_HANDSHAKE, CLOSE)
    with pytest.raises(BrokerUnavailableError, match="closed the connection"):
        connect(broker, **SCRAM)


def test_a_silent_port_times_out(broker):
    broker.script(ApiKey.API_VERSIONS, lambda request: time.sleep(0.3) or CLOSE)
    with pytest.raises(Exception, match=r"did not answer within 100 ms \(socket.connection.setup.timeout.ms\)"):
        connect(broker, **{"socket.connection.setup.timeout.ms": "100"})


def test_an_interrupted_exchange_closes_the_connection(broker):
    connection = connect(broker)
    broker.script(ApiKey.END_TXN, lambda request: time.sleep(0.2) or CLOSE)
    from kio.schema.end_txn.v3.request import EndTxnRequest

    request = EndTxnRequest(transactional_id="x", producer_id=1, producer_epoch=i16(0), committed=True)
    with pytest.raises(Exception, match="did not answer"):
        connection.ask([request], Deadline(50, setting="x"))
    assert not connection.is_usable
    with pytest.raises(BrokerUnavailableError, match="failed while other requests waited"):
        connection.ask([request], Deadline(50, setting="x"))


def test_a_connection_in_use_is_not_closed(broker):
    connection = connect(broker)
    may_answer = threading.Event()

    def answer(request):
        may_answer.wait(60)
        return schema_of(ApiKey.END_TXN, 3).EndTxnResponse(throttle_time=duration(0), error_code=ErrorCode.none)

    broker.script(ApiKey.END_TXN, answer)
    from kio.schema.end_txn.v3.request import EndTxnRequest

    request = EndTxnRequest(transactional_id="x", producer_id=1, producer_epoch=i16(0), committed=True)
    found = []
    thread = threading.Thread(target=lambda: found.extend(connection.ask([request], Deadline(60_000, setting="x"))))
    thread.start()
    time.sleep(0.05)
    assert connection.is_usable
    may_answer.set()
    thread.join()
    assert found[0].error_code is ErrorCode.none
