"""DeleteTopics (20), versions 1 to 6: topics by name, from version 6 on by id; durable when it is answered.

A topic that is named twice, by name or id, is refused and stays; it is answered once. delete.topic.enable=false refuses
all. The order of the answers is undefined: Kafka shuffles them.

Internal topics are deleted too: groups or transactional ids are unknown then, members join again, and the next use
creates the topic. Unlike in Kafka, `__transaction_state` is kept while a transaction is open (POLICY_VIOLATION): the
transaction could never be ended without it, and readers of committed records would wait for ever.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker_core.cluster import TopicDescription
from broker_core.handlers.call import QUOTA_EXCEEDED, Call
from broker_core.model.access_control import Operation, ResourceType
from broker_core.model.exceptions import StreamlogError

Named = tuple[str | None, UUID | None]
"""The name or the id of a topic in the request."""

_FIRST_VERSION_THAT_SAYS_DISABLED: Final = 3
_NOT_ALLOWED: Final = (ErrorCode.topic_authorization_failed, "Topic authorization failed.")


class _Answers:
    """Sends the answers when there is one for each topic."""

    def __init__(self, call: Call, named: Counter[Named]) -> None:
        self._call = call
        self._left = len(named)
        self._answers: list[dict[str, Any]] = []
        if not named:
            call.respond(responses=[])

    def add(
        self, name: str | None, topic_id: UUID | None, error_code: ErrorCode, error_message: str | None = None
    ) -> None:
        self._answers.append(
            {"name": name, "topic_id": topic_id, "error_code": error_code, "error_message": error_message}
        )
        self.skip()

    def skip(self) -> None:
        """A topic that another answer covers."""
        self._left -= 1
        if self._left == 0:
            self._call.respond(responses=self._answers)


def handle(call: Call) -> None:
    named = _named(call)
    answers = _Answers(call, named)
    if not call.node.config.delete_topic_enable:
        is_old = call.version < _FIRST_VERSION_THAT_SAYS_DISABLED
        for name, topic_id in named:
            answers.add(name, topic_id, ErrorCode.invalid_request if is_old else ErrorCode.topic_deletion_disabled)
        return
    wanted: dict[Named, TopicDescription] = {}
    for (name, topic_id), count in named.items():
        refusal = _refused_naming(name, topic_id, count)
        if refusal is None:
            topic, refusal = _found(call, name, topic_id)
            if topic is not None:
                wanted[name, topic_id] = topic
                continue
            name = name if topic_id is None or refusal[0] is not _NOT_ALLOWED[0] else _name_shown(call, topic_id)
        answers.add(name, topic_id, *refusal)
    ids = {topic_id for _, topic_id in named if topic_id is not None}
    for (name, _), topic in wanted.items():
        if name is None and topic.name in {other for other, _ in wanted}:
            answers.skip()
        elif name is not None and topic.topic_id in ids:
            answers.add(name, topic.topic_id, ErrorCode.invalid_request,
                        "The provided topic name maps to an ID that was already supplied.")  # fmt: skip
        else:
            _delete(call, topic, partial(answers.add, topic.name, topic.topic_id))


def _named(call: Call) -> Counter[Named]:
    if hasattr(call.message, "topics"):
        return Counter((topic.name, topic.topic_id) for topic in call.message.topics)
    return Counter((name, None) for name in call.message.topic_names)


def _refused_naming(name: str | None, topic_id: UUID | None, count: int) -> tuple[ErrorCode, str] | None:
    if name is not None and topic_id is not None:
        return ErrorCode.invalid_request, "You may not specify both topic name and topic id."
    if name is None and topic_id is None:
        return ErrorCode.invalid_request, "Neither topic name nor id were specified."
    if count > 1:
        return ErrorCode.invalid_request, f"Duplicate topic {'name' if topic_id is None else 'id'}."
    return None


def _found(
    call: Call, name: str | None, topic_id: UUID | None
) -> tuple[TopicDescription | None, tuple[ErrorCode, str]]:
    """The topic if it may be deleted, else the error."""
    image = call.node.topics.image
    topic = image.topics.get(name or "") if topic_id is None else image.topic_by_id(topic_id)
    if topic is None and topic_id is not None:
        return None, (ErrorCode.unknown_topic_id, "This server does not host this topic ID.")
    known_name = topic.name if topic is not None else name or ""
    if not call.is_allowed(Operation.DELETE, ResourceType.CLUSTER, log_if_denied=False):
        if not call.is_allowed(Operation.DESCRIBE, ResourceType.TOPIC, known_name):
            return None, _NOT_ALLOWED
        if topic is not None and not call.is_allowed(Operation.DELETE, ResourceType.TOPIC, known_name):
            return None, _NOT_ALLOWED
    return topic, (ErrorCode.unknown_topic_or_partition, "This server does not host this topic-partition.")


def _name_shown(call: Call, topic_id: UUID) -> str | None:
    """The name of a topic given by id, only for a client that may describe it."""
    topic = call.node.topics.image.topic_by_id(topic_id)
    if topic is None or not call.is_allowed(Operation.DESCRIBE, ResourceType.TOPIC, topic.name):
        return None
    return topic.name


def _delete(call: Call, topic: TopicDescription, answer: Any) -> None:
    if not call.may_change_partitions(topic.partition_count):
        answer(ErrorCode.throttling_quota_exceeded, QUOTA_EXCEEDED)
        return

    def deleted(_: TopicDescription) -> None:
        answer(ErrorCode.none)

    def refused(error: StreamlogError) -> None:
        answer(error.error_code, error.message)

    call.node.delete_topic(topic, on_reply=deleted, on_error=refused)
