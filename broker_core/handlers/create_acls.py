"""CreateAcls (30), versions 1 to 3: adds access rules; one answer for each, in their order.

Without an authorizer: SECURITY_DISABLED. Needs ALTER on the cluster. Answered once the valid ones are durable and in
effect. Kafka answers UNKNOWN_SERVER_ERROR to all if one has a resource type, pattern, operation or permission that is
only valid in filters; here that one gets INVALID_REQUEST, and the others are created.
"""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from broker_core.handlers.access_rules import NOT_AUTHORIZED, is_whole_request_allowed
from broker_core.handlers.call import Call
from broker_core.metadata.security_plans import Refusal, plan_create_acls
from broker_core.model.access_control import AccessRule, Operation, PatternType, Permission, ResourceType


def handle(call: Call) -> None:
    creations = call.message.creations
    if not is_whole_request_allowed(call):
        _refuse_all(call, ErrorCode.cluster_authorization_failed, NOT_AUTHORIZED)
        return
    if call.node.authorizer is None:
        _refuse_all(call, ErrorCode.security_disabled, "No Authorizer is configured.")
        return
    wanted = [_rule_of(creation) for creation in creations]
    entropy = call.node.entropy
    call.node.topics.change(
        lambda controller: plan_create_acls(controller.image.access_control, wanted, entropy=entropy),
        lambda replies: call.respond(results=[_result(reply) for reply in replies]),
        lambda error: _refuse_all(call, error.error_code, error.message),
    )


def _rule_of(creation: Any) -> AccessRule:
    return AccessRule(
        resource_type=ResourceType(creation.resource_type),
        resource_name=creation.resource_name,
        pattern_type=PatternType(creation.resource_pattern_type),
        principal=creation.principal,
        host=creation.host,
        operation=Operation(creation.operation),
        permission=Permission(creation.permission_type),
    )


def _result(refusal: Refusal | None) -> dict[str, Any]:
    if refusal is None:
        return {"error_code": ErrorCode.none, "error_message": ""}
    return {"error_code": refusal.error_code, "error_message": refusal.message}


def _refuse_all(call: Call, error_code: ErrorCode, message: str) -> None:
    call.respond(results=[{"error_code": error_code, "error_message": message} for _ in call.message.creations])
