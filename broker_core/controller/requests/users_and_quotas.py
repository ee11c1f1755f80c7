"""AlterUserScramCredentials (51), version 0, and AlterClientQuotas (49), versions 0 and 1."""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker_core.controller.cluster_controller import ClusterController
from broker_core.controller.quota_plans import plan_alterations, refuse_alterations
from broker_core.controller.requests.controller_api import ControllerApi, Planned, Values
from broker_core.coordinator.contract import CoordinatorResult
from broker_core.metadata.security_plans import ScramDeletion, ScramUpsertion, plan_alter_scram


def _plan_scram(controller: ClusterController, message: Any, now_ms: int) -> Planned:
    result = plan_alter_scram(
        controller.image.scram_credentials,
        deletions=[ScramDeletion(username=one.name, mechanism=one.mechanism) for one in message.deletions],
        upsertions=[
            ScramUpsertion(
                username=one.name,
                mechanism=one.mechanism,
                iterations=one.iterations,
                salt=bytes(one.salt),
                salted_password=bytes(one.salted_password),
            )
            for one in message.upsertions
        ],
    )
    results = [
        {
            "user": outcome.username,
            "error_code": ErrorCode.none if outcome.refusal is None else outcome.refusal.error_code,
            "error_message": None if outcome.refusal is None else outcome.refusal.message,
        }
        for outcome in result.reply
    ]
    return CoordinatorResult(records=result.records, reply={"results": results})


def _refuse_scram(message: Any, error_code: ErrorCode, text: str) -> Values:
    users = sorted({one.name for one in (*message.deletions, *message.upsertions)})
    return {"results": [{"user": user, "error_code": error_code, "error_message": text} for user in users]}


def _plan_quotas(controller: ClusterController, message: Any, now_ms: int) -> Planned:
    result = plan_alterations(controller.image.client_quotas, message)
    return CoordinatorResult(records=result.records, reply=result.reply)


ALTER_USER_SCRAM_CREDENTIALS: Final = ControllerApi(key=51, versions=range(1), plan=_plan_scram, refuse=_refuse_scram)
ALTER_CLIENT_QUOTAS: Final = ControllerApi(key=49, versions=range(2), plan=_plan_quotas, refuse=refuse_alterations)
