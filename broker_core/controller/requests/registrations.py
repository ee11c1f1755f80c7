"""ControllerRegistration (70), version 0, and UnregisterBroker (64), version 0."""

from __future__ import annotations

from typing import Any, Final

from broker_core.controller.broker_registrations import plan_controller_registration, plan_unregistration
from broker_core.controller.cluster_controller import ClusterController
from broker_core.controller.requests.controller_api import ControllerApi, Planned, id_of, refuse_all_with_text
from broker_core.coordinator.contract import CoordinatorResult
from broker_core.metadata.metadata_records import ControllerEndpoint, ControllerFeature, RegisterControllerRecord


def _plan_controller(controller: ClusterController, message: Any, now_ms: int) -> Planned:
    record = RegisterControllerRecord(
        controller_id=message.controller_id,
        incarnation_id=id_of(message.incarnation_id),
        zk_migration_ready=message.zk_migration_ready,
        end_points=tuple(
            ControllerEndpoint(name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol)
            for each in message.listeners
        ),
        features=tuple(
            ControllerFeature(
                name=each.name,
                min_supported_version=each.min_supported_version,
                max_supported_version=each.max_supported_version,
            )
            for each in message.features
        ),
    )
    return CoordinatorResult(records=plan_controller_registration(controller.facts, record).records, reply={})


def _plan_unregistration(controller: ClusterController, message: Any, now_ms: int) -> Planned:
    result = plan_unregistration(controller.facts, message.broker_id)
    controller.sessions.end(message.broker_id)
    return CoordinatorResult(records=result.records, reply={})


CONTROLLER_REGISTRATION: Final = ControllerApi(
    key=70, versions=range(1), plan=_plan_controller, refuse=refuse_all_with_text
)
UNREGISTER_BROKER: Final = ControllerApi(
    key=64, versions=range(1), plan=_plan_unregistration, refuse=refuse_all_with_text
)
