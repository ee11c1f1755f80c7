"""DescribeAcls (29), versions 1 to 3: the access rules that match a filter, grouped by resource (KIP-290).

Without an authorizer: SECURITY_DISABLED. Needs DESCRIBE on the cluster. A filter with a value of a newer Kafka matches
nothing; Kafka closes the connection for some of those.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from broker_core.handlers.access_rules import NOT_AUTHORIZED, is_whole_request_allowed
from broker_core.handlers.call import Call
from broker_core.metadata.access_rule_messages import filter_in, resources_of


def handle(call: Call) -> None:
    if not is_whole_request_allowed(call):
        call.respond(error_code=ErrorCode.cluster_authorization_failed, error_message=NOT_AUTHORIZED)
        return
    if call.node.authorizer is None:
        call.respond(error_code=ErrorCode.security_disabled, error_message="No Authorizer is configured on the broker")
        return
    found = call.node.topics.image.access_control.matching(filter_in(call.message))
    call.respond(error_code=ErrorCode.none, error_message="", resources=resources_of(found))
