import pytest
from kio.schema.errors import ErrorCode
from support.nodes.security_node import SecurityNode, ask

from broker_core.protocol.api_table import ApiKey


@pytest.fixture
def node(tmp_path):
    made = SecurityNode(tmp_path)
    for name, mechanism, iterations in (("bob", 1, 4096), ("ann", 2, 8192), ("ann", 1, 4096)):
        upsertion = {
            "name": name, "mechanism": mechanism, "iterations": iterations, "salt": b"s", "salted_password": b"p",
        }  # fmt: skip
        ask(made, ApiKey.ALTER_USER_SCRAM_CREDENTIALS, deletions=[], upsertions=[upsertion])
    return made


def described(node, users):
    answer = ask(node, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, users=users)
    assert (answer.error_code, answer.error_message) == (ErrorCode.none, "")
    return [
        (
            result.user,
            result.error_code.name,
            result.error_message,
            [(info.mechanism, info.iterations) for info in result.credential_infos],
        )
        for result in answer.results
    ]


@pytest.mark.parametrize("users", [None, []])
def test_without_names_all_users_are_described(node, users):
    assert described(node, users) == [
        ("ann", "none", "", [(1, 4096), (2, 8192)]),
        ("bob", "none", "", [(1, 4096)]),
    ]


def test_duplicate_users_are_described_once(node):
    assert described(node, [{"name": name} for name in ("bob", "nobody", "ann", "ann")]) == [
        ("bob", "none", "", [(1, 4096)]),
        (
            "nobody",
            "resource_not_found",
            "Attempt to describe a user credential that does not exist: nobody",
            [],
        ),
        (
            "ann",
            "duplicate_resource",
            "Cannot describe SCRAM credentials for the same user twice in a single request: ann",
            [],
        ),
    ]
