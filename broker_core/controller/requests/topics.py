"""CreateTopics (19), DeleteTopics (20) and CreatePartitions (37): each topic of a request on its own.

A created topic is answered with all its settings: its own, the cluster's defaults, Kafka's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker_core.controller.cluster_controller import ClusterController
from broker_core.controller.cluster_facts import ClusterFacts
from broker_core.controller.requests.controller_api import ControllerApi, Planned, Values
from broker_core.controller.topic_plans import (
    DEFAULT_COUNT,
    WantedTopic,
    plan_more_partitions,
    plan_topic,
    plan_topic_deletion,
)
from broker_core.coordinator.contract import CoordinatorResult
from broker_core.metadata.metadata_records import MetadataRecord
from broker_core.model.exceptions import (
    InvalidConfigError,
    InvalidRequestError,
    InvalidTopicNameError,
    PolicyViolationError,
    RequestRefusedError,
    StreamlogError,
    UnknownTopicError,
)
from broker_core.model.limits import MAX_PARTITION_COUNT
from broker_core.model.topic_defaults import TOPIC_SYNONYMS
from broker_core.model.topic_name import folded_name
from broker_core.model.topic_settings import SETTINGS

_TOO_MANY: Final = (
    f"Excessively large number of partitions per request: at most {MAX_PARTITION_COUNT} can be created at once."
)
_OF_TOPIC, _OF_ALL_BROKERS, _OF_NOBODY = 1, 3, 5
"""Kafka's numbers for where a value comes from."""
_SHOWN_IF_GIVEN: Final = frozenset({"flush.policy", "internal.segment.bytes"})
_REFUSED_TOPIC: Final = {"num_partitions": -1, "replication_factor": -1, "configs": ()}


def _each(names: list[str], plan: Callable[[str], tuple[tuple[MetadataRecord, ...], dict[str, Any]]]) -> Any:
    """(all records, the answers) of each name; what one refuses is its own answer."""
    records: list[MetadataRecord] = []
    answers: dict[str, dict[str, Any]] = {}
    for name, count in Counter(names).items():
        try:
            if count > 1:
                raise InvalidRequestError("Duplicate topic name.")
            planned, answer = plan(name)
            records += planned
            answers[name] = answer
        except StreamlogError as error:
            answers[name] = {"error_code": error.error_code, "error_message": error.message}
    return tuple(records), answers


# CreateTopics


def _plan_creation(controller: ClusterController, message: Any, now_ms: int) -> Planned:
    facts = controller.facts
    by_name = {topic.name: topic for topic in message.topics}
    _check_count(facts, message.topics)
    folded: set[str] = set()

    def plan(name: str) -> tuple[tuple[MetadataRecord, ...], dict[str, Any]]:
        topic = by_name[name]
        result = plan_topic(facts, _wanted(topic), entropy=controller.entropy)
        if folded_name(name) in folded:
            raise InvalidTopicNameError(f"Topic '{name}' collides with another topic of this request.", topic=name)
        folded.add(folded_name(name))
        created = result.reply
        controller.mutations.take(created.partition_count, now_ms)
        answer = {
            "topic_id": created.topic_id,
            "num_partitions": created.partition_count,
            "replication_factor": created.factor,
            "configs": _config_answers(facts, {config.name: config.value for config in topic.configs}),
        }
        return result.records, answer

    records, answers = _each([topic.name for topic in message.topics], plan)
    topics = [
        {**(_REFUSED_TOPIC if "error_code" in answer else {}), "name": name, **answer}
        for name, answer in answers.items()
    ]
    return CoordinatorResult(records=() if message.validate_only else records, reply={"topics": topics})


def _config_answers(facts: ClusterFacts, configs: Mapping[str, str]) -> list[dict[str, Any]]:
    defaults = facts.image.broker_configs.get("", {})
    answers = []
    for name, setting in SETTINGS.items():
        if name in _SHOWN_IF_GIVEN and name not in configs:
            continue
        synonym = next((each for each in TOPIC_SYNONYMS.get(name, ()) if each in defaults), None)
        if name in configs:
            value, source = configs[name], _OF_TOPIC
        elif synonym is not None:
            value, source = defaults[synonym], _OF_ALL_BROKERS
        else:
            value, source = setting.default or "", _OF_NOBODY
        answers.append({"name": name, "value": value, "config_source": source})
    return answers


def _wanted(topic: Any) -> WantedTopic:
    for config in topic.configs:
        if config.value is None:
            raise InvalidConfigError(f"Null value not supported for topic configs: {config.name}")
    return WantedTopic(
        name=topic.name,
        partition_count=topic.num_partitions,
        factor=topic.replication_factor,
        configs={config.name: config.value for config in topic.configs},
        assignments=[(each.partition_index, tuple(each.broker_ids)) for each in topic.assignments],
    )


