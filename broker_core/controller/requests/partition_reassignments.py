"""AlterPartitionReassignments (45), versions 0 and 1, and ListPartitionReassignments (46), version 0 (KIP-455)."""

from __future__ import annotations

from typing import Any, Final

from broker_core.controller.cluster_controller import ClusterController
from broker_core.controller.reassignments import plan_reassignment, reassignments
from broker_core.controller.requests.controller_api import ControllerApi, Planned, Values, refuse_all_with_text
from broker_core.coordinator.contract import CoordinatorResult
from broker_core.metadata.metadata_records import MetadataRecord
from broker_core.model.exceptions import InvalidRequestError, StreamlogError


def _plan(controller: ClusterController, message: Any, now_ms: int) -> Planned:
    may_change_factor = getattr(message, "allow_replication_factor_change", True)
    records: list[MetadataRecord] = []
    responses = []
    seen = set()
    for topic in message.topics:
        partitions = []
        for asked in topic.partitions:
            answer: dict[str, Any] = {"partition_index": asked.partition_index, "error_message": None}
            try:
                if (topic.name, asked.partition_index) in seen:
                    raise InvalidRequestError("Each partition must appear at most once.")
                seen.add((topic.name, asked.partition_index))
                records += plan_reassignment(
                    controller.facts,
                    topic.name,
                    asked.partition_index,
                    asked.replicas,
                    may_change_factor=may_change_factor,
                ).records
            except StreamlogError as error:
                answer |= {"error_code": error.error_code, "error_message": error.message}
            partitions.append(answer)
        responses.append({"name": topic.name, "partitions": partitions})
    reply: Values = {"allow_replication_factor_change": may_change_factor, "responses": responses}
    return CoordinatorResult(records=tuple(records), reply=reply)


def _plan_list(controller: ClusterController, message: Any, now_ms: int) -> Planned:
    wanted = None
    if message.topics is not None:
        wanted = {(topic.name, number) for topic in message.topics for number in topic.partition_indexes}
    topics: dict[str, list[dict[str, Any]]] = {}
    for topic, number, state in reassignments(controller.facts):
        if wanted is None or (topic, number) in wanted:
            topics.setdefault(topic, []).append(
                {
                    "partition_index": number,
                    "replicas": state.replicas,
                    "adding_replicas": state.adding_replicas,
                    "removing_replicas": state.removing_replicas,
                }
            )
    return CoordinatorResult(reply={"topics": [{"name": name, "partitions": each} for name, each in topics.items()]})


ALTER_PARTITION_REASSIGNMENTS: Final = ControllerApi(key=45, versions=range(2), plan=_plan, refuse=refuse_all_with_text)
LIST_PARTITION_REASSIGNMENTS: Final = ControllerApi(
    key=46, versions=range(1), plan=_plan_list, refuse=refuse_all_with_text
)
