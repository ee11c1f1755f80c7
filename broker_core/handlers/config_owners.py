"""Whose settings AlterConfigs and IncrementalAlterConfigs change: a topic's, a group's, this broker's, all brokers'.

An owner says what is set now, and plans a change of it. Plans run where the metadata log is changed, on the image that
is the newest there.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any, Final, Protocol

from broker_core.broker.broker_node import BrokerNode
from broker_core.broker.settings.dynamic_settings import (
    MIN_INSYNC_REPLICAS,
    changed_config,
    check_change,
    check_names,
    idle_names,
    is_changeable,
)
from broker_core.broker.settings.group_config import GROUP_SETTINGS, SERVED_PREFIX, check_group_configs
from broker_core.broker.settings.setting_layers import known_setting
from broker_core.coordinator.contract import CoordinatorResult
from broker_core.handlers.config_resources import ResourceKind, refusal_of_kind
from broker_core.metadata.config_resource import ConfigResource
from broker_core.metadata.controller import MetadataController
from broker_core.metadata.metadata_image import MetadataImage
from broker_core.metadata.metadata_records import MetadataRecord
from broker_core.model.exceptions import InvalidConfigError, InvalidRequestError, UnknownTopicError
from broker_core.model.setting_kind import SettingKind
from broker_core.model.setting_parsers import items_of
from broker_core.model.topic_name import validate_topic_name
from broker_core.model.topic_settings import SETTINGS, unknown_setting

Changes = Mapping[str, str | None]
"""New values by name; None resets to the default."""

_WHOLE_NUMBER: Final = re.compile(r"-?\d{1,10}", re.ASCII)
_log: Final = logging.getLogger(__name__)


class ConfigOwner(Protocol):
    def current(self, image: MetadataImage) -> Mapping[str, str]:
        """What it sets. Raises UnknownTopicError."""
        ...

    def knows(self, name: str) -> bool: ...

    def list_now(self, name: str, current: Mapping[str, str]) -> str | None:
        """The value that counts of a list, None for another setting. Raises InvalidConfigError for an unknown one."""
        ...

    def plan(self, controller: MetadataController, changes: Changes) -> CoordinatorResult[MetadataRecord, Any]:
        """Raises InvalidConfigError, InvalidRequestError, UnknownTopicError."""
        ...

    def on_changed(self, changes: Changes) -> None:
        """The change is durable, and counts."""
        ...

    def on_set_again(self) -> None:
        """All settings of the change have these values already: nothing was stored, and listeners were not told."""
        ...


def owner_of(node: BrokerNode, kind: int, name: str) -> ConfigOwner:
    """Raises InvalidRequestError, InvalidTopicNameError for what cannot be one."""
    if kind == ResourceKind.TOPIC:
        return _TopicOwner(node, name)
    if kind == ResourceKind.GROUP:
        return _GroupOwner(node, name)
    if kind == ResourceKind.BROKER:
        return _BrokerOwner(node, name)
    raise refusal_of_kind(kind)


class _TopicOwner:
    def __init__(self, node: BrokerNode, name: str) -> None:
        if not name:
            raise InvalidRequestError("Default topic resources are not allowed.")
        validate_topic_name(name)
        self._node = node
        self._name = name

    def current(self, image: MetadataImage) -> Mapping[str, str]:
        topic = image.topics.get(self._name)
        if topic is None:
            raise UnknownTopicError(f"The topic '{self._name}' does not exist.", topic=self._name)
        return topic.configs

    def knows(self, name: str) -> bool:
        return name in SETTINGS

    def list_now(self, name: str, current: Mapping[str, str]) -> str | None:
        if name not in SETTINGS:
            raise unknown_setting(name)
        if SETTINGS[name].kind is not SettingKind.LIST:
            return None
        if name in current:
            return current[name]
        # The topic's own value counts as it was typed, the node's as it was parsed.
        default = self._node.config.topic_defaults.configs.get(name, SETTINGS[name].default or "")
        return ",".join(dict.fromkeys(items_of(default)))

    def plan(self, controller: MetadataController, changes: Changes) -> CoordinatorResult[MetadataRecord, Any]:
        return controller.plan_alter_topic_configs(self._name, changes)

    def on_changed(self, changes: Changes) -> None:
        pass

    def on_set_again(self) -> None:
        pass


class _GroupOwner:
    """A group need not exist: its settings count when it does."""

    def __init__(self, node: BrokerNode, name: str) -> None:
        if not name:
            raise InvalidRequestError("Default group resources are not allowed.")
        self._node = node
        self._name = name

    def current(self, image: MetadataImage) -> Mapping[str, str]:
        return image.configs_of(ConfigResource.GROUP, self._name)

    def knows(self, name: str) -> bool:
        return name in GROUP_SETTINGS

    def list_now(self, name: str, current: Mapping[str, str]) -> str | None:
        return None

    def plan(self, controller: MetadataController, changes: Changes) -> CoordinatorResult[MetadataRecord, Any]:
        kept = {name: value for name, value in self.current(controller.image).items() if name not in changes}
        given = {name: value for name, value in changes.items() if value is not None}
        check_group_configs(kept | given, self._node.config)
        return controller.plan_alter_configs(ConfigResource.GROUP, self._name, changes)

    def on_changed(self, changes: Changes) -> None:
        idle = [name for name, value in changes.items() if value is not None and not name.startswith(SERVED_PREFIX)]
        if idle:
            _log.warning(
                "group=%s: %s is ignored: share and streams groups are not supported", self._name, ", ".join(idle)
            )

    def on_set_again(self) -> None:
        pass


class _BrokerOwner:
    """This broker, or with an empty name all brokers. What is wrong with a value is an invalid request, as in Kafka."""

    def __init__(self, node: BrokerNode, name: str) -> None:
        if name and not _WHOLE_NUMBER.fullmatch(name):
            raise InvalidRequestError(f"Node id must be an integer, but it is: {name}")
        if name and int(name) != node.cluster.node_id:
            raise InvalidRequestError(f"Unexpected broker id, expected {node.cluster.node_id}, but received {name}")
        self._node = node
        self._name = str(node.cluster.node_id) if name else ""

    def current(self, image: MetadataImage) -> Mapping[str, str]:
        return image.configs_of(ConfigResource.BROKER, self._name)

    def knows(self, name: str) -> bool:
        return is_changeable(name)

    def list_now(self, name: str, current: Mapping[str, str]) -> str | None:
        check_names([name], is_of_all=not self._name)
        setting = known_setting(name)
        if setting.kind is not SettingKind.LIST:
            return None
        return current.get(name, setting.default or "")

    def plan(self, controller: MetadataController, changes: Changes) -> CoordinatorResult[MetadataRecord, Any]:
        given = {name: value for name, value in changes.items() if value is not None}
        check_names(given, is_of_all=not self._name)
        stored = controller.image.broker_configs
        altered = {name: value for name, value in self.current(controller.image).items() if name not in changes} | given
        layers = {**stored, self._name: altered}
        config = self._node.config
        try:
            altered_config = changed_config(
                config, of_cluster=layers.get("", {}), of_broker=layers.get(str(self._node.cluster.node_id), {})
            )
            check_change(config, altered_config)
            self._node.check_listeners(config.listeners, altered_config.listeners)
        except InvalidConfigError as error:
            raise InvalidRequestError(error.message) from error
        self._check_min_insync_replicas(changes)
        return controller.plan_alter_configs(ConfigResource.BROKER, self._name, changes)

    def on_changed(self, changes: Changes) -> None:
        idle = idle_names(name for name, value in changes.items() if value is not None)
        if idle:
            _log.warning("%s: accepted but ignored", ", ".join(idle))

    def on_set_again(self) -> None:
        self._node.announce_settings()

    def _check_min_insync_replicas(self, changes: Changes) -> None:
        if MIN_INSYNC_REPLICAS not in changes:
            return
        if self._name:
            raise InvalidConfigError("Broker-level min.insync.replicas cannot be altered while ELR is enabled.")
        if changes[MIN_INSYNC_REPLICAS] is None:
            raise InvalidConfigError("Cluster-level min.insync.replicas cannot be removed while ELR is enabled.")
