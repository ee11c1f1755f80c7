"""CreatePartitions (37), versions 0 to 3: topics grow to a total number of partitions.

An assignment may only name this node, once for each new partition. `validate_only` checks without changes.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

from kio.schema.errors import ErrorCode

from broker_core.handlers.call import QUOTA_EXCEEDED, Call
from broker_core.handlers.gathered_answers import GatheredAnswers
from broker_core.metadata.replica_assignment import refusal_of_assignment
from broker_core.model.access_control import Operation, ResourceType
from broker_core.model.exceptions import StreamlogError


def handle(call: Call) -> None:
    named = Counter(topic.name for topic in call.message.topics)
    answers = GatheredAnswers(named, lambda results: call.respond(results=list(results.values())))

    def answer(name: str, error_code: ErrorCode = ErrorCode.none, error_message: str | None = None) -> None:
        answers.add(name, {"name": name, "error_code": error_code, "error_message": error_message})

    for topic in {topic.name: topic for topic in call.message.topics}.values():
        if named[topic.name] > 1:
            answer(topic.name, ErrorCode.invalid_request, "Duplicate topic name.")
        elif not call.is_allowed(Operation.ALTER, ResourceType.TOPIC, topic.name):
            answer(topic.name, ErrorCode.topic_authorization_failed)
        else:
            _begin(call, topic, partial(answer, topic.name))


def _begin(call: Call, topic: Any, answer: Any) -> None:
    def refused(error: StreamlogError) -> None:
        answer(error.error_code, error.message)

    try:
        call.node.topics.check(lambda controller: controller.plan_create_partitions(topic.name, topic.count))
    except StreamlogError as error:
        refused(error)
        return
    refusal = _refused_assignment(call, topic)
    if refusal is not None:
        answer(ErrorCode.invalid_replica_assignment, refusal)
    elif not call.may_change_partitions(topic.count - call.node.topics.image.topics[topic.name].partition_count):
        answer(ErrorCode.throttling_quota_exceeded, QUOTA_EXCEEDED)
    elif call.message.validate_only:
        answer()
    else:
        call.node.topics.create_partitions(
            topic.name, topic.count, on_reply=lambda description: answer(), on_error=refused
        )


def _refused_assignment(call: Call, topic: Any) -> str | None:
    if topic.assignments is None:
        return None
    new_count = topic.count - call.node.topics.topic(topic.name).partition_count
    if len(topic.assignments) != new_count:
        return (
            f"Attempted to add {new_count} additional partition(s), but only {len(topic.assignments)} assignment(s)"
            " were specified."
        )
    refusals = (refusal_of_assignment(call.node.cluster.brokers, each.broker_ids) for each in topic.assignments)
    return next(filter(None, refusals), None)
