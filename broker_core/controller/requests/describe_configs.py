"""DescribeConfigs (32), versions 1 to 4: settings as the metadata log has them, with where they come from.

    topic     all settings of topics: its own, the default of all brokers, Kafka's
    broker    "" for what all brokers were given while they run; the id of this controller for what it decides with
    group     what a group was given

Left out on purpose: loggers and client metrics, other nodes (INVALID_REQUEST), and documentation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker_core.controller.cluster_controller import ClusterController
from broker_core.controller.cluster_facts import MIN_INSYNC_REPLICAS, ClusterDefaults, ClusterFacts
from broker_core.controller.requests.controller_api import ControllerApi, Planned, Values
from broker_core.coordinator.contract import CoordinatorResult
from broker_core.metadata.config_resource import ConfigResource
from broker_core.model.exceptions import InvalidRequestError, StreamlogError, UnknownTopicError
from broker_core.model.setting_kind import SettingKind, shown_value
from broker_core.model.topic_defaults import TOPIC_SYNONYMS
from broker_core.model.topic_name import validate_topic_name
from broker_core.model.topic_settings import SETTINGS, Setting

_OF_TOPIC, _OF_BROKER, _OF_ALL_BROKERS, _OF_FILE, _OF_NOBODY, _OF_GROUP = 1, 2, 3, 4, 5, 8
"""Kafka's numbers for where a value comes from."""
_SHOWN_IF_GIVEN: Final = frozenset({"flush.policy", "internal.segment.bytes"})

_READ_ONLY: Final = frozenset({"broker.session.timeout.ms", "default.replication.factor", "num.partitions"})

_WITHOUT_SECRETS: Final = (
    "background.threads", "broker.session.timeout.ms", "compression.", "default.replication.factor",
    "follower.replication.throttled.", "flush.policy", "leader.replication.throttled.", "log.", "max.connection",
    "message.max.bytes", "min.insync.replicas", "num.", "producer.id.expiration.ms", "unclean.leader.election.enable",
)  # fmt: skip
"""How settings of brokers begin that are shown. The value of any other may be a secret, such as ssl.keystore.key."""

_Found = tuple[str, str, int]
"""Name, value and source of one place that has a say."""


def _plan(controller: ClusterController, message: Any, now_ms: int) -> Planned:
    return CoordinatorResult(reply={"results": [_described(controller, message, each) for each in message.resources]})


def _described(controller: ClusterController, message: Any, asked: Any) -> dict[str, Any]:
    named = {"resource_type": asked.resource_type, "resource_name": asked.resource_name}
    try:
        configs = list(_configs(controller, asked.resource_type, asked.resource_name))
    except StreamlogError as error:
        return named | {"error_code": error.error_code, "error_message": error.message}
    if asked.configuration_keys:
        configs = [each for each in configs if each["name"] in asked.configuration_keys]
    if not message.include_synonyms:
        configs = [{**each, "synonyms": []} for each in configs]
    return named | {"error_message": "", "configs": configs}


def _configs(controller: ClusterController, kind: int, name: str) -> Iterable[dict[str, Any]]:
    facts = controller.facts
    if kind == ConfigResource.TOPIC:
        validate_topic_name(name)
        if name not in facts.image.topics:
            raise UnknownTopicError("This server does not host this topic-partition.", topic=name)
        configs = facts.image.configs_of(ConfigResource.TOPIC, name)
        return [_topic_answer(facts, each, configs) for each in SETTINGS.values() if _is_shown(each, configs)]
    if kind == ConfigResource.GROUP:
        if not name:
            raise InvalidRequestError("Group name must not be empty")
        given = facts.image.configs_of(ConfigResource.GROUP, name)
        return [_answer(setting, [(setting, value, _OF_GROUP)]) for setting, value in sorted(given.items())]
    if kind != ConfigResource.BROKER:
        raise InvalidRequestError(f"settings of resource type {kind} are not supported")
    of_all = {setting: (setting, value, _OF_ALL_BROKERS) for setting, value in _stored(facts, "").items()}
    if not name:
        return [_answer(setting, [found]) for setting, found in sorted(of_all.items())]
    own_id = controller.own_id
    if name != str(own_id):
        raise InvalidRequestError(f"Unexpected broker id, expected {own_id} or empty string, but received {name}")
    return _own_answers(facts, name, of_all)