def _check_count(facts: ClusterFacts, topics: Any) -> None:
    default = facts.defaults.partition_count
    asked = sum(
        len(topic.assignments) or (default if topic.num_partitions == DEFAULT_COUNT else max(0, topic.num_partitions))
        for topic in topics
    )
    if asked > MAX_PARTITION_COUNT:
        raise PolicyViolationError(_TOO_MANY)


def _refuse_creation(message: Any, error_code: ErrorCode, text: str) -> Values:
    names = dict.fromkeys(topic.name for topic in message.topics)
    return {
        "topics": [{**_REFUSED_TOPIC, "name": name, "error_code": error_code, "error_message": text} for name in names]
    }


# CreatePartitions


def _plan_growth(controller: ClusterController, message: Any, now_ms: int) -> Planned:
    by_name = {topic.name: topic for topic in message.topics}
    if sum(max(0, topic.count) for topic in message.topics) > MAX_PARTITION_COUNT:
        raise PolicyViolationError(_TOO_MANY)

    def plan(name: str) -> tuple[tuple[MetadataRecord, ...], dict[str, Any]]:
        topic = by_name[name]
        given = topic.assignments
        assignments = None if given is None else [tuple(each.broker_ids) for each in given]
        result = plan_more_partitions(controller.facts, name, topic.count, assignments, entropy=controller.entropy)
        added = topic.count - controller.image.topics[name].partition_count
        controller.mutations.take(added, now_ms)
        return result.records, {}

    records, answers = _each([topic.name for topic in message.topics], plan)
    results = [{"name": name, **answer} for name, answer in answers.items()]
    return CoordinatorResult(records=() if message.validate_only else records, reply={"results": results})


def _refuse_growth(message: Any, error_code: ErrorCode, text: str) -> Values:
    names = dict.fromkeys(topic.name for topic in message.topics)
    return {"results": [{"name": name, "error_code": error_code, "error_message": text} for name in names]}


# DeleteTopics


def _plan_deletion(controller: ClusterController, message: Any, now_ms: int) -> Planned:
    records: list[MetadataRecord] = []
    answers: list[dict[str, Any]] = []
    named = _named(message)
    gone = set()
    for (name, topic_id), count in Counter(named).items():
        try:
            topic = _deleted(controller.facts, name, topic_id, is_repeated=count > 1)
            if topic.topic_id in gone:
                raise InvalidRequestError("The provided topic name maps to an ID that was already supplied.")
            planned = plan_topic_deletion(controller.facts, topic.topic_id)
            controller.mutations.take(topic.partition_count, now_ms)
            records += planned.records
            gone.add(topic.topic_id)
            answers.append({"name": topic.name, "topic_id": topic.topic_id})
        except StreamlogError as error:
            answers.append(
                {"name": name, "topic_id": topic_id, "error_code": error.error_code, "error_message": error.message}
            )
    return CoordinatorResult(records=tuple(records), reply={"responses": answers})


def _named(message: Any) -> list[tuple[Any, Any]]:
    if hasattr(message, "topics"):
        return [(topic.name, topic.topic_id) for topic in message.topics]
    return [(name, None) for name in message.topic_names]


def _deleted(facts: ClusterFacts, name: Any, topic_id: Any, *, is_repeated: bool) -> Any:
    if (name is None) == (topic_id is None):
        raise InvalidRequestError(
            "Neither topic name nor id were specified."
            if name is None
            else "You may not specify both topic name and topic id."
        )
    if is_repeated:
        raise InvalidRequestError(f"Duplicate topic {'name' if topic_id is None else 'id'}.")
    topic = facts.image.topics.get(name) if topic_id is None else facts.image.topic_by_id(topic_id)
    if topic is not None:
        return topic
    if topic_id is not None:
        raise RequestRefusedError("This server does not host this topic ID.", error_code=ErrorCode.unknown_topic_id)
    raise UnknownTopicError("This server does not host this topic-partition.", topic=name)


def _refuse_deletion(message: Any, error_code: ErrorCode, text: str) -> Values:
    return {
        "responses": [
            {"name": name, "topic_id": topic_id, "error_code": error_code, "error_message": text}
            for name, topic_id in dict.fromkeys(_named(message))
        ]
    }


CREATE_TOPICS: Final = ControllerApi(key=19, versions=range(2, 8), plan=_plan_creation, refuse=_refuse_creation)
DELETE_TOPICS: Final = ControllerApi(key=20, versions=range(1, 7), plan=_plan_deletion, refuse=_refuse_deletion)
CREATE_PARTITIONS: Final = ControllerApi(key=37, versions=range(4), plan=_plan_growth, refuse=_refuse_growth)
