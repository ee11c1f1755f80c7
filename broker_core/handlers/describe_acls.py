"""DescribeAcls (29), versions 1 to 3: the access rules that match a filter, grouped by resource (KIP-290).

Without an authorizer: SECURITY_DISABLED. Needs DESCRIBE on the cluster. A filter with a value of a newer Kafka matches
nothing; Kafka closes the connection for some of those.
"""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from broker_core.handlers.access_rules import NOT_AUTHORIZED, is_whole_request_allowed
from broker_core.handlers.call import Call
from broker_core.model.access_control import (
    AccessRule,
    AccessRuleFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)


def handle(call: Call) -> None:
    if not is_whole_request_allowed(call):
        call.respond(error_code=ErrorCode.cluster_authorization_failed, error_message=NOT_AUTHORIZED)
        return
    if call.node.authorizer is None:
        call.respond(error_code=ErrorCode.security_disabled, error_message="No Authorizer is configured on the broker")
        return
    found = call.node.topics.image.access_control.matching(filter_of(call.message))
    call.respond(error_code=ErrorCode.none, error_message="", resources=_by_resource(found))


def filter_of(asked: Any) -> AccessRuleFilter:
    """The filter of this request, or one of DeleteAcls: the fields have the same names."""
    return AccessRuleFilter(
        resource_type=ResourceType(asked.resource_type_filter),
        resource_name=asked.resource_name_filter,
        pattern_type=PatternType(asked.pattern_type_filter),
        principal=asked.principal_filter,
        host=asked.host_filter,
        operation=Operation(asked.operation),
        permission=Permission(asked.permission_type),
    )


def _by_resource(rules: list[AccessRule]) -> list[dict[str, Any]]:
    resources: dict[tuple[ResourceType, str, PatternType], list[dict[str, Any]]] = {}
    for rule in rules:
        of_resource = resources.setdefault((rule.resource_type, rule.resource_name, rule.pattern_type), [])
        of_resource.append(
            {
                "principal": rule.principal,
                "host": rule.host,
                "operation": rule.operation,
                "permission_type": rule.permission,
            }
        )
    return [
        {"resource_type": resource_type, "resource_name": name, "pattern_type": pattern_type, "acls": acls}
        for (resource_type, name, pattern_type), acls in resources.items()
    ]
