"""Settings of topics, brokers and groups are changed, one resource at a time, as plans.

While the feature eligible.leader.replicas is on, the cluster has one default of min.insync.replicas that every node
knows: it cannot be removed, and brokers cannot have their own. Where that setting changes, what was eligible before is
forgotten (ClearElr).
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from broker_core.controller.cluster_facts import MIN_INSYNC_REPLICAS, ClusterFacts
from broker_core.coordinator.contract import CoordinatorResult
from broker_core.metadata.config_resource import ConfigResource
from broker_core.metadata.metadata_records import ClearElrRecord, ConfigRecord, MetadataRecord
from broker_core.model.exceptions import InvalidConfigError, InvalidRequestError, UnknownTopicError
from broker_core.model.limits import MAX_CONFIG_VALUE_CHARACTERS
from broker_core.model.list_changes import appended, subtracted
from broker_core.model.setting_kind import SettingKind
from broker_core.model.topic_config import TopicConfig
from broker_core.model.topic_name import validate_topic_name
from broker_core.model.topic_settings import SETTINGS, unknown_setting

_WHOLE_NUMBER: Final = re.compile(r"-?\d{1,10}", re.ASCII)


class ConfigOperation(enum.IntEnum):
    """Kafka's numbers (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    name: str
    operation: ConfigOperation = ConfigOperation.SET
    value: str | None


def plan_config_changes(
    facts: ClusterFacts, resource: ConfigResource, name: str, changes: Sequence[ConfigChange]
) -> CoordinatorResult[MetadataRecord, None]:
    """Single settings; the others stay. Raises StreamlogError, whose `error_code` and message are the answer."""
    current = _current(facts, resource, name)
    wanted: dict[str, str | None] = {}
    for change in changes:
        if change.name in wanted:
            raise InvalidRequestError("Error due to duplicate config keys")
        wanted[change.name] = _value_of(resource, current, change)
    return _planned(facts, resource, name, wanted)


def plan_config_replacement(
    facts: ClusterFacts, resource: ConfigResource, name: str, configs: Mapping[str, str | None]
) -> CoordinatorResult[MetadataRecord, None]:
    """These settings and no others (AlterConfigs)."""
    current = _current(facts, resource, name)
    for setting, value in configs.items():
        if value is None:
            raise InvalidRequestError(f"Null value not supported for : {setting}")
    gone = {setting: None for setting in current if setting not in configs}
    return _planned(facts, resource, name, {**configs, **gone})


def _current(facts: ClusterFacts, resource: ConfigResource, name: str) -> Mapping[str, str]:
    if resource is ConfigResource.TOPIC:
        if not name:
            raise InvalidRequestError("Default topic resources are not allowed.")
        validate_topic_name(name)
        if name not in facts.image.topics:
            raise UnknownTopicError(f"The topic '{name}' does not exist.", topic=name)
    elif resource is ConfigResource.GROUP:
        if not name:
            raise InvalidRequestError("Default group resources are not allowed.")
    elif name and not _WHOLE_NUMBER.fullmatch(name):
        raise InvalidRequestError(f"Node id must be an integer, but it is: {name}")
    return facts.image.configs_of(resource, name)


def _value_of(resource: ConfigResource, current: Mapping[str, str], change: ConfigChange) -> str | None:
    if change.operation is ConfigOperation.DELETE:
        return None
    if change.value is None:
        raise InvalidRequestError(f"Null value not supported for : {change.name}")
    if change.operation is ConfigOperation.SET:
        return change.value
    now = _list_now(resource, current, change)
    return (appended if change.operation is ConfigOperation.APPEND else subtracted)(now, change.value)


def _list_now(resource: ConfigResource, current: Mapping[str, str], change: ConfigChange) -> str:
    setting = SETTINGS.get(change.name) if resource is ConfigResource.TOPIC else None
    if setting is None or setting.kind is not SettingKind.LIST:
        raise InvalidConfigError(
            f"Can't {change.operation.name} to key {change.name} because its type is not LIST.", setting=change.name
        )
    return current.get(change.name, setting.default or "")


def _planned(
    facts: ClusterFacts, resource: ConfigResource, name: str, wanted: Mapping[str, str | None]
) -> CoordinatorResult[MetadataRecord, None]:
    current = facts.image.configs_of(resource, name)
    _check(facts, resource, name, wanted)
    records: list[MetadataRecord] = [
        ConfigRecord(resource_type=resource, resource_name=name, name=setting, value=value)
        for setting, value in wanted.items()
        if current.get(setting) != value
    ]
    is_size_changed = any(isinstance(record, ConfigRecord) and record.name == MIN_INSYNC_REPLICAS for record in records)
    if is_size_changed and facts.has_eligible_leaders and resource is not ConfigResource.GROUP:
        records.append(ClearElrRecord(topic_name=name))
    return CoordinatorResult(records=tuple(records), reply=None)


def _check(facts: ClusterFacts, resource: ConfigResource, name: str, wanted: Mapping[str, str | None]) -> None:
    for setting, value in wanted.items():
        if value is not None and len(value) > MAX_CONFIG_VALUE_CHARACTERS:
            raise InvalidConfigError(
                f"The configuration value of {setting} has more than {MAX_CONFIG_VALUE_CHARACTERS} characters.",
                setting=setting,
            )
    if resource is ConfigResource.TOPIC:
        current = facts.image.configs_of(resource, name)
        for setting, value in wanted.items():
            if setting not in SETTINGS and value is not None:
                raise unknown_setting(setting)
        kept = {setting: value for setting, value in current.items() if setting not in wanted and setting in SETTINGS}
        given = {setting: value for setting, value in wanted.items() if value is not None}
        TopicConfig.from_strings(kept | given)
    elif resource is ConfigResource.BROKER and MIN_INSYNC_REPLICAS in wanted:
        _check_min_insync_replicas(facts, name, wanted[MIN_INSYNC_REPLICAS])


def _check_min_insync_replicas(facts: ClusterFacts, name: str, value: str | None) -> None:
    if not facts.has_eligible_leaders:
        return
    if name:
        raise InvalidConfigError("Broker-level min.insync.replicas cannot be altered while ELR is enabled.")
    if value is None:
        raise InvalidConfigError("Cluster-level min.insync.replicas cannot be removed while ELR is enabled.")
    SETTINGS[MIN_INSYNC_REPLICAS].parse(value)
