"""BrokerHeartbeat (63), versions 0 to 2: a broker lives, and says whether it wants to run, to be fenced or to stop."""

from __future__ import annotations

from typing import Any, Final

from broker_core.controller.broker_life import BrokerState
from broker_core.controller.broker_registrations import BrokerHeartbeat, plan_heartbeat
from broker_core.controller.cluster_controller import ClusterController
from broker_core.controller.requests.controller_api import ControllerApi, Planned, id_of, refuse_all
from broker_core.coordinator.contract import CoordinatorResult


def _plan(controller: ClusterController, message: Any, now_ms: int) -> Planned:
    cordoned = getattr(message, "cordoned_log_dirs", None)
    heartbeat = BrokerHeartbeat(
        broker_id=message.broker_id,
        broker_epoch=message.broker_epoch,
        metadata_offset=message.current_metadata_offset,
        want_fence=message.want_fence,
        want_stop=message.want_shut_down,
        offline_log_dirs=tuple(map(id_of, getattr(message, "offline_log_dirs", ()))),
        cordoned_log_dirs=None if cordoned is None else tuple(map(id_of, cordoned)),
    )
    result = plan_heartbeat(
        controller.facts,
        heartbeat,
        register_offset=controller.register_offset(heartbeat.broker_id),
        is_shutdown_known=controller.is_shutdown_known,
    )
    is_leaving = result.reply.state is BrokerState.SHUTDOWN_NOW
    if is_leaving:
        controller.sessions.end(heartbeat.broker_id)
    else:
        controller.sessions.hear(
            heartbeat.broker_id, heartbeat.broker_epoch, metadata_offset=heartbeat.metadata_offset, now_ms=now_ms
        )
    reply = {
        "is_caught_up": result.reply.is_caught_up,
        "is_fenced": result.reply.state in (BrokerState.FENCED, BrokerState.SHUTDOWN_NOW),
        "should_shut_down": is_leaving,
    }
    return CoordinatorResult(records=result.records, reply=reply)


BROKER_HEARTBEAT: Final = 63
API: Final = ControllerApi(key=BROKER_HEARTBEAT, versions=range(3), plan=_plan, refuse=refuse_all)
