"""AlterClientQuotas (49), versions 0 and 1: quotas of users, client ids and addresses are set and removed (KIP-546).

Needs ALTER_CONFIGS on the cluster. One answer for each entity; what is refused of one changes nothing of it. The new
quotas hold from the moment of the answer, for clients that are connected, too.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from broker_core.controller.quota_plans import plan_alterations, refuse_alterations
from broker_core.handlers.access_rules import NOT_AUTHORIZED, is_whole_request_allowed
from broker_core.handlers.call import Call
from broker_core.model.exceptions import StreamlogError


def handle(call: Call) -> None:
    message = call.message

    def refuse(error_code: ErrorCode, text: str) -> None:
        call.respond(**refuse_alterations(message, error_code, text))

    def failed(error: StreamlogError) -> None:
        refuse(error.error_code, error.message)

    if not is_whole_request_allowed(call):
        refuse(ErrorCode.cluster_authorization_failed, NOT_AUTHORIZED)
        return
    call.node.topics.change(
        lambda controller: plan_alterations(controller.image.client_quotas, message),
        lambda answers: call.respond(**answers),
        failed,
    )
