import base64
import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.model.exceptions import AuthenticationError
from broker_core.model.limits import MAX_SASL_TOKEN_BYTES
from broker_core.model.scram import SCRAM_BY_LABEL, ScramCredential, ScramMechanism
from broker_core.protocol.sasl import sasl_client
from broker_core.protocol.sasl_server import sasl_server

INVALID = "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
# What Kafka 4.3.1's storage tool wrote for ann with the password s3cret/+*!
ANN = ScramCredential(
    salt=b"1e3ymhyu1a41szpn409j9xlgrs",
    stored_key=bytes.fromhex("1e263bf5f288742f802bbccc029a28d2082da3cfff7eda57f9342c40939357db"),
    server_key=bytes.fromhex("c2e9cc65bffbab3e34bdfb6971945577a2c4d7f83fe7d07a7b782822a891e5df"),
    iterations=4096,
)


class Users:
    decoy_key = b"only this process knows"

    def __init__(self, passwords=None, credentials=None):
        self.passwords = {"ann": "s3cret/+*!"} if passwords is None else passwords
        self.credentials = credentials or {}

    def plain_password(self, username):
        return self.passwords.get(username)

    def scram_credential(self, mechanism, username):
        return self.credentials.get((mechanism, username))


def a_credential(mechanism, password, *, salt=b"some salt", iterations=4096):
    salted = hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)
    return ScramCredential.from_salted_password(mechanism, salted, salt=salt, iterations=iterations)


def users_with(username="ann", password="secret", **settings):
    return Users(
        credentials={
            (mechanism, username): a_credential(mechanism, password, **settings)
            for mechanism in SCRAM_BY_LABEL.values()
        }
    )


def log_in(client, server):
    """Whom the server takes the client for, once the client is content too."""
    to_send = client.first_message()
    while to_send is not None:
        step = server.respond(to_send)
        to_send = client.respond(step.answer)
    return step.principal


def scram(label="SCRAM-SHA-256", username="ann", password="secret"):
    return sasl_client(label, username=username, password=password, nonce="client-nonce")


def refused(server, *tokens):
    with pytest.raises(AuthenticationError) as refusal:
        for token in tokens:
            server.respond(token)
    return refusal.value


