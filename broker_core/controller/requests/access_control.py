"""DescribeAcls (29), CreateAcls (30) and DeleteAcls (31), versions 1 to 3: the access rules of the cluster.

Brokers and controllers with an authorizer enforce them, each by its own copy of the metadata log. Who may show and
change them is decided before (`access`): DESCRIBE and ALTER on the cluster.
"""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker_core.controller.cluster_controller import ClusterController
from broker_core.controller.requests.controller_api import ControllerApi, Planned, Values, refuse_all_with_text
from broker_core.coordinator.contract import CoordinatorResult
from broker_core.metadata.access_rule_messages import (
    creation_result,
    deletion_result,
    filter_in,
    resources_of,
    rule_in,
)
from broker_core.metadata.security_plans import plan_create_acls, plan_delete_acls


def _plan_creation(controller: ClusterController, message: Any, now_ms: int) -> Planned:
    wanted = [rule_in(each) for each in message.creations]
    result = plan_create_acls(controller.image.access_control, wanted, entropy=controller.entropy)
    return CoordinatorResult(
        records=result.records, reply={"results": [creation_result(each) for each in result.reply]}
    )


def _plan_deletion(controller: ClusterController, message: Any, now_ms: int) -> Planned:
    result = plan_delete_acls(controller.image.access_control, [filter_in(each) for each in message.filters])
    reply = {"filter_results": [deletion_result(each) for each in result.reply]}
    return CoordinatorResult(records=result.records, reply=reply)


def _plan_description(controller: ClusterController, message: Any, now_ms: int) -> Planned:
    found = controller.image.access_control.matching(filter_in(message))
    return CoordinatorResult(reply={"error_message": "", "resources": resources_of(found)})


def _refuse_creation(message: Any, error_code: ErrorCode, text: str) -> Values:
    return {"results": [{"error_code": error_code, "error_message": text} for _ in message.creations]}


def _refuse_deletion(message: Any, error_code: ErrorCode, text: str) -> Values:
    return {"filter_results": [{"error_code": error_code, "error_message": text} for _ in message.filters]}


DESCRIBE_ACLS: Final = ControllerApi(key=29, versions=range(1, 4), plan=_plan_description, refuse=refuse_all_with_text)
CREATE_ACLS: Final = ControllerApi(key=30, versions=range(1, 4), plan=_plan_creation, refuse=_refuse_creation)
DELETE_ACLS: Final = ControllerApi(key=31, versions=range(1, 4), plan=_plan_deletion, refuse=_refuse_deletion)
