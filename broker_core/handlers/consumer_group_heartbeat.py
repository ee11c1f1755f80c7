"""ConsumerGroupHeartbeat (68), versions 0 and 1: the only request of a KIP-848 member.

Version 1 has regular expressions, and the client chooses its member id (KIP-1082); in version 0 the coordinator
replaces an empty id. The client must be allowed to describe each named topic; a regular expression only finds such
topics."""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker_core.group.consumer.consumer_effects import ConsumerHeartbeatReply, ConsumerHeartbeatRequest
from broker_core.group.consumer_group_records import Partitions
from broker_core.handlers.call import Call
from broker_core.model.access_control import Operation, ResourceType
from broker_core.model.durations import milliseconds_of
from broker_core.model.exceptions import StreamlogError

_FIRST_VERSION_WITH_OWN_ID: Final = 1


def handle(call: Call) -> None:
    request = _request_of(call)
    if not call.is_allowed(Operation.READ, ResourceType.GROUP, request.group_id):
        call.respond(error_code=ErrorCode.group_authorization_failed)
        return
    names = sorted(request.topic_names or ())
    if not all(call.is_allowed(Operation.DESCRIBE, ResourceType.TOPIC, name) for name in names):
        call.respond(error_code=ErrorCode.topic_authorization_failed)
        return

    def answered(reply: ConsumerHeartbeatReply) -> None:
        _respond(call, reply)

    def refused(error: StreamlogError) -> None:
        call.respond(error_code=error.error_code, error_message=error.message)

    call.node.groups.of(request.group_id).request(
        lambda coordinator, ticket, now_ms: coordinator.on_consumer_heartbeat(ticket, request, now_ms),
        answered,
        refused,
    )


def _request_of(call: Call) -> ConsumerHeartbeatRequest:
    message = call.message
    names = message.subscribed_topic_names
    return ConsumerHeartbeatRequest(
        group_id=message.group_id,
        member_id=message.member_id,
        member_epoch=message.member_epoch,
        has_own_id=call.version >= _FIRST_VERSION_WITH_OWN_ID,
        instance_id=message.instance_id,
        rack_id=message.rack_id,
        rebalance_timeout_ms=milliseconds_of(message.rebalance_timeout),
        topic_names=None if names is None else frozenset(names),
        topic_regex=call.request_field("subscribed_topic_regex", None),
        server_assignor=message.server_assignor,
        owned=None if message.topic_partitions is None else _owned(message.topic_partitions),
        client_id=call.client_id,
        client_host=f"/{call.client_host}",
        sees_topic=lambda topic: call.is_allowed(Operation.DESCRIBE, ResourceType.TOPIC, topic, log_if_denied=False),
    )


def _owned(topics: Any) -> Partitions:
    """A topic may be named twice, and without partitions."""
    owned: dict[Any, frozenset[int]] = {}
    for topic in topics:
        if topic.partitions and topic.topic_id is not None:
            owned[topic.topic_id] = owned.get(topic.topic_id, frozenset()) | frozenset(topic.partitions)
    return owned


def _respond(call: Call, reply: ConsumerHeartbeatReply) -> None:
    call.respond(
        error_code=reply.error_code,
        error_message=reply.error_message,
        member_id=reply.member_id,
        member_epoch=reply.member_epoch,
        heartbeat_interval=reply.heartbeat_interval_ms,
        assignment=None if reply.assignment is None else _assignment(reply.assignment),
    )


def _assignment(partitions: Partitions) -> dict[str, Any]:
    return {
        "topic_partitions": [
            {"topic_id": topic_id, "partitions": sorted(numbers)} for topic_id, numbers in partitions.items()
        ]
    }
