import hashlib

import pytest
import scramp

from broker_core.model.exceptions import AuthenticationError
from broker_core.model.limits import MAX_SCRAM_ITERATION_COUNT
from broker_core.protocol.sasl import SCRAM_MECHANISMS, sasl_client


def scram_server(mechanism, password="secret", iterations=4096):
    made = scramp.ScramMechanism(mechanism)
    salt, stored_key, server_key, count = made.make_auth_info(password, iteration_count=iterations)
    return made.make_server(lambda username: (salt, stored_key, server_key, count))


def login(client, server):
    server.set_client_first(client.first_message().decode())
    final = client.respond(server.get_server_first().encode())
    server.set_client_final(final.decode())
    return client.respond(server.get_server_final().encode())


def scram(mechanism="SCRAM-SHA-256", username="user", password="secret", nonce="fyko+d2lbbFgONRv9qkxdawL"):
    return sasl_client(mechanism, username=username, password=password, nonce=nonce)


def test_plain_sends_username_and_password():
    client = sasl_client("PLAIN", username="tim", password="tanstaaftanstaaf", nonce="")
    assert client.first_message() == b"\0tim\0tanstaaftanstaaf"  # RFC 4616, section 4
    assert client.respond(b"") is None


def test_the_example_of_rfc_7677_passes():
    client = scram(username="user", password="pencil", nonce="rOprNGfwEbeRWgbNEkqO")
    assert client.first_message() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    final = client.respond(b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    assert final == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert client.respond(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None


@pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS)
@pytest.mark.parametrize("username", ["user", "a,b=c", "ünï"])
def test_the_correct_password_is_accepted_on_both_sides(mechanism, username):
    assert login(scram(mechanism, username=username), scram_server(mechanism)) is None


def test_a_wrong_password_is_refused_by_the_server():
    with pytest.raises(scramp.ScramException):
        login(scram(password="wrong"), scram_server("SCRAM-SHA-256"))


def test_a_server_that_does_not_know_the_password_is_refused():
    client = scram()
    server = scram_server("SCRAM-SHA-256")
    server.set_client_first(client.first_message().decode())
    client.respond(server.get_server_first().encode())
    with pytest.raises(AuthenticationError, match="does not prove that it knows the password"):
        client.respond(b"v=" + b"A" * 43 + b"=")


@pytest.mark.parametrize(
    "answer",
    [
        b"", b"r=another,s=QSXCR+Q6sek8bf92,i=4096", b"\xff\xfe", b"r=fyko+d2lbbFgONRv9qkxdawLx,s=!!,i=4096",
        b"r=fyko+d2lbbFgONRv9qkxdawLx,s=QSXCR+Q6sek8bf92,i=1", b"r=fyko+d2lbbFgONRv9qkxdawLx,i=4096",
        b"r=fyko+d2lbbFgONRv9qkxdawL,s=QSXCR+Q6sek8bf92,i=4096x", b"e=other-error",
    ],
)  # fmt: skip
def test_an_invalid_first_response_is_refused(answer):
    client = scram()
    client.first_message()
    with pytest.raises(AuthenticationError, match="SCRAM-SHA-256"):
        client.respond(answer)


@pytest.mark.parametrize("count", [str(MAX_SCRAM_ITERATION_COUNT + 1), "1000000000", "9" * 5000])
def test_an_excessive_iteration_count_is_refused_before_hashing(count, monkeypatch):
    asked = []
    monkeypatch.setattr(hashlib, "pbkdf2_hmac", lambda *arguments: asked.append(arguments))
    client = scram()
    client.first_message()
    with pytest.raises(AuthenticationError, match=f"at most {MAX_SCRAM_ITERATION_COUNT} are allowed"):
        client.respond(f"r=fyko+d2lbbFgONRv9qkxdawLx,s=QSXCR+Q6sek8bf92cm9uZw==,i={count}".encode())
    assert asked == []


def test_a_server_error_is_reported():
    client = scram()
    client.first_message()
    with pytest.raises(AuthenticationError, match="the broker refused the login: 'unknown-user'"):
        client.respond(b"e=unknown-user")


def test_unknown_mechanisms_and_invalid_names_are_refused():
    with pytest.raises(AuthenticationError, match=r"sasl.mechanism may be PLAIN, SCRAM-SHA-256"):
        sasl_client("GSSAPI", username="u", password="p", nonce="n")
    with pytest.raises(AuthenticationError, match="zero character"):
        sasl_client("PLAIN", username="u\0", password="p", nonce="n")
    with pytest.raises(AuthenticationError, match="SCRAM-SHA-512"):
        sasl_client("SCRAM-SHA-512", username="u\x01", password="p", nonce="n")
