"""DescribeUserScramCredentials (50), version 0: users and their SCRAM mechanisms (KIP-554).

Needs DESCRIBE on the cluster. No users, or null: all of them. Salts and keys are never returned.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from kio.schema.errors import ErrorCode

from broker_core.handlers.access_rules import NOT_AUTHORIZED, is_whole_request_allowed
from broker_core.handlers.call import Call
from broker_core.metadata.scram_credentials import ScramCredentials


def handle(call: Call) -> None:
    if not is_whole_request_allowed(call):
        call.respond(error_code=ErrorCode.cluster_authorization_failed, error_message=NOT_AUTHORIZED)
        return
    credentials = call.node.topics.image.scram_credentials
    named = Counter(user.name for user in call.message.users or ()) or Counter(credentials.users)
    call.respond(
        error_code=ErrorCode.none,
        error_message="",
        results=[_result(credentials, username, count) for username, count in named.items()],
    )


def _result(credentials: ScramCredentials, username: str, count: int) -> dict[str, Any]:
    if count > 1:
        return {
            "user": username,
            "error_code": ErrorCode.duplicate_resource,
            "error_message": "Cannot describe SCRAM credentials for the same user twice in a single request: "
            + username,
        }
    found = credentials.of_user(username)
    if not found:
        return {
            "user": username,
            "error_code": ErrorCode.resource_not_found,
            "error_message": "Attempt to describe a user credential that does not exist: " + username,
        }
    return {
        "user": username,
        "error_code": ErrorCode.none,
        "error_message": "",
        "credential_infos": [
            {"mechanism": mechanism, "iterations": credential.iterations} for mechanism, credential in found.items()
        ],
    }
