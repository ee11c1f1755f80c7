import hashlib
import logging

from support.nodes.security_node import SecurityNode, ask, codes

from broker_core.metadata.credential_lookup import UserCredentials
from broker_core.protocol.api_table import ApiKey
from broker_core.protocol.sasl import sasl_client
from broker_core.protocol.sasl_server import sasl_server


def an_upsertion(name="ann", password="secret", iterations=4096, mechanism=1):
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), b"some salt of ann", iterations)
    return {
        "name": name, "mechanism": mechanism, "iterations": iterations, "salt": b"some salt of ann",
        "salted_password": salted,
    }  # fmt: skip


def alter(node, principal="User:admin", deletions=(), upsertions=()):
    return ask(
        node, ApiKey.ALTER_USER_SCRAM_CREDENTIALS, principal=principal, deletions=deletions, upsertions=upsertions
    )


def principal_of(node, password="secret"):
    """Whom a login at this node takes the client for."""
    users = UserCredentials(lambda: node.topics.image.scram_credentials, plain_passwords={}, entropy=node.entropy)
    server = sasl_server("SCRAM-SHA-256", users, nonce="server")
    client = sasl_client("SCRAM-SHA-256", username="ann", password=password, nonce="client")
    proof = client.respond(server.respond(client.first_message()).answer)
    step = server.respond(proof)
    assert client.respond(step.answer) is None
    return step.principal


def test_a_user_can_log_in_once_it_is_answered(tmp_path):
    node = SecurityNode(tmp_path)
    answer = alter(node, upsertions=[an_upsertion()])
    assert codes(answer.results) == [("none", None)]
    assert answer.results[0].user == "ann"
    assert principal_of(node) == "User:ann"
    assert node.image_from_the_log().scram_credentials == node.topics.image.scram_credentials


def test_a_user_is_deleted_and_an_unknown_one_is_refused(tmp_path):
    node = SecurityNode(tmp_path, has_authorizer=False)
    alter(node, upsertions=[an_upsertion()])
    deletions = [{"name": "ann", "mechanism": 1}, {"name": "bob", "mechanism": 1}]
    answer = alter(node, deletions=deletions)
    assert {result.user: result.error_code.name for result in answer.results} == {
        "ann": "none",
        "bob": "resource_not_found",
    }
    assert node.topics.image.scram_credentials.users == []


def test_changing_credentials_needs_alter_access_to_the_cluster(tmp_path):
    node = SecurityNode(tmp_path)
    answer = alter(node, "User:eve", [{"name": "bob", "mechanism": 1}], [an_upsertion()])
    assert [result.user for result in answer.results] == ["ann", "bob"]
    assert codes(answer.results) == [("cluster_authorization_failed", "Cluster authorization failed.")] * 2
    assert node.topics.image.scram_credentials.users == []


def test_no_password_is_logged(tmp_path, caplog):
    with caplog.at_level(logging.DEBUG):
        node = SecurityNode(tmp_path)
        alter(node, upsertions=[an_upsertion()])
        alter(node, "User:eve", upsertions=[an_upsertion()])
    salted = an_upsertion()["salted_password"]
    assert caplog.records, "the refusal is logged"
    assert not any(secret in caplog.text for secret in (str(salted), salted.hex(), "some salt"))
