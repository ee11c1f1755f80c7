"""IncrementalAlterConfigs (44) and AlterConfigs (33): each resource of a request on its own.

Topics, brokers and groups. Settings of client metrics and log levels of brokers are refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker_core.controller.cluster_controller import ClusterController
from broker_core.controller.config_plans import (
    ConfigChange,
    ConfigOperation,
    plan_config_changes,
    plan_config_replacement,
)
from broker_core.controller.requests.controller_api import ControllerApi, Planned, Values
from broker_core.coordinator.contract import CoordinatorResult
from broker_core.metadata.config_resource import ConfigResource
from broker_core.metadata.metadata_records import MetadataRecord
from broker_core.model.exceptions import InvalidRequestError, StreamlogError

PlanOne = Callable[[ClusterController, ConfigResource, Any], tuple[MetadataRecord, ...]]


def _plan_each(controller: ClusterController, message: Any, plan: PlanOne) -> Planned:
    named = Counter((each.resource_type, each.resource_name) for each in message.resources)
    records: list[MetadataRecord] = []
    answers: list[dict[str, Any]] = []
    for each in message.resources:
        answer: dict[str, Any] = {"resource_type": each.resource_type, "resource_name": each.resource_name}
        try:
            if named[each.resource_type, each.resource_name] > 1:
                raise InvalidRequestError("Each resource must appear at most once.")
            if each.resource_type not in set(ConfigResource):
                raise InvalidRequestError(f"settings of resource type {each.resource_type} are not supported")
            records += plan(controller, ConfigResource(each.resource_type), each)
        except StreamlogError as error:
            answer |= {"error_code": error.error_code, "error_message": error.message}
        answers.append(answer)
    return CoordinatorResult(records=() if message.validate_only else tuple(records), reply={"responses": answers})


def _plan_increments(controller: ClusterController, message: Any, now_ms: int) -> Planned:
    return _plan_each(controller, message, _increments)


def _increments(controller: ClusterController, resource: ConfigResource, each: Any) -> tuple[MetadataRecord, ...]:
    changes = []
    for config in each.configs:
        if config.config_operation not in set(ConfigOperation):
            raise InvalidRequestError(f"Unknown operation type {config.config_operation} for {config.name}")
        operation = ConfigOperation(config.config_operation)
        changes.append(ConfigChange(name=config.name, operation=operation, value=config.value))
    return plan_config_changes(controller.facts, resource, each.resource_name, changes).records


def _plan_replacements(controller: ClusterController, message: Any, now_ms: int) -> Planned:
    return _plan_each(controller, message, _replacements)


def _replacements(controller: ClusterController, resource: ConfigResource, each: Any) -> tuple[MetadataRecord, ...]:
    configs = {config.name: config.value for config in each.configs}
    return plan_config_replacement(controller.facts, resource, each.resource_name, configs).records


def _refuse(message: Any, error_code: ErrorCode, text: str) -> Values:
    return {
        "responses": [
            {
                "resource_type": each.resource_type,
                "resource_name": each.resource_name,
                "error_code": error_code,
                "error_message": text,
            }
            for each in message.resources
        ]
    }


INCREMENTAL_ALTER_CONFIGS: Final = ControllerApi(key=44, versions=range(2), plan=_plan_increments, refuse=_refuse)
ALTER_CONFIGS: Final = ControllerApi(key=33, versions=range(3), plan=_plan_replacements, refuse=_refuse)
