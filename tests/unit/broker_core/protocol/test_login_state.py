"""Expected answers are those of Kafka 4.3.1, asked over sockets; see the comments where it decides something odd."""

from itertools import product

import pytest
from kio.schema.errors import ErrorCode
from support.builders.counting_entropy import CountingEntropy

from broker_core.protocol.api_table import ApiKey, message_types
from broker_core.protocol.login_state import LoginStage, LoginState
from broker_core.protocol.message_builder import build
from broker_core.protocol.sasl import sasl_client

NOW_MS = 1_000_000
RIGHT, WRONG = b"\0ann\0s3cret", b"\0ann\0x"
MECHANISMS = ["PLAIN", "SCRAM-SHA-256"]
OPEN_TO_ALL = None


class PlainUsers:
    decoy_key = b"key"
    passwords = {"ann": "s3cret", "bob": "s3cret"}  # noqa: RUF012

    def plain_password(self, username):
        return self.passwords.get(username)

    def scram_credential(self, mechanism, username):
        return None


def a_login(max_reauth_ms=0):
    return LoginState(
        mechanisms=MECHANISMS, credentials=PlainUsers(), entropy=CountingEntropy(), max_reauth_ms=max_reauth_ms
    )


def ask(login, api_key, version=0, now_ms=NOW_MS, **fields):
    message = build(message_types(api_key, version).request, fields)
    return login.on_request(api_key, version, message, now_ms)


def handshake(login, mechanism="PLAIN", version=1, now_ms=NOW_MS):
    return ask(login, ApiKey.SASL_HANDSHAKE, version, now_ms, mechanism=mechanism)


def authenticate(login, token=RIGHT, now_ms=NOW_MS):
    return ask(login, ApiKey.SASL_AUTHENTICATE, 2, now_ms, auth_bytes=token)


def logged_in(**settings):
    login = a_login(**settings)
    handshake(login)
    assert authenticate(login).fields["error_code"] == ErrorCode.none
    return login


def answer(login, given):
    """The answer can be built in the version that asked: its field names are right."""
    if given.fields is not None:
        key = ApiKey.SASL_HANDSHAKE if "mechanisms" in given.fields else ApiKey.SASL_AUTHENTICATE
        build(message_types(key, 1).response, given.fields)
    return given


def test_plain_login_succeeds():
    login = a_login()
    assert not login.is_authenticated
    begun = answer(login, handshake(login))
    assert begun.fields == {"error_code": ErrorCode.none, "mechanisms": MECHANISMS}
    assert not begun.closes
    done = answer(login, authenticate(login))
    assert done.fields == {
        "error_code": ErrorCode.none, "error_message": "", "auth_bytes": b"", "session_lifetime": 0,
    }  # fmt: skip
    assert (login.is_authenticated, login.principal) == (True, "User:ann")
    assert ask(login, ApiKey.METADATA) is OPEN_TO_ALL


def test_sasl_handshake_version_0_uses_raw_tokens():
    login = a_login()
    assert not login.expects_raw_token
    handshake(login, version=0)
    assert login.expects_raw_token
    assert login.on_raw_token(RIGHT, NOW_MS).raw == b""
    assert not login.expects_raw_token
    assert login.principal == "User:ann"


def test_a_refused_bare_token_has_no_answer():
    login = a_login()
    handshake(login, version=0)
    refused = login.on_raw_token(WRONG, NOW_MS)
    assert (refused.raw, refused.fields, refused.closes, refused.delays) == (None, None, True, True)


def test_versions_may_be_asked_before_but_not_twice():
    login = a_login()
    assert ask(login, ApiKey.API_VERSIONS) is OPEN_TO_ALL
    assert ask(login, ApiKey.API_VERSIONS) is OPEN_TO_ALL, (
        "the first answer was an error, as the server did not say more"
    )
    login.on_api_versions_answered()
    closed = ask(login, ApiKey.API_VERSIONS)
    assert (closed.fields, closed.closes, closed.delays) == (None, True, False)


