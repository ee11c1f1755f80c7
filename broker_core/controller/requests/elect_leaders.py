"""ElectLeaders (43), versions 0 to 2: the first replica leads again (0), or a leaderless partition gets any (1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker_core.controller.cluster_controller import ClusterController
from broker_core.controller.leader_elections import plan_election
from broker_core.controller.requests.controller_api import ControllerApi, Planned, Values, refuse_all
from broker_core.coordinator.contract import CoordinatorResult
from broker_core.metadata.metadata_records import MetadataRecord
from broker_core.metadata.security_plans import Refusal
from broker_core.model.exceptions import InvalidRequestError

_PREFERRED, _UNCLEAN = 0, 1


def _plan(controller: ClusterController, message: Any, now_ms: int) -> Planned:
    kind = getattr(message, "election_type", _PREFERRED)
    if kind not in (_PREFERRED, _UNCLEAN):
        raise InvalidRequestError(f"Unknown election type {kind}")
    is_of_all = message.topic_partitions is None
    records: list[MetadataRecord] = []
    results: dict[str, list[dict[str, Any]]] = {}
    for topic, number in dict.fromkeys(_asked(controller, message)):
        planned = plan_election(controller.facts, topic, number, is_unclean=kind == _UNCLEAN)
        answer: dict[str, Any] = {"partition_id": number}
        if isinstance(planned, Refusal):
            if is_of_all and planned.error_code is ErrorCode.election_not_needed:
                continue
            answer |= {"error_code": planned.error_code, "error_message": planned.message}
        else:
            records.append(planned)
        results.setdefault(topic, []).append(answer)
    reply: Values = {
        "replica_election_results": [{"topic": topic, "partition_result": each} for topic, each in results.items()]
    }
    return CoordinatorResult(records=tuple(records), reply=reply)


def _asked(controller: ClusterController, message: Any) -> Iterator[tuple[str, int]]:
    if message.topic_partitions is not None:
        for topic in message.topic_partitions:
            yield from ((topic.topic, number) for number in topic.partitions)
        return
    image = controller.image
    for name, description in sorted(image.topics.items()):
        yield from ((name, number) for number, _ in image.partitions.rows_of(description.topic_id))


API: Final = ControllerApi(key=43, versions=range(3), plan=_plan, refuse=refuse_all)
