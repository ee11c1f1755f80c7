"""AssignReplicasToDirs (73), version 0 (KIP-858)."""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker_core.controller.broker_registrations import check_broker_epoch
from broker_core.controller.cluster_controller import ClusterController
from broker_core.controller.directory_assignments import plan_directory_assignments
from broker_core.controller.requests.controller_api import ControllerApi, Planned, id_of, refuse_all
from broker_core.coordinator.contract import CoordinatorResult


def _plan(controller: ClusterController, message: Any, now_ms: int) -> Planned:
    broker = check_broker_epoch(
        controller.facts, message.broker_id, message.broker_epoch, if_unknown=ErrorCode.stale_broker_epoch
    )
    placements = [
        (id_of(directory.id_), id_of(topic.topic_id), partition.partition_index)
        for directory in message.directories
        for topic in directory.topics
        for partition in topic.partitions
    ]
    result = plan_directory_assignments(controller.facts, broker, placements)
    directories = [
        {
            "id_": directory.id_,
            "topics": [
                {
                    "topic_id": topic.topic_id,
                    "partitions": [
                        {
                            "partition_index": partition.partition_index,
                            "error_code": result.reply[
                                id_of(directory.id_), id_of(topic.topic_id), partition.partition_index
                            ],
                        }
                        for partition in topic.partitions
                    ],
                }
                for topic in directory.topics
            ],
        }
        for directory in message.directories
    ]
    return CoordinatorResult(records=result.records, reply={"directories": directories})


API: Final = ControllerApi(key=73, versions=range(1), plan=_plan, refuse=refuse_all)
