"""Access rules in Kafka's messages: DescribeAcls, CreateAcls and DeleteAcls, as brokers and controllers answer them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kio.schema.errors import ErrorCode

from broker_core.metadata.security_plans import DeletedRules, Refusal
from broker_core.model.access_control import (
    AccessRule,
    AccessRuleFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)


def rule_in(creation: Any) -> AccessRule:
    """A rule that CreateAcls asks for."""
    return AccessRule(
        resource_type=ResourceType(creation.resource_type),
        resource_name=creation.resource_name,
        pattern_type=PatternType(creation.resource_pattern_type),
        principal=creation.principal,
        host=creation.host,
        operation=Operation(creation.operation),
        permission=Permission(creation.permission_type),
    )


def filter_in(asked: Any) -> AccessRuleFilter:
    """The filter of DescribeAcls, or one of DeleteAcls: the fields have the same names."""
    return AccessRuleFilter(
        resource_type=ResourceType(asked.resource_type_filter),
        resource_name=asked.resource_name_filter,
        pattern_type=PatternType(asked.pattern_type_filter),
        principal=asked.principal_filter,
        host=asked.host_filter,
        operation=Operation(asked.operation),
        permission=Permission(asked.permission_type),
    )


def resources_of(rules: Iterable[AccessRule]) -> list[dict[str, Any]]:
    """The rules as DescribeAcls shows them, grouped by resource."""
    resources: dict[tuple[ResourceType, str, PatternType], list[dict[str, Any]]] = {}
    for rule in rules:
        of_resource = resources.setdefault((rule.resource_type, rule.resource_name, rule.pattern_type), [])
        of_resource.append(_entry(rule))
    return [
        {"resource_type": resource_type, "resource_name": name, "pattern_type": pattern_type, "acls": acls}
        for (resource_type, name, pattern_type), acls in resources.items()
    ]


def creation_result(refusal: Refusal | None) -> dict[str, Any]:
    """Of one rule of CreateAcls."""
    if refusal is None:
        return {"error_code": ErrorCode.none, "error_message": ""}
    return {"error_code": refusal.error_code, "error_message": refusal.message}


def deletion_result(deleted: DeletedRules) -> dict[str, Any]:
    """Of one filter of DeleteAcls."""
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
        **_entry(rule),
    }


def _entry(rule: AccessRule) -> dict[str, Any]:
    return {
        "principal": rule.principal,
        "host": rule.host,
        "operation": rule.operation,
        "permission_type": rule.permission,
    }
