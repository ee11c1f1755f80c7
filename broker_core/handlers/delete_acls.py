"""DeleteAcls (31), versions 1 to 3: removes the access rules that match the filters, and returns them.

Without an authorizer: SECURITY_DISABLED. Needs ALTER on the cluster. Answered once the removal is durable. A filter
with a value of a newer Kafka is refused with INVALID_REQUEST."""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from broker_core.handlers.access_rules import NOT_AUTHORIZED, is_whole_request_allowed
from broker_core.handlers.call import Call
from broker_core.handlers.describe_acls import filter_of
from broker_core.metadata.security_plans import DeletedRules, plan_delete_acls
from broker_core.model.access_control import AccessRule


def handle(call: Call) -> None:
    if not is_whole_request_allowed(call):
        _refuse_all(call, ErrorCode.cluster_authorization_failed, NOT_AUTHORIZED)
        return
    if call.node.authorizer is None:
        _refuse_all(call, ErrorCode.security_disabled, "No Authorizer is configured.")
        return
    filters = [filter_of(asked) for asked in call.message.filters]
    call.node.topics.change(
        lambda controller: plan_delete_acls(controller.image.access_control, filters),
        lambda replies: call.respond(filter_results=[_result(reply) for reply in replies]),
        lambda error: _refuse_all(call, error.error_code, error.message),
    )


def _result(deleted: DeletedRules) -> dict[str, Any]:
    if deleted.refusal is not None:
        return {"error_code": deleted.refusal.error_code, "error_message": deleted.refusal.message}
    return {
        "error_code": ErrorCode.none,
        "error_message": None,
        "matching_acls": [_matching(rule) for rule in deleted.rules],
    }


def _matching(rule: AccessRule) -> dict[str, Any]:
    return {
        "error_code": ErrorCode.none,
        "error_message": None,
        "resource_type": rule.resource_type,
        "resource_name": rule.resource_name,
        "pattern_type": rule.pattern_type,
        "principal": rule.principal,
        "host": rule.host,
        "operation": rule.operation,
        "permission_type": rule.permission,
    }


def _refuse_all(call: Call, error_code: ErrorCode, message: str) -> None:
    call.respond(filter_results=[{"error_code": error_code, "error_message": message} for _ in call.message.filters])
