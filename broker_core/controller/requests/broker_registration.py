"""BrokerRegistration (62), versions 0 to 4: a broker process wants to be part of the cluster."""

from __future__ import annotations

from typing import Any, Final

from broker_core.controller.broker_registrations import BrokerApplication, plan_registration
from broker_core.controller.cluster_controller import ClusterController
from broker_core.controller.requests.controller_api import ControllerApi, Planned, id_of, refuse_all
from broker_core.coordinator.contract import CoordinatorResult
from broker_core.metadata.metadata_records import BrokerEndpoint, BrokerFeature
from broker_core.model.exceptions import InvalidRequestError


def _plan(controller: ClusterController, message: Any, now_ms: int) -> Planned:
    if getattr(message, "is_migrating_zk_broker", False):
        raise InvalidRequestError("brokers that still use ZooKeeper cannot be registered")
    application = BrokerApplication(
        broker_id=message.broker_id,
        cluster_id=message.cluster_id,
        incarnation_id=id_of(message.incarnation_id),
        end_points=tuple(
            BrokerEndpoint(name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol)
            for each in message.listeners
        ),
        features=tuple(
            BrokerFeature(
                name=each.name,
                min_supported_version=each.min_supported_version,
                max_supported_version=each.max_supported_version,
            )
            for each in message.features
        ),
        rack=message.rack,
        log_dirs=tuple(map(id_of, getattr(message, "log_dirs", ()))),
        previous_epoch=getattr(message, "previous_broker_epoch", None),
    )
    result = plan_registration(
        controller.facts,
        application,
        cluster_id=controller.cluster_id,
        next_offset=controller.next_offset,
        has_live_session=lambda broker_id, epoch: controller.sessions.keeps_id(broker_id, epoch, now_ms),
    )
    return CoordinatorResult(records=result.records, reply={"broker_epoch": result.reply})


API: Final = ControllerApi(key=62, versions=range(5), plan=_plan, refuse=refuse_all)
