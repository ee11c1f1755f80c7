"""ListConfigResources (74), versions 0 and 1: what has settings. Version 0 asks for client metrics only, of which there
are none here; version 1 for topics, brokers and groups too (KIP-1142). A group is listed while it sets something."""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from broker_core.handlers.call import Call
from broker_core.handlers.config_resources import ResourceKind, is_known
from broker_core.model.access_control import Operation, ResourceType


def handle(call: Call) -> None:
    if not call.is_allowed(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER):
        call.respond(error_code=ErrorCode.cluster_authorization_failed)
        return
    asked = call.request_field("resource_types", (ResourceKind.CLIENT_METRICS,)) or tuple(ResourceKind)
    if not all(map(is_known, asked)):
        call.respond(error_code=ErrorCode.unsupported_version)
        return
    resources: list[dict[str, Any]] = []
    if ResourceKind.TOPIC in asked:
        resources += [_named(name, ResourceKind.TOPIC) for name in sorted(call.node.topics.image.topics)]
    for kind in (ResourceKind.BROKER, ResourceKind.BROKER_LOGGER):
        if kind in asked:
            resources += [_named(str(broker_id), kind) for broker_id in call.node.cluster.brokers]
    if ResourceKind.GROUP in asked:
        resources += [_named(name, ResourceKind.GROUP) for name in sorted(call.node.topics.image.group_configs)]
    call.respond(config_resources=resources)


def _named(name: str, kind: ResourceKind) -> dict[str, Any]:
    return {"resource_name": name, "resource_type": int(kind)}
