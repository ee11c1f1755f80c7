"""CreateAcls (30), versions 1 to 3: adds access rules; one answer for each, in their order.

Without an authorizer: SECURITY_DISABLED. Needs ALTER on the cluster. Answered once the valid ones are durable and in
effect. Kafka answers UNKNOWN_SERVER_ERROR to all if one has a resource type, pattern, operation or permission that is
only valid in filters; here that one gets INVALID_REQUEST, and the others are created.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from broker_core.handlers.access_rules import NOT_AUTHORIZED, is_whole_request_allowed
from broker_core.handlers.call import Call
from broker_core.metadata.access_rule_messages import creation_result, rule_in
from broker_core.metadata.security_plans import plan_create_acls


def handle(call: Call) -> None:
    creations = call.message.creations
    if not is_whole_request_allowed(call):
        _refuse_all(call, ErrorCode.cluster_authorization_failed, NOT_AUTHORIZED)
        return
    if call.node.authorizer is None:
        _refuse_all(call, ErrorCode.security_disabled, "No Authorizer is configured.")
        return
    wanted = [rule_in(creation) for creation in creations]
    entropy = call.node.entropy
    call.node.topics.change(
        lambda controller: plan_create_acls(controller.image.access_control, wanted, entropy=entropy),
        lambda replies: call.respond(results=[creation_result(reply) for reply in replies]),
        lambda error: _refuse_all(call, error.error_code, error.message),
    )


def _refuse_all(call: Call, error_code: ErrorCode, message: str) -> None:
    call.respond(results=[{"error_code": error_code, "error_message": message} for _ in call.message.creations])
