"""Which topics and other resources of a request its sender may use: one screen for each request that names them.

CreateTopics        CREATE on the cluster, or on the topic; settings are shown with DESCRIBE_CONFIGS on the topic
DeleteTopics        DELETE and DESCRIBE on the topic. One that may not be described and came by its id is refused
                    without its name; a name that may not be described looks the same whether it exists or not
CreatePartitions    ALTER on the topic
(Incremental)AlterConfigs, DescribeConfigs    ALTER_CONFIGS, DESCRIBE_CONFIGS on the topic, the group or the cluster
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from kio.schema.errors import ErrorCode

from broker_core.controller.requests.controller_api import Values
from broker_core.metadata.config_resource import ConfigResource
from broker_core.metadata.metadata_image import MetadataImage
from broker_core.model.access_control import CLUSTER_NAME, Operation, ResourceType

_TOPIC, _GROUP, _CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
_NO_TOPIC: Final = ErrorCode.topic_authorization_failed
_NOTHING_TOLD: Final = {"num_partitions": -1, "replication_factor": -1, "configs": ()}


class Asks(Protocol):
    """Who asks (`access.Requester`)."""

    def is_allowed(
        self, operation: Operation, resource_type: ResourceType = ..., name: str = ..., *, log_if_denied: bool = ...
    ) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Screened:
    """`message`: what is left of the request; `complete` puts the rest into its answer."""

    message: Any
    complete: Callable[[Values], Values]


Screen = Callable[[MetadataImage, Asks, Any], Screened]


def _split(message: Any, field: str, is_allowed: Callable[[Any], bool]) -> tuple[Any, list[Any]]:
    """(the message with what is allowed of the field, the rest). What is there twice stays: that it is twice is said
    before anything else of it."""
    allowed: list[Any] = []
    refused: list[Any] = []
    counts = Counter(map(_key, getattr(message, field)))
    for each in getattr(message, field):
        (allowed if counts[_key(each)] > 1 or is_allowed(each) else refused).append(each)
    return replace(message, **{field: tuple(allowed)}), refused


def _key(each: Any) -> Any:
    """What one of the request is known by."""
    if isinstance(each, str):
        return each
    if hasattr(each, "resource_type"):
        return each.resource_type, each.resource_name
    return each.name, getattr(each, "topic_id", None)


def _added(field: str, refusals: Iterable[Mapping[str, Any]]) -> Callable[[Values], Values]:
    added = list(refusals)
    return lambda reply: {**reply, field: [*reply[field], *added]}


def _screen_creation(image: MetadataImage, asks: Asks, message: Any) -> Screened:
    may_create_all = asks.is_allowed(Operation.CREATE, log_if_denied=False)
    left, refused = _split(
        message, "topics", lambda topic: may_create_all or asks.is_allowed(Operation.CREATE, _TOPIC, topic.name)
    )
    add = _added(
        "topics", [{**_NOTHING_TOLD, "name": each.name, **_refused("Authorization failed.")} for each in refused]
    )

    def complete(reply: Values) -> Values:
        return {**(found := add(reply)), "topics": [_shown(asks, answer) for answer in found["topics"]]}

    return Screened(message=left, complete=complete)


def _shown(asks: Asks, answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without its settings if they may not be described."""
    if "error_code" in answer or asks.is_allowed(
        Operation.DESCRIBE_CONFIGS, _TOPIC, answer["name"], log_if_denied=False
    ):
        return answer
    return {**answer, **_NOTHING_TOLD, "topic_config_error_code": _NO_TOPIC}


def _refused(text: str = "Topic authorization failed.") -> dict[str, Any]:
    return {"error_code": _NO_TOPIC, "error_message": text}


def _screen_deletion(image: MetadataImage, asks: Asks, message: Any) -> Screened:
    may_delete_all = asks.is_allowed(Operation.DELETE, log_if_denied=False)

    def may(operation: Operation, name: str) -> bool:
        return may_delete_all or asks.is_allowed(operation, _TOPIC, name)

    def name_of(each: Any) -> str | None:
        if isinstance(each, str):
            return each
        if each.name is not None or each.topic_id is None:
            given: str | None = each.name
            return given
        found = image.topic_by_id(each.topic_id)
        return None if found is None else found.name

    def is_allowed(each: Any) -> bool:
        name = name_of(each)
        if name is None:
            return True
        is_by_id = not isinstance(each, str) and each.name is None
        if not is_by_id and not may(Operation.DESCRIBE, name):
            return False
        return name not in image.topics or may(Operation.DELETE, name)

    def refusal(each: Any) -> dict[str, Any]:
        if isinstance(each, str) or each.name is not None:
            return {"name": getattr(each, "name", each), "topic_id": None, **_refused()}
        name = name_of(each)
        is_told = name is not None and may(Operation.DESCRIBE, name)
        return {"name": name if is_told else None, "topic_id": each.topic_id, **_refused()}

    field = "topics" if hasattr(message, "topics") else "topic_names"
    left, refused = _split(message, field, is_allowed)
    return Screened(message=left, complete=_added("responses", map(refusal, refused)))


def _screen_growth(image: MetadataImage, asks: Asks, message: Any) -> Screened:
    left, refused = _split(message, "topics", lambda topic: asks.is_allowed(Operation.ALTER, _TOPIC, topic.name))
    refusals = [{"name": topic.name, "error_code": _NO_TOPIC, "error_message": None} for topic in refused]
    return Screened(message=left, complete=_added("results", refusals))


def _screen_configs(operation: Operation, field: str) -> Screen:
    def screen(image: MetadataImage, asks: Asks, message: Any) -> Screened:
        left, refused = _split(message, "resources", lambda each: asks.is_allowed(operation, *_resource(each)))
        refusals = [
            {"resource_type": each.resource_type, "resource_name": each.resource_name, **_config_refusal(each)}
            for each in refused
        ]
        return Screened(message=left, complete=_added(field, refusals))

    return screen


def _resource(each: Any) -> tuple[ResourceType, str]:
    if each.resource_type == ConfigResource.TOPIC:
        return _TOPIC, each.resource_name
    if each.resource_type == ConfigResource.GROUP:
        return _GROUP, each.resource_name
    return _CLUSTER, CLUSTER_NAME


def _config_refusal(each: Any) -> dict[str, Any]:
    kind, _ = _resource(each)
    error, what = {
        _TOPIC: (_NO_TOPIC, "Topic"),
        _GROUP: (ErrorCode.group_authorization_failed, "Group"),
    }.get(kind, (ErrorCode.cluster_authorization_failed, "Cluster"))
    return {"error_code": error, "error_message": f"{what} authorization failed."}


SCREENS: Final[Mapping[int, Screen]] = {
    19: _screen_creation,
    20: _screen_deletion,
    32: _screen_configs(Operation.DESCRIBE_CONFIGS, "results"),
    33: _screen_configs(Operation.ALTER_CONFIGS, "responses"),
    37: _screen_growth,
    44: _screen_configs(Operation.ALTER_CONFIGS, "responses"),
}
"""By API key."""
