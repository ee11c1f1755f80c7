"""ListOffsets (2), versions 1 to 11: the offset of a timestamp or a special spec in each partition.

    -1 latest: the high watermark, or the last stable offset for read-committed clients    -2 earliest
    -3 the record with the largest timestamp (version 7)      -4 earliest local, the same as -2 (version 8)
    -5 latest tiered (version 9), -6 earliest pending upload (version 11): there is no tiered storage, so -1

A timestamp gives the first record at or after it that the client may see; -1 if there is none. A spec that is newer
than the request's version is UNSUPPORTED_VERSION. A partition named twice is INVALID_REQUEST. While a new leader does
not know yet what its predecessor told of as committed, its end is OFFSET_NOT_AVAILABLE (before version 5
LEADER_NOT_AVAILABLE): an end that was told must not go back.

Everything except the ends of a log is looked up in a job: it may open every segment and decompress batches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker_core.broker.partition.replica import Replica
from broker_core.handlers.call import Call
from broker_core.handlers.leader_epochs import refused_epoch
from broker_core.model.access_control import Operation, ResourceType
from broker_core.model.exceptions import StreamlogError
from broker_core.model.identifiers import IsolationLevel, OffsetSpec, TopicPartition

_FIRST_VERSION_WITH_NOT_AVAILABLE: Final = 5
_EARLIEST_LOCAL, _LATEST_TIERED, _EARLIEST_PENDING = -4, -5, -6
_FIRST_VERSION_WITH: Final = {
    OffsetSpec.MAX_TIMESTAMP: 7, _EARLIEST_LOCAL: 8, _LATEST_TIERED: 9, _EARLIEST_PENDING: 11,
}  # fmt: skip
_NOWHERE: Final[dict[str, Any]] = {"timestamp": -1, "offset": -1, "leader_epoch": -1}
_NEEDS_A_SEARCH: Final = OffsetSpec.MAX_TIMESTAMP
"""All timestamps, from 0 on, too."""

Answer = dict[str, Any]
Lookup = Callable[[], Answer]


def handle(call: Call) -> None:
    named = Counter(
        (topic.name, partition.partition_index) for topic in call.message.topics for partition in topic.partitions
    )
    is_allowed = {
        name: call.is_allowed(Operation.DESCRIBE, ResourceType.TOPIC, name)
        for name in dict.fromkeys(topic.name for topic in call.message.topics)
    }
    # As in Kafka, a partition named twice is in the answer once, and a topic without partitions is left out.
    answers: dict[str, dict[int, Answer | Lookup]] = {}
    for topic in call.message.topics:
        for partition in topic.partitions:
            number = partition.partition_index
            if not is_allowed[topic.name]:
                answer: Answer | Lookup = _NOWHERE | {"error_code": ErrorCode.topic_authorization_failed}
            elif named[topic.name, number] > 1:
                answer = _NOWHERE | {"error_code": ErrorCode.invalid_request}
            else:
                answer = _looked_up(call, topic.name, partition)
            answers.setdefault(topic.name, {})[number] = answer
    specs = {partition.timestamp for topic in call.message.topics for partition in topic.partitions}
    if any(spec >= 0 or spec == _NEEDS_A_SEARCH for spec in specs):
        call.after_job(lambda: _found(answers), lambda found: _respond(call, found))
    else:
        _respond(call, _found(answers))


def _respond(call: Call, answers: dict[str, dict[int, Answer]]) -> None:
    call.respond(
        topics=[
            {"name": name, "partitions": [{"partition_index": number, **each} for number, each in partitions.items()]}
            for name, partitions in answers.items()
        ]
    )


def _looked_up(call: Call, name: str, partition: Any) -> Answer | Lookup:
    spec = partition.timestamp
    if spec < 0 and call.version < _FIRST_VERSION_WITH.get(spec, 0 if spec >= _EARLIEST_PENDING else 2**15):
        return _NOWHERE | {"error_code": ErrorCode.unsupported_version}
    try:
        replica = call.node.replicas.get(TopicPartition(name, partition.partition_index))
        refused = refused_epoch(getattr(partition, "current_leader_epoch", -1), replica.leader_epoch)
        if refused is not None:
            return _NOWHERE | {"error_code": refused}
        if spec == OffsetSpec.LATEST and call.message.replica_id >= 0:
            return {"timestamp": -1, "offset": replica.bounds.log_end_offset, "leader_epoch": replica.leader_epoch}
        unknown = None
        if not replica.is_end_known:
            is_named = call.version >= _FIRST_VERSION_WITH_NOT_AVAILABLE
            unknown = ErrorCode.offset_not_available if is_named else ErrorCode.leader_not_available
        if spec == OffsetSpec.LATEST and unknown is not None:
            return _NOWHERE | {"error_code": unknown}
        return _place_of(
            replica, spec, unknown, IsolationLevel(1 if call.request_field("isolation_level", 0) == 1 else 0)
        )
    except StreamlogError as error:
        return _NOWHERE | {"error_code": error.error_code}


def _place_of(replica: Replica, spec: int, unknown: ErrorCode | None, isolation: IsolationLevel) -> Answer | Lookup:
    """`unknown`: the error if nothing is found, while the end of what is committed is not known."""
    if spec in (_LATEST_TIERED, _EARLIEST_PENDING):
        return _NOWHERE
    if spec == _EARLIEST_LOCAL:
        spec = OffsetSpec.EARLIEST
    find, leader_epoch = replica.find_offset(spec, isolation), replica.leader_epoch

    def lookup() -> Answer:
        try:
            found = find()
        except StreamlogError as error:
            return _NOWHERE | {"error_code": error.error_code}
        if found is None:
            return _NOWHERE if unknown is None else _NOWHERE | {"error_code": unknown}
        return {"timestamp": found.timestamp_ms, "offset": found.offset, "leader_epoch": leader_epoch}

    return lookup


def _found(answers: dict[str, dict[int, Answer | Lookup]]) -> dict[str, dict[int, Answer]]:
    return {
        name: {number: each if isinstance(each, dict) else each() for number, each in partitions.items()}
        for name, partitions in answers.items()
    }