def test_a_handshake_may_follow_the_versions():
    login = a_login()
    ask(login, ApiKey.API_VERSIONS)
    login.on_api_versions_answered()
    assert not handshake(login).closes


@pytest.mark.parametrize("api_key", [ApiKey.METADATA, ApiKey.SASL_AUTHENTICATE, ApiKey.PRODUCE, 999])
def test_any_other_request_before_a_handshake_closes_without_an_answer(api_key):
    login = a_login()
    closed = login.on_request(api_key, 0, None, NOW_MS)
    assert (closed.fields, closed.error, closed.closes) == (None, None, True)
    assert not login.is_authenticated
    assert login.stage == LoginStage.CLOSED


@pytest.mark.parametrize("api_key", [ApiKey.METADATA, ApiKey.SASL_HANDSHAKE, ApiKey.API_VERSIONS])
def test_any_other_request_where_a_token_is_due_is_answered_illegal_and_closed(api_key):
    login = a_login()
    handshake(login)
    closed = login.on_request(api_key, 0, None, NOW_MS)
    assert (closed.error, closed.closes, closed.delays) == (ErrorCode.illegal_sasl_state, True, True)


def test_the_error_for_an_unknown_mechanism_lists_the_enabled_ones():
    login = a_login()
    refused = answer(login, handshake(login, "GSSAPI"))
    assert refused.fields == {"error_code": ErrorCode.unsupported_sasl_mechanism, "mechanisms": MECHANISMS}
    assert (refused.closes, refused.delays) == (True, True)


def test_a_mechanism_that_is_known_but_not_enabled_is_refused():
    assert handshake(a_login(), "SCRAM-SHA-512").fields["error_code"] == ErrorCode.unsupported_sasl_mechanism


def test_a_wrong_password_is_refused_after_the_delay_and_closes_the_connection():
    login = a_login()
    handshake(login)
    refused = answer(login, authenticate(login, WRONG))
    assert refused.fields == {
        "error_code": ErrorCode.sasl_authentication_failed,
        "error_message": "Authentication failed: Invalid username or password",
    }
    assert (refused.closes, refused.delays) == (True, True)
    assert authenticate(login).closes, "nothing more is taken"
    assert not login.is_authenticated


def test_the_log_names_the_user_but_no_secret():
    login = a_login()
    handshake(login)
    error = authenticate(login, b"\0ann\nx\0hunter2").reason
    assert error == (
        "authentication of 'ann\\nx' with PLAIN refused: Authentication failed: Invalid username or password"
    )


def test_each_scram_exchange_has_its_own_nonce():
    answers = set()
    entropy = CountingEntropy()
    for _ in range(2):
        login = LoginState(mechanisms=MECHANISMS, credentials=PlainUsers(), entropy=entropy)
        handshake(login, "SCRAM-SHA-256")
        client = sasl_client("SCRAM-SHA-256", username="ann", password="x", nonce="abc")
        step = authenticate(login, client.first_message())
        assert step.fields["session_lifetime"] == 0
        answers.add(step.fields["auth_bytes"])
        refused = authenticate(login, client.respond(step.fields["auth_bytes"]))
        assert refused.fields["error_message"] == (
            "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
        )
    assert len(answers) == 2


@pytest.mark.parametrize("api_key", [ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE])
def test_an_unsupported_version_closes_the_connection(api_key):
    login = a_login()
    if api_key == ApiKey.SASL_AUTHENTICATE:
        handshake(login)
    closed = login.on_request(api_key, 9, None, NOW_MS)
    assert (closed.fields, closed.closes) == (None, True)


def test_without_a_lifetime_a_login_is_not_renewed():
    login = logged_in()
    assert handshake(login, now_ms=NOW_MS + 60_000) is OPEN_TO_ALL  # the handler answers ILLEGAL_SASL_STATE
    assert authenticate(login, now_ms=NOW_MS + 60_000) is OPEN_TO_ALL
    assert not login.has_expired(NOW_MS + 10**12)


