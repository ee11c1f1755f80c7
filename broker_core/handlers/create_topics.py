"""CreateTopics (19), versions 2 to 7: each topic of the request on its own, durable when it is answered.

Counts of -1 mean num.partitions and a replication factor of 1, the only one that a single node supports; an assignment
may only name this node. `validate_only` checks without changes. Names that occur twice in a request are refused.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker_core.cluster import TopicDescription
from broker_core.handlers.call import QUOTA_EXCEEDED, Call
from broker_core.handlers.config_answers import created_topic_answers
from broker_core.handlers.gathered_answers import GatheredAnswers
from broker_core.metadata.replica_assignment import refusal_of_assignment
from broker_core.model.access_control import Operation, ResourceType
from broker_core.model.exceptions import StreamlogError
from broker_core.model.limits import MAX_PARTITION_COUNT

_DEFAULT_COUNT: Final = -1
_NOTHING_SHOWN: Final[dict[str, Any]] = {"num_partitions": -1, "replication_factor": -1, "configs": ()}
"""The error of a refused topic."""
_TOO_MANY: Final = (
    f"Excessively large number of partitions per request: at most {MAX_PARTITION_COUNT} can be created at once."
)


class _Refusal(Exception):
    def __init__(self, error_code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code
        self.message = message


def handle(call: Call) -> None:
    named = Counter(topic.name for topic in call.message.topics)
    may_create_all = call.is_allowed(Operation.CREATE, ResourceType.CLUSTER)
    answers = GatheredAnswers(named, lambda topics: call.respond(topics=list(topics.values())))

    def answer(name: str, **fields: Any) -> None:
        answers.add(name, _NOTHING_SHOWN | {"name": name} | fields)

    if _partitions_asked_for(call) > MAX_PARTITION_COUNT:
        for name in named:
            answer(name, error_code=ErrorCode.policy_violation, error_message=_TOO_MANY)
        return
    for topic in {topic.name: topic for topic in call.message.topics}.values():
        try:
            if named[topic.name] > 1:
                raise _Refusal(ErrorCode.invalid_request, "Duplicate topic name.")
            if not may_create_all and not call.is_allowed(Operation.CREATE, ResourceType.TOPIC, topic.name):
                raise _Refusal(ErrorCode.topic_authorization_failed, "Authorization failed.")
            _begin(call, topic, answer)
        except (_Refusal, StreamlogError) as error:
            answer(topic.name, error_code=error.error_code, error_message=error.message)


def _begin(call: Call, topic: Any, answer: Any) -> None:
    """Raises _Refusal, StreamlogError."""
    count, configs = _validated(call, topic)
    planned = call.node.topics.check_create_topic(topic.name, partition_count=count, configs=configs)

    def made(description: TopicDescription) -> None:
        shown = {"num_partitions": count, "replication_factor": 1, **_shown(call, topic.name, configs)}
        answer(topic.name, topic_id=description.topic_id, **shown)

    def refused(error: StreamlogError) -> None:
        answer(topic.name, error_code=error.error_code, error_message=error.message)

    if not call.may_change_partitions(count):
        raise _Refusal(ErrorCode.throttling_quota_exceeded, QUOTA_EXCEEDED)
    if call.message.validate_only:
        made(planned)  # as in Kafka with an id, which no topic will have
        return
    call.node.topics.create_topic(topic.name, partition_count=count, configs=configs, on_reply=made, on_error=refused)


def _validated(call: Call, topic: Any) -> tuple[int, dict[str, str]]:
    """(number of partitions, settings). Raises _Refusal, StreamlogError, in Kafka's order: name and existence, settings
    without a value, settings, then the assignment, or the counts."""
    topics = call.node.topics
    topics.check_create_topic(topic.name, partition_count=1, configs={})
    configs = _configs(topic)
    topics.check_create_topic(topic.name, partition_count=1, configs=configs)
    if topic.assignments:
        _check_assignments(call, topic)
        return len(topic.assignments), configs
    factor: int = topic.replication_factor
    if factor < 1 and factor != _DEFAULT_COUNT:
        raise _refused_factor(factor)
    count: int = topic.num_partitions
    count = call.node.config.num_partitions if count == _DEFAULT_COUNT else count
    topics.check_create_topic(topic.name, partition_count=count, configs=configs)
    if factor > 1:
        raise _refused_factor(factor)
    return count, configs


def _partitions_asked_for(call: Call) -> int:
    default = call.node.config.num_partitions
    return sum(
        len(topic.assignments) or (default if topic.num_partitions == _DEFAULT_COUNT else max(0, topic.num_partitions))
        for topic in call.message.topics
    )


def _refused_factor(factor: int) -> _Refusal:
    if factor < 1:
        return _Refusal(
            ErrorCode.invalid_replication_factor,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    return _Refusal(
        ErrorCode.invalid_replication_factor,
        f"Unable to replicate the partition {factor} time(s): The target replication factor of {factor} cannot be"
        " reached because only 1 broker(s) are registered.",
    )


def _check_assignments(call: Call, topic: Any) -> None:
    if topic.num_partitions != _DEFAULT_COUNT or topic.replication_factor != _DEFAULT_COUNT:
        what = "replicationFactor" if topic.replication_factor != _DEFAULT_COUNT else "numPartitions"
        raise _Refusal(
            ErrorCode.invalid_request,
            f"A manual partition assignment was specified, but {what} was not set to -1.",
        )
    if sorted(each.partition_index for each in topic.assignments) != list(range(len(topic.assignments))):
        raise _Refusal(
            ErrorCode.invalid_replica_assignment, "partitions should be a consecutive 0-based integer sequence"
        )
    for each in topic.assignments:
        refusal = refusal_of_assignment(call.node.cluster.brokers, each.broker_ids)
        if refusal is not None:
            raise _Refusal(ErrorCode.invalid_replica_assignment, refusal)


def _configs(topic: Any) -> dict[str, str]:
    """Raises _Refusal for a setting without a value."""
    configs = {}
    for config in topic.configs:
        if config.value is None:
            raise _Refusal(ErrorCode.invalid_config, f"Null value not supported for topic configs: {config.name}")
        configs[config.name] = config.value
    return configs


def _shown(call: Call, name: str, configs: dict[str, str]) -> dict[str, Any]:
    if not call.is_allowed(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, name):
        return {
            "topic_config_error_code": ErrorCode.topic_authorization_failed.value,
            "num_partitions": -1,
            "replication_factor": -1,
        }
    return {"configs": created_topic_answers(call.node, configs)}
