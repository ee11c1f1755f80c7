"""DescribeConfigs (32), versions 1 to 4: settings of topics, of this broker, and of groups, with where they come from.

A broker is named by its id, or by "" for what all brokers were given while they run. Secrets are never shown.

Left out on purpose: loggers and client metrics (INVALID_REQUEST).
"""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from broker_core.broker.broker_description import describe_broker, describe_cluster_defaults
from broker_core.handlers.call import Call
from broker_core.handlers.config_answers import broker_answer, group_answers, topic_answers
from broker_core.handlers.config_resources import ResourceKind, is_allowed_to_describe, refusal_of_kind
from broker_core.model.exceptions import InvalidRequestError, StreamlogError
from broker_core.model.topic_name import validate_topic_name


def handle(call: Call) -> None:
    call.respond(results=[_described(call, resource) for resource in call.message.resources])


def _described(call: Call, resource: Any) -> dict[str, Any]:
    named = {"resource_type": resource.resource_type, "resource_name": resource.resource_name}
    refused = is_allowed_to_describe(call, resource.resource_type, resource.resource_name)
    if refused is not None:
        return named | {"error_code": refused}
    try:
        configs = _configs(call, resource.resource_type, resource.resource_name)
    except StreamlogError as error:
        return named | {"error_code": error.error_code, "error_message": error.message}
    asked = resource.configuration_keys
    if asked:
        configs = [config for config in configs if config["name"] in set(asked)]
    for config in configs:
        if not call.request_field("include_synonyms", False):
            config["synonyms"] = []
        if not call.request_field("include_documentation", False):
            config["documentation"] = None
    return named | {"error_code": ErrorCode.none, "error_message": "", "configs": configs}


def _configs(call: Call, kind: int, name: str) -> list[dict[str, Any]]:
    if kind == ResourceKind.TOPIC:
        validate_topic_name(name)
        return topic_answers(call.node, call.node.topics.topic(name).configs)
    if kind == ResourceKind.BROKER:
        return _broker_answers(call, name)
    if kind == ResourceKind.GROUP:
        if name == "":
            raise InvalidRequestError("Group name must not be empty")
        return group_answers(call.node, call.node.topics.image.group_configs.get(name, {}))
    raise refusal_of_kind(kind)


def _broker_answers(call: Call, name: str) -> list[dict[str, Any]]:
    config = call.node.config
    if name == "":
        return [broker_answer(setting) for setting in describe_cluster_defaults(config.layers.of_cluster)]
    node_id = call.node.cluster.node_id
    if name != str(node_id):
        raise InvalidRequestError(f"Unexpected broker id, expected {node_id} or empty string, but received {name}")
    return [broker_answer(setting) for setting in describe_broker(config)]