def test_the_session_lifetime_is_returned_and_then_expires():
    login = a_login(max_reauth_ms=3000)
    handshake(login)
    assert authenticate(login).fields["session_lifetime"] == 3000
    assert ask(login, ApiKey.METADATA, now_ms=NOW_MS + 3000) is OPEN_TO_ALL
    closed = ask(login, ApiKey.METADATA, now_ms=NOW_MS + 3001)
    assert (closed.fields, closed.closes, closed.delays) == (None, True, False)


def test_an_expired_login_may_still_be_renewed():
    login = logged_in(max_reauth_ms=3000)
    late_ms = NOW_MS + 5000
    assert not handshake(login, now_ms=late_ms).closes
    assert login.principal == "User:ann"
    assert authenticate(login, now_ms=late_ms).fields["session_lifetime"] == 3000
    assert ask(login, ApiKey.METADATA, now_ms=late_ms + 3000) is OPEN_TO_ALL


def test_reauthentication_is_limited_to_once_a_second():
    login = logged_in(max_reauth_ms=3000)
    assert handshake(login, now_ms=NOW_MS + 1) is not None, "the first one may come at once"
    authenticate(login, now_ms=NOW_MS + 1)
    assert handshake(login, now_ms=NOW_MS + 1000) is OPEN_TO_ALL
    assert handshake(login, now_ms=NOW_MS + 1001) is not None


def test_reauthentication_with_another_mechanism_is_closed_after_the_handshake():
    login = logged_in(max_reauth_ms=3000)
    begun = handshake(login, "SCRAM-SHA-256")
    assert begun.fields["error_code"] == ErrorCode.none
    closed = authenticate(login, b"n,,n=ann,r=abc")
    assert (closed.fields, closed.closes, closed.delays) == (None, True, True)
    assert "'SCRAM-SHA-256' is not supported for re-authentication of mechanism 'PLAIN'" in closed.reason


def test_reauthentication_with_a_disabled_mechanism_is_closed_without_a_response():
    closed = handshake(logged_in(max_reauth_ms=3000), "GSSAPI")
    assert (closed.fields, closed.closes) == (None, True)


def test_reauthentication_as_another_principal_is_refused():
    login = logged_in(max_reauth_ms=3000)
    handshake(login)
    refused = authenticate(login, b"\0bob\0s3cret")
    assert refused.fields["error_message"] == (
        "Cannot change principals during re-authentication from User.ann: User.bob"
    )
    assert refused.closes


def test_no_request_is_served_during_reauthentication():
    login = logged_in(max_reauth_ms=3000)
    handshake(login)
    assert ask(login, ApiKey.METADATA).error == ErrorCode.illegal_sasl_state


def test_reauthentication_with_handshake_version_0_uses_raw_tokens():
    login = logged_in(max_reauth_ms=3000)
    handshake(login, version=0)
    assert login.expects_raw_token
    assert login.on_raw_token(RIGHT, NOW_MS).raw == b""
    assert login.is_authenticated


REQUESTS = {
    "versions": lambda login: ask(login, ApiKey.API_VERSIONS),
    "handshake": lambda login: handshake(login),
    "old handshake": lambda login: handshake(login, version=0),
    "scram": lambda login: handshake(login, "SCRAM-SHA-256"),
    "wrong token": lambda login: authenticate(login, WRONG),
    "metadata": lambda login: ask(login, ApiKey.METADATA),
    "bare": lambda login: login.on_raw_token(WRONG, NOW_MS),
    "nonsense": lambda login: login.on_request(77, 3, None, NOW_MS),
}


def test_no_sequence_of_three_frames_logs_in_without_the_password():
    for names in product(REQUESTS, repeat=3):
        login = a_login(max_reauth_ms=3000)
        for name in names:
            given = REQUESTS[name](login)
            if given is None:
                assert name == "versions", names
                login.on_api_versions_answered()
        assert not login.is_authenticated, names
        assert login.principal is None, names
