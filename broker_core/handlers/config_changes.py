"""What AlterConfigs and IncrementalAlterConfigs have in common: each resource is judged and changed on its own.

Only topics can be changed. A broker's settings are those of its properties file: it says so, and changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from kio.schema.errors import ErrorCode

from broker_core.cluster import TopicDescription
from broker_core.handlers.call import Call
from broker_core.handlers.config_resources import ResourceKind, is_allowed_to_alter, refusal_of_kind
from broker_core.handlers.gathered_answers import GatheredAnswers
from broker_core.model.exceptions import InvalidRequestError, StreamlogError, UnknownTopicError
from broker_core.model.topic_name import validate_topic_name
from broker_core.protocol.api_table import ApiKey

Changes = Mapping[str, str | None]
PlanChanges = Callable[[TopicDescription, Any], Changes]
"""(the topic, the request's resource) -> new values by name, None to take one back. Raises StreamlogError."""


def alter_each(call: Call, plan: PlanChanges) -> None:
    """Answers the whole request."""
    resources = call.message.resources
    named = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    answers = GatheredAnswers(range(len(resources)), lambda responses: call.respond(responses=list(responses.values())))

    def answer(place: int, error_code: ErrorCode = ErrorCode.none, error_message: str | None = None) -> None:
        named_by = resources[place]
        answers.add(
            place,
            {
                "error_code": error_code,
                "error_message": error_message,
                "resource_type": named_by.resource_type,
                "resource_name": named_by.resource_name,
            },
        )

    for place, resource in enumerate(resources):
        if named[resource.resource_type, resource.resource_name] > 1:
            answer(place, ErrorCode.invalid_request, "Each resource must appear at most once.")
            continue
        if resource.resource_type == ResourceKind.BROKER_LOGGER and call.api_key == ApiKey.ALTER_CONFIGS:
            # Known to the incremental API only: refused before access is asked.
            answer(place, ErrorCode.invalid_request, f"Unknown resource type {resource.resource_type}")
            continue
        refusal = is_allowed_to_alter(call, resource.resource_type, resource.resource_name)
        if refusal is not None:
            answer(place, refusal)
            continue
        _alter(call, resource, plan, partial(answer, place))


def require_value(name: str, value: str | None) -> str:
    """Raises InvalidRequestError."""
    if value is None:
        raise InvalidRequestError(f"Null value not supported for : {name}")
    return value


def _alter(call: Call, resource: Any, plan: PlanChanges, answer: Any) -> None:
    def refused(error: StreamlogError) -> None:
        answer(error.error_code, error.message)

    try:
        if resource.resource_type != ResourceKind.TOPIC:
            raise _refused_resource(resource.resource_type)
        name = resource.resource_name
        if not name:
            raise InvalidRequestError("Default topic resources are not allowed.")
        validate_topic_name(name)
        topic = call.node.topics.image.topics.get(name)
        if topic is None:
            raise UnknownTopicError(f"The topic '{name}' does not exist.", topic=name)
        changes = plan(topic, resource)
        call.node.topics.check(lambda controller: controller.plan_alter_topic_configs(name, changes))
    except StreamlogError as error:
        refused(error)
        return
    if call.message.validate_only:
        answer()
        return
    call.node.topics.change(
        lambda controller: controller.plan_alter_topic_configs(name, plan(_current(controller, name), resource)),
        lambda topic: answer(),
        refused,
    )


def _current(controller: Any, name: str) -> TopicDescription:
    """As it is when the change is made: another one may have come before it."""
    topic: TopicDescription | None = controller.image.topics.get(name)
    if topic is None:
        raise UnknownTopicError(f"Topic '{name}' was deleted while its settings were changed.", topic=name)
    return topic


def _refused_resource(kind: int) -> InvalidRequestError:
    if kind in (ResourceKind.BROKER, ResourceKind.GROUP):
        return InvalidRequestError(
            f"Settings of a {ResourceKind(kind).name.lower()} cannot be changed while the broker runs: set them in its"
            " properties file and start it anew"
        )
    return refusal_of_kind(kind)
