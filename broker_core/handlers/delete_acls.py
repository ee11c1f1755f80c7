"""DeleteAcls (31), versions 1 to 3: removes the access rules that match the filters, and returns them.

Without an authorizer: SECURITY_DISABLED. Needs ALTER on the cluster. Answered once the removal is durable. A filter
with a value of a newer Kafka is refused with INVALID_REQUEST."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from broker_core.handlers.access_rules import NOT_AUTHORIZED, is_whole_request_allowed
from broker_core.handlers.call import Call
from broker_core.metadata.access_rule_messages import deletion_result, filter_in
from broker_core.metadata.security_plans import plan_delete_acls


def handle(call: Call) -> None:
    if not is_whole_request_allowed(call):
        _refuse_all(call, ErrorCode.cluster_authorization_failed, NOT_AUTHORIZED)
        return
    if call.node.authorizer is None:
        _refuse_all(call, ErrorCode.security_disabled, "No Authorizer is configured.")
        return
    filters = [filter_in(asked) for asked in call.message.filters]
    call.node.topics.change(
        lambda controller: plan_delete_acls(controller.image.access_control, filters),
        lambda replies: call.respond(filter_results=[deletion_result(reply) for reply in replies]),
        lambda error: _refuse_all(call, error.error_code, error.message),
    )


def _refuse_all(call: Call, error_code: ErrorCode, message: str) -> None:
    call.respond(filter_results=[{"error_code": error_code, "error_message": message} for _ in call.message.filters])
