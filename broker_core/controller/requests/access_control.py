"""DescribeAcls (29), CreateAcls (30) and DeleteAcls (31), versions 1 to 3: the access rules of the cluster.

They are stored for brokers, whose authorizers enforce them; this controller has no authorizer. A request that comes
to it directly is carried out, as all others are. One that a broker forwards (`envelope`) must be allowed by the rules
themselves: its principal needs ALTER on the cluster. Otherwise every client of a broker could allow itself everything.
"""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker_core.controller.cluster_controller import ClusterController
from broker_core.controller.requests.controller_api import ControllerApi, Planned, Values, refuse_all_with_text
from broker_core.coordinator.contract import CoordinatorResult
from broker_core.metadata.security_plans import DeletedRules, Refusal, plan_create_acls, plan_delete_acls
from broker_core.model.access_control import (
    AccessRule,
    AccessRuleFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)


def _plan_creation(controller: ClusterController, message: Any, now_ms: int) -> Planned:
    wanted = [
        AccessRule(
            resource_type=ResourceType(each.resource_type),
            resource_name=each.resource_name,
            pattern_type=PatternType(each.resource_pattern_type),
            principal=each.principal,
            host=each.host,
            operation=Operation(each.operation),
            permission=Permission(each.permission_type),
        )
        for each in message.creations
    ]
    result = plan_create_acls(controller.image.access_control, wanted, entropy=controller.entropy)
    return CoordinatorResult(records=result.records, reply={"results": [_created(each) for each in result.reply]})


def _plan_deletion(controller: ClusterController, message: Any, now_ms: int) -> Planned:
    result = plan_delete_acls(controller.image.access_control, [_filter_of(each) for each in message.filters])
    reply = {"filter_results": [_deleted(each) for each in result.reply]}
    return CoordinatorResult(records=result.records, reply=reply)


def _plan_description(controller: ClusterController, message: Any, now_ms: int) -> Planned:
    resources: dict[tuple[ResourceType, str, PatternType], list[dict[str, Any]]] = {}
    for rule in controller.image.access_control.matching(_filter_of(message)):
        of_resource = resources.setdefault((rule.resource_type, rule.resource_name, rule.pattern_type), [])
        of_resource.append(_entry(rule))
    reply = {
        "error_message": "",
        "resources": [
            {"resource_type": resource_type, "resource_name": name, "pattern_type": pattern_type, "acls": acls}
            for (resource_type, name, pattern_type), acls in resources.items()
        ],
    }
    return CoordinatorResult(reply=reply)


def _filter_of(asked: Any) -> AccessRuleFilter:
    return AccessRuleFilter(
        resource_type=ResourceType(asked.resource_type_filter),
        resource_name=asked.resource_name_filter,
        pattern_type=PatternType(asked.pattern_type_filter),
        principal=asked.principal_filter,
        host=asked.host_filter,
        operation=Operation(asked.operation),
        permission=Permission(asked.permission_type),
    )


def _entry(rule: AccessRule) -> dict[str, Any]:
    return {
        "principal": rule.principal,
        "host": rule.host,
        "operation": rule.operation,
        "permission_type": rule.permission,
    }


def _created(refusal: Refusal | None) -> dict[str, Any]:
    if refusal is None:
        return {"error_message": ""}
    return {"error_code": refusal.error_code, "error_message": refusal.message}


def _deleted(deleted: DeletedRules) -> dict[str, Any]:
    if deleted.refusal is not None:
        return {"error_code": deleted.refusal.error_code, "error_message": deleted.refusal.message}
    matching = [
        {
            "error_message": None,
            "resource_type": rule.resource_type,
            "resource_name": rule.resource_name,
            "pattern_type": rule.pattern_type,
            **_entry(rule),
        }
        for rule in deleted.rules
    ]
    return {"error_message": None, "matching_acls": matching}


def _refuse_creation(message: Any, error_code: ErrorCode, text: str) -> Values:
    return {"results": [{"error_code": error_code, "error_message": text} for _ in message.creations]}


def _refuse_deletion(message: Any, error_code: ErrorCode, text: str) -> Values:
    return {"filter_results": [{"error_code": error_code, "error_message": text} for _ in message.filters]}


DESCRIBE_ACLS: Final = ControllerApi(key=29, versions=range(1, 4), plan=_plan_description, refuse=refuse_all_with_text)
CREATE_ACLS: Final = ControllerApi(key=30, versions=range(1, 4), plan=_plan_creation, refuse=_refuse_creation)
DELETE_ACLS: Final = ControllerApi(key=31, versions=range(1, 4), plan=_plan_deletion, refuse=_refuse_deletion)
