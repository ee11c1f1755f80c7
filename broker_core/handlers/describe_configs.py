"""DescribeConfigs (32), versions 1 to 4: settings of topics, of this broker, and of groups, with where they come from.

A broker is named by its id, or by "" for what counts for all brokers: nothing is set there. Secrets are never shown.

Left out on purpose: loggers and client metrics (INVALID_REQUEST).
"""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker_core.broker.broker_description import DescribedSetting, describe_broker
from broker_core.broker.settings.broker_settings import SettingKind
from broker_core.handlers.call import Call
from broker_core.handlers.config_answers import DEFAULT, OF_BROKER_FILE, topic_config_answers
from broker_core.handlers.config_resources import ResourceKind, is_allowed_to_describe, refusal_of_kind
from broker_core.model.exceptions import InvalidRequestError, StreamlogError
from broker_core.model.topic_name import validate_topic_name

_GROUP_SETTINGS: Final = (
    ("consumer.heartbeat.interval.ms", "group_consumer_heartbeat_interval_ms"),
    ("consumer.session.timeout.ms", "group_consumer_session_timeout_ms"),
)


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
    return named | {"error_code": ErrorCode.none, "error_message": "", "configs": configs}


def _configs(call: Call, kind: int, name: str) -> list[dict[str, Any]]:
    with_synonyms = call.request_field("include_synonyms", False)
    if kind == ResourceKind.TOPIC:
        validate_topic_name(name)
        topic = call.node.topics.topic(name)
        return topic_config_answers(call.node, topic.configs, with_synonyms=with_synonyms)
    if kind == ResourceKind.BROKER:
        if name == "":
            return []
        if name != str(call.node.node_id):
            raise InvalidRequestError(
                f"Unexpected broker id, expected {call.node.node_id} or empty string, but received {name}"
            )
        with_text = call.request_field("include_documentation", False)
        return [
            _broker_answer(setting, with_synonyms=with_synonyms, with_text=with_text)
            for setting in describe_broker(call.node.config)
        ]
    if kind == ResourceKind.GROUP:
        if name == "":
            raise InvalidRequestError("Group name must not be empty")
        return [_group_answer(call, setting, attribute) for setting, attribute in _GROUP_SETTINGS]
    raise refusal_of_kind(kind)


def _broker_answer(setting: DescribedSetting, *, with_synonyms: bool, with_text: bool) -> dict[str, Any]:
    source = OF_BROKER_FILE if setting.is_given else DEFAULT
    synonyms = []
    if with_synonyms:
        given = [{"name": setting.name, "value": setting.value, "source": OF_BROKER_FILE}] if setting.is_given else []
        has_default = setting.default is not None
        default = [{"name": setting.name, "value": setting.default, "source": DEFAULT}] if has_default else []
        synonyms = given + default
    return {
        "name": setting.name,
        "value": setting.value,
        "read_only": setting.is_read_only,
        "config_source": source,
        "is_sensitive": setting.is_sensitive,
        "synonyms": synonyms,
        "config_type": setting.kind.value,
        "documentation": setting.doc if with_text else None,
    }


def _group_answer(call: Call, name: str, attribute: str) -> dict[str, Any]:
    return {
        "name": name,
        "value": str(getattr(call.node.config, attribute)),
        "config_source": DEFAULT,
        "config_type": SettingKind.INT.value,
        "documentation": None,
    }
