"""AlterUserScramCredentials (51), version 0: creates, replaces and removes SCRAM credentials (KIP-554).

Needs ALTER on the cluster. The client sends the salted password, from which the keys are derived; it is neither stored
nor logged. One answer for each user, sent once the valid changes are durable; new logins use them from then on.
"""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from broker_core.handlers.access_rules import NOT_AUTHORIZED, is_whole_request_allowed
from broker_core.handlers.call import Call
from broker_core.metadata.security_plans import ScramDeletion, ScramOutcome, ScramUpsertion, plan_alter_scram


def handle(call: Call) -> None:
    if not is_whole_request_allowed(call):
        _refuse_all(call, ErrorCode.cluster_authorization_failed, NOT_AUTHORIZED)
        return
    deletions = [ScramDeletion(username=one.name, mechanism=one.mechanism) for one in call.message.deletions]
    upsertions = [
        ScramUpsertion(
            username=one.name,
            mechanism=one.mechanism,
            iterations=one.iterations,
            salt=bytes(one.salt),
            salted_password=bytes(one.salted_password),
        )
        for one in call.message.upsertions
    ]
    call.node.topics.change(
        lambda controller: plan_alter_scram(
            controller.image.scram_credentials, deletions=deletions, upsertions=upsertions
        ),
        lambda outcomes: call.respond(results=[_result(outcome) for outcome in outcomes]),
        lambda error: _refuse_all(call, error.error_code, error.message),
    )


def _result(outcome: ScramOutcome) -> dict[str, Any]:
    refusal = outcome.refusal
    return {
        "user": outcome.username,
        "error_code": ErrorCode.none if refusal is None else refusal.error_code,
        "error_message": None if refusal is None else refusal.message,
    }


def _refuse_all(call: Call, error_code: ErrorCode, message: str) -> None:
    users = sorted({one.name for one in (*call.message.deletions, *call.message.upsertions)})
    call.respond(results=[{"user": user, "error_code": error_code, "error_message": message} for user in users])
