"""AllocateProducerIds (67), version 0: the next block of producer ids for a broker."""

from __future__ import annotations

from typing import Any, Final

from broker_core.controller.cluster_controller import ClusterController
from broker_core.controller.producer_id_plans import plan_producer_ids
from broker_core.controller.requests.controller_api import ControllerApi, Planned, refuse_all
from broker_core.coordinator.contract import CoordinatorResult


def _plan(controller: ClusterController, message: Any, now_ms: int) -> Planned:
    result = plan_producer_ids(controller.facts, message.broker_id, message.broker_epoch)
    reply = {"producer_id_start": result.reply.first_id, "producer_id_len": result.reply.id_count}
    return CoordinatorResult(records=result.records, reply=reply)


API: Final = ControllerApi(key=67, versions=range(1), plan=_plan, refuse=refuse_all)
