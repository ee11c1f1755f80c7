"""DeleteRecords (21), versions 0 to 2: increases the log start offset of partitions; -1 is the high watermark.

Answered when all living replicas have deleted the records; of those that have not by the request's timeout the answer
is REQUEST_TIMED_OUT, and they delete them all the same. As in Kafka refused for internal topics and for topics with
cleanup.policy=compact only (POLICY_VIOLATION).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker_core.broker.partition.replica import Replica
from broker_core.handlers.call import Call
from broker_core.handlers.gathered_answers import GatheredAnswers
from broker_core.model.access_control import Operation, ResourceType
from broker_core.model.durations import milliseconds_of
from broker_core.model.exceptions import PolicyViolationError, StreamlogError
from broker_core.model.identifiers import TopicPartition
from broker_core.model.topic_name import is_internal_topic

_NO_OFFSET: Final = -1


def handle(call: Call) -> None:
    # As in Kafka, the last one counts where a partition is named twice.
    asked = {
        (topic.name, partition.partition_index): partition.offset
        for topic in call.message.topics
        for partition in topic.partitions
    }
    timer_key = object()
    waiting = set(asked)

    def respond(partitions: Mapping[tuple[str, int], dict[str, Any]]) -> None:
        call.node.timers.cancel(timer_key)
        _respond(call, partitions)

    answers = GatheredAnswers(asked, respond)

    def answer(name: str, number: int, low_watermark: int = _NO_OFFSET, error_code: ErrorCode = ErrorCode.none) -> None:
        if (name, number) in waiting:
            waiting.discard((name, number))
            told = {"partition_index": number, "low_watermark": low_watermark, "error_code": error_code}
            answers.add((name, number), told)

    is_late = False

    def time_is_up(now_ms: int) -> None:
        nonlocal is_late
        is_late = True
        for name, number in tuple(waiting):
            if _awaits_followers(call, name, number):
                give_up(name, number)

    def deleted_here(name: str, number: int) -> None:
        """The leader is waited for in any case, its followers until the time is up."""
        if is_late:
            give_up(name, number)

    def give_up(name: str, number: int) -> None:
        answer(name, number, _low_watermark(call, name, number), ErrorCode.request_timed_out)

    if asked:
        at_ms = call.now_ms + max(0, milliseconds_of(call.message.timeout))
        call.node.timers.set(timer_key, at_ms, time_is_up)
    for (name, number), offset in asked.items():
        here = partial(deleted_here, name, number)
        _begin(call, name, number, offset, partial(answer, name, number), here)


def _begin(call: Call, name: str, number: int, offset: int, answer: Any, on_here: Callable[[], None]) -> None:
    def refused(error: StreamlogError) -> None:
        answer(error_code=error.error_code)

    if not call.is_allowed(Operation.DELETE, ResourceType.TOPIC, name):
        answer(error_code=ErrorCode.topic_authorization_failed)
        return
    try:
        replica = call.node.replicas.get(TopicPartition(name, number))
        _check_policy(replica)
    except StreamlogError as error:
        refused(error)
        return
    replica.delete_records(offset, answer, refused, on_here=on_here)


def _awaits_followers(call: Call, name: str, number: int) -> bool:
    """False: the leader itself still deletes."""
    try:
        return call.node.replicas.get(TopicPartition(name, number)).awaits_followers
    except StreamlogError:
        return True


def _low_watermark(call: Call, name: str, number: int) -> int:
    try:
        return call.node.replicas.get(TopicPartition(name, number)).low_watermark
    except StreamlogError:
        return _NO_OFFSET


def _check_policy(replica: Replica) -> None:
    name = replica.topic_partition.topic
    if is_internal_topic(name):
        error = PolicyViolationError(f"Cannot delete records of internal topic {name}.", topic=name)
        error.error_code = ErrorCode.invalid_topic_exception
        raise error
    if replica.config.is_compacted and not replica.config.is_deleted_by_retention:
        raise PolicyViolationError(
            f"Records of partition {replica.topic_partition} can not be deleted: its cleanup.policy is compact without"
            " delete.",
            topic=name,
        )


def _respond(call: Call, answers: Mapping[tuple[str, int], dict[str, Any]]) -> None:
    topics: dict[str, list[dict[str, Any]]] = {}
    for (name, _), answer in answers.items():
        topics.setdefault(name, []).append(answer)
    call.respond(topics=[{"name": name, "partitions": partitions} for name, partitions in topics.items()])