def test_the_example_of_rfc_7677_passes():
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    users = Users(credentials={(ScramMechanism.SHA_256, "user"): a_credential(
        ScramMechanism.SHA_256, "pencil", salt=salt)})  # fmt: skip
    server = sasl_server("SCRAM-SHA-256", users, nonce="%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    first = server.respond(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert first.principal is None
    assert first.answer == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    last = server.respond(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert last.answer == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert last.principal == "User:user"


@pytest.mark.parametrize("label", SCRAM_BY_LABEL)
@pytest.mark.parametrize("username", ["ann", "a,b=c", "ünï", "CN=ann,O=Acme"])
def test_the_correct_password_logs_in(label, username):
    server = sasl_server(label, users_with(username, salt=b"a salt of some length"), nonce="server-nonce")
    assert log_in(scram(label, username), server) == f"User:{username}"


def test_a_credential_that_kafka_wrote_logs_in():
    users = Users(credentials={(ScramMechanism.SHA_256, "ann"): ANN})
    client = scram(password="s3cret/+*!")
    assert log_in(client, sasl_server("SCRAM-SHA-256", users, nonce="n")) == "User:ann"


def test_a_wrong_password_is_refused_with_kafkas_message():
    server = sasl_server("SCRAM-SHA-256", users_with(salt=b"a salt of some length"), nonce="n")
    client = scram(password="wrong")
    proof = client.respond(server.respond(client.first_message()).answer)
    refusal = refused(server, proof)
    assert refusal.message == INVALID
    assert refusal.username == "ann"


def test_an_unknown_user_is_refused_like_a_wrong_password():
    answers, messages = [], []
    for _ in range(2):
        server = sasl_server("SCRAM-SHA-256", users_with(), nonce="n")
        client = scram(username="nobody")
        step = server.respond(client.first_message())
        answers.append(step.answer)
        messages.append(refused(server, client.respond(step.answer)).message)
    assert answers[0] == answers[1], "a salt that changes would give him away"
    assert messages == [INVALID, INVALID]
    other = sasl_server("SCRAM-SHA-256", users_with(), nonce="n").respond(b"n,,n=noone,r=client-nonce").answer
    assert other != answers[0]


def test_the_decoy_credential_does_not_log_in():
    """A proof made of the zero key that stands in for a credential."""
    server = sasl_server("SCRAM-SHA-256", Users(), nonce="n")
    first = server.respond(b"n,,n=nobody,r=c").answer.decode()
    said = f"n=nobody,r=c,{first},c=biws,r=cn".encode()
    signature = hmac.digest(bytes(32), said, "sha256")
    for client_key in (bytes(32), signature):
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        server = sasl_server("SCRAM-SHA-256", Users(), nonce="n")
        final = b"c=biws,r=cn,p=" + base64.b64encode(proof)
        assert refused(server, b"n,,n=nobody,r=c", final).message == INVALID


@pytest.mark.parametrize(
    "token",
    [
        b"", b"garbage", b"\xff\xfe", b"n,,n=,r=x", b"n,,n=ann", b"n,,n=ann,r=", b"y,,n=ann,r=x", b"n,,n=a=b,r=x",
        b"p=tls-unique,,n=ann,r=x", b"n,,r=x,n=ann", b"n,,n=ann,r=x y", b"n,,n=ann,r=x,", b"n,,n=ann,r=x,1=2",
    ],
)  # fmt: skip
def test_an_invalid_first_message_is_refused(token):
    assert refused(sasl_server("SCRAM-SHA-256", users_with(), nonce="n"), token).message == INVALID


@pytest.mark.parametrize(
    ("change", "to"),
    [
        (b"c=biws", b"c=eSws"), (b"r=client-noncen", b"r=client-nonce"), (b"r=client-noncen", b"r=n"), (b",p=", b",q="),
        (b"c=biws,", b""), (b"p=", b"x=y,p="), (b"=,p=", b",p=!"),
    ],
)  # fmt: skip
def test_a_proof_of_another_exchange_is_refused(change, to):
    users = users_with(salt=b"a salt of some length")
    server, client = sasl_server("SCRAM-SHA-256", users, nonce="n"), scram()
    final = client.respond(server.respond(client.first_message()).answer)
    forged = final.replace(change, to)
    if forged == final:
        forged = final[:-1]
    assert refused(server, forged).message == INVALID


def proven(mechanism, credential_salt, client_first, server_first, without_proof, password="secret"):
    """The last message of somebody who knows the password, whatever else it says (RFC 5802, section 3)."""
    salted = hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), credential_salt, 4096)
    client_key = hmac.digest(salted, b"Client Key", mechanism.hash_name)
    stored_key = hashlib.new(mechanism.hash_name, client_key).digest()
    signature = hmac.digest(stored_key, b",".join([client_first, server_first, without_proof]), mechanism.hash_name)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    return without_proof + b",p=" + base64.b64encode(proof)


@pytest.mark.parametrize(
    ("without_proof", "is_taken"),
    [
        (b"c=biws,r=client-noncen", True),
        (b"c=biws,r=client-nonce", False),
        (b"c=biws,r=other-noncen", False),
        (b"c=biws,r=client-noncenn", False),
        (b"c=eSws,r=client-noncen", False),  # y,,: not the header that the first message had
    ],
)
def test_the_server_verifies_nonce_and_channel_binding(without_proof, is_taken):
    """RFC 5802, section 5.1: the server verifies that nonce and channel binding are those of its exchange."""
    salt = b"a salt of some length"
    server = sasl_server("SCRAM-SHA-256", users_with(salt=salt), nonce="n")
    first = server.respond(b"n,,n=ann,r=client-nonce").answer
    final = proven(ScramMechanism.SHA_256, salt, b"n=ann,r=client-nonce", first, without_proof)
    if is_taken:
        assert server.respond(final).principal == "User:ann"
    else:
        assert refused(server, final).message == INVALID


