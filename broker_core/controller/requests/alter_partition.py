"""AlterPartition (56), versions 2 and 3: a broker asks for other ISRs of partitions that it leads."""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker_core.controller.broker_registrations import check_broker_epoch
from broker_core.controller.cluster_controller import ClusterController
from broker_core.controller.isr_changes import UNCHECKED_EPOCH, IsrOutcome, IsrProposal, plan_isr_change
from broker_core.controller.requests.controller_api import ControllerApi, Planned, id_of, refuse_all
from broker_core.coordinator.contract import CoordinatorResult
from broker_core.metadata.metadata_records import MetadataRecord


def _plan(controller: ClusterController, message: Any, now_ms: int) -> Planned:
    check_broker_epoch(
        controller.facts, message.broker_id, message.broker_epoch, if_unknown=ErrorCode.stale_broker_epoch
    )
    records: list[MetadataRecord] = []
    seen = set()
    topics = []
    for topic in message.topics:
        partitions = []
        for asked in topic.partitions:
            place = (id_of(topic.topic_id), asked.partition_index)
            outcome = IsrOutcome(error=ErrorCode.invalid_request)
            if place not in seen:
                outcome = plan_isr_change(controller.facts, _proposal(message.broker_id, *place, asked))
            seen.add(place)
            if outcome.record is not None:
                records.append(outcome.record)
            partitions.append({"partition_index": asked.partition_index, **_answer(outcome)})
        topics.append({"topic_id": topic.topic_id, "partitions": partitions})
    return CoordinatorResult(records=tuple(records), reply={"topics": topics})


def _proposal(broker_id: int, topic_id: Any, number: int, asked: Any) -> IsrProposal:
    if hasattr(asked, "new_isr_with_epochs"):
        isr = [(member.broker_id, member.broker_epoch) for member in asked.new_isr_with_epochs]
    else:
        isr = [(member, UNCHECKED_EPOCH) for member in asked.new_isr]
    return IsrProposal(
        leader_id=broker_id,
        topic_id=topic_id,
        number=number,
        leader_epoch=asked.leader_epoch,
        partition_epoch=asked.partition_epoch,
        isr=isr,
        recovery_state=asked.leader_recovery_state,
    )


def _answer(outcome: IsrOutcome) -> dict[str, Any]:
    state = outcome.state
    if state is None or outcome.error is not ErrorCode.none:
        return {"error_code": outcome.error}
    return {
        "leader_id": state.leader,
        "leader_epoch": state.leader_epoch,
        "isr": state.isr,
        "leader_recovery_state": state.leader_recovery_state,
        "partition_epoch": state.partition_epoch,
    }


API: Final = ControllerApi(key=56, versions=range(2, 4), plan=_plan, refuse=refuse_all)