def _own_answers(facts: ClusterFacts, name: str, of_all: Mapping[str, _Found]) -> list[dict[str, Any]]:
    of_node = {setting: (setting, value, _OF_BROKER) for setting, value in _stored(facts, name).items()}
    of_file = dict(_of_file(facts.defaults))
    layers = (of_node, of_all, of_file)
    names = sorted({setting for layer in layers for setting in layer})
    return [
        _answer(
            setting,
            [layer[setting] for layer in layers if setting in layer],
            is_read_only=setting in _READ_ONLY,
        )
        for setting in names
    ]


def _of_file(defaults: ClusterDefaults) -> Iterable[tuple[str, _Found]]:
    kafkas = ClusterDefaults()
    for setting, field in (
        ("broker.session.timeout.ms", "session_timeout_ms"),
        ("default.replication.factor", "replication_factor"),
        (MIN_INSYNC_REPLICAS, "min_insync_replicas"),
        ("num.partitions", "partition_count"),
        ("unclean.leader.election.enable", "is_unclean_allowed"),
    ):
        value = getattr(defaults, field)
        source = _OF_NOBODY if value == getattr(kafkas, field) else _OF_FILE
        yield setting, (setting, str(value).lower(), source)


def _stored(facts: ClusterFacts, name: str) -> Mapping[str, str]:
    return facts.image.configs_of(ConfigResource.BROKER, name)


def _is_shown(setting: Setting, configs: Mapping[str, str]) -> bool:
    return setting.name not in _SHOWN_IF_GIVEN or setting.name in configs


def _topic_answer(facts: ClusterFacts, setting: Setting, configs: Mapping[str, str]) -> dict[str, Any]:
    found: list[_Found] = []
    if setting.name in configs:
        found.append((setting.name, configs[setting.name], _OF_TOPIC))
    synonyms = TOPIC_SYNONYMS.get(setting.name, ())
    for synonym in synonyms[:1]:
        defaults = _stored(facts, "")
        if synonym in defaults:
            found.append((synonym, defaults[synonym], _OF_ALL_BROKERS))
        # Of several the last has the default (log.retention.hours), which DescribeConfigs does not tell.
        if setting.default is not None and len(synonyms) == 1:
            found.append((synonym, setting.default, _OF_NOBODY))
    if found:
        return _answer(setting.name, found, kind=setting.kind)
    return {
        **_answer(setting.name, [(setting.name, setting.default or "", _OF_NOBODY)], kind=setting.kind),
        "synonyms": [],
    }


def _answer(
    name: str, found: list[_Found], *, kind: SettingKind = SettingKind.STRING, is_read_only: bool = False
) -> dict[str, Any]:
    """The first place counts. Secrets are never shown."""
    is_secret = found[0][2] in (_OF_BROKER, _OF_ALL_BROKERS) and not found[0][0].startswith(_WITHOUT_SECRETS)
    values = [None if is_secret else shown_value(kind, value) for _, value, _ in found]
    return {
        "name": name,
        "value": values[0],
        "read_only": is_read_only,
        "config_source": found[0][2],
        "is_sensitive": is_secret,
        "synonyms": [
            {"name": each, "value": value, "source": place}
            for (each, _, place), value in zip(found, values, strict=True)
        ],
        "config_type": kind,
        "documentation": None,
    }


def _refuse(message: Any, error_code: ErrorCode, text: str) -> Values:
    return {
        "results": [
            {
                "resource_type": each.resource_type,
                "resource_name": each.resource_name,
                "error_code": error_code,
                "error_message": text,
            }
            for each in message.resources
        ]
    }


API: Final = ControllerApi(key=32, versions=range(1, 5), plan=_plan, refuse=_refuse)