def test_a_failed_exchange_cannot_continue():
    users = users_with(salt=b"a salt of some length")
    server, client = sasl_server("SCRAM-SHA-256", users, nonce="n"), scram()
    final = client.respond(server.respond(client.first_message()).answer)
    refused(server, b"nonsense")
    assert refused(server, final).message == INVALID


def test_extensions_are_ignored_but_delegation_tokens_are_refused():
    server = sasl_server("SCRAM-SHA-256", users_with(), nonce="n")
    assert server.respond(b"n,,n=ann,r=x,foo=true").principal is None
    server = sasl_server("SCRAM-SHA-256", users_with(), nonce="n")
    assert "delegation tokens are not supported" in refused(server, b"n,,n=ann,r=x,tokenauth=true").message


OTHER_ID = "Authentication failed: Client requested an authorization id that is different from username"


def test_the_authorization_id_must_be_the_username_or_empty():
    server = sasl_server("SCRAM-SHA-256", users_with(), nonce="n")
    assert server.respond(b"n,a=ann,n=ann,r=x").principal is None
    for username in (b"ann", b"nobody"):
        server = sasl_server("SCRAM-SHA-256", users_with(), nonce="n")
        assert refused(server, b"n,a=bob,n=" + username + b",r=x").message == OTHER_ID
    assert sasl_server("PLAIN", Users(), nonce="").respond(b"ann\0ann\0s3cret/+*!").principal == "User:ann"
    assert refused(sasl_server("PLAIN", Users(), nonce=""), b"bob\0ann\0s3cret/+*!").message == OTHER_ID


def test_plain_accepts_the_correct_password():
    client = sasl_client("PLAIN", username="ann", password="s3cret/+*!", nonce="")
    assert log_in(client, sasl_server("PLAIN", Users(), nonce="")) == "User:ann"


@pytest.mark.parametrize(
    ("token", "message"),
    [  # as Kafka 4.3.1 answers
        (b"\0ann\0x", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0x", "Authentication failed: Invalid username or password"),
        (b"bob\0nobody\0x", "Authentication failed: Invalid username or password"),
        (b"\0\0x", "Authentication failed: username not specified"),
        (b"\0a\0", "Authentication failed: password not specified"),
        (b"ann\0x", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"a\0a\0a\0a\0a", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
    ],
)
def test_plain_refuses_with_kafkas_message(token, message):
    assert refused(sasl_server("PLAIN", Users(), nonce=""), token).message == message


def test_the_placeholder_password_of_an_unknown_user_does_not_log_in():
    token = b"\0nobody\0" + Users.decoy_key.hex().encode()
    assert "Invalid username" in refused(sasl_server("PLAIN", Users(), nonce=""), token).message


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_the_token_size_is_bounded(mechanism):
    token = b"\0ann\0".ljust(MAX_SASL_TOKEN_BYTES, b"x")
    assert "exceeds the limit" not in refused(sasl_server(mechanism, Users(), nonce="n"), token).message
    assert (
        "65537 bytes exceeds the limit of"
        " 65536" in refused(sasl_server(mechanism, Users(), nonce="n"), token + b"x").message
    )


def test_no_refusal_contains_a_secret():
    for token in (b"\0ann\0hunter2", b"hunter2\0ann", b"bob\0ann\0s3cret/+*!", b"hunter2"):
        refusal = refused(sasl_server("PLAIN", Users(), nonce=""), token)
        assert "hunter2" not in f"{refusal.message} {refusal.fields}"
        assert "s3cret" not in f"{refusal.message} {refusal.fields}"


def test_an_unknown_mechanism_is_refused():
    with pytest.raises(AuthenticationError, match="PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"):
        sasl_server("GSSAPI", Users(), nonce="n")


@pytest.fixture(scope="module")
def users():
    return users_with()


@given(st.sampled_from(["PLAIN", "SCRAM-SHA-256"]), st.lists(st.binary(max_size=80), min_size=1, max_size=3))
def test_arbitrary_bytes_never_log_in(users, mechanism, tokens):
    server = sasl_server(mechanism, users, nonce="n")
    try:
        for token in tokens:
            assert server.respond(token).principal is None
    except AuthenticationError as refusal:
        assert refusal.message
