"""The state of the metadata log: topics and brokers with their settings, users, access rules, the next producer id.

The image is a fold over the log's records. Only `replay` changes it, so an image that was updated record by record
while running equals one that was replayed from the log's start. Records between a begin and an end marker (KIP-866)
take effect when the end arrives, and never after an abort marker.

Look-ups, all in one step: a topic by name, by id, and by its name with `.` folded to `_`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from uuid import UUID

from broker_core.cluster import TopicDescription
from broker_core.metadata.access_control_list import AccessControlList
from broker_core.metadata.config_resource import ConfigResource
from broker_core.metadata.metadata_records import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from broker_core.metadata.metadata_version import METADATA_VERSION_FEATURE
from broker_core.metadata.scram_credentials import ScramCredentials
from broker_core.model.topic_name import folded_name, is_internal_topic


class MetadataImage:
    """The fold. Returned descriptions never change; a changed topic gets a new one."""

    def __init__(self) -> None:
        self._topics: dict[str, TopicDescription] = {}
        self._names_by_id: dict[UUID, str] = {}
        self._names_by_folded_name: dict[str, str] = {}
        self._removed_topic_ids: set[UUID] = set()
        self._configs: dict[int, Mapping[str, Mapping[str, str]]] = {
            ConfigResource.BROKER: {},
            ConfigResource.GROUP: {},
        }
        self.scram_credentials = ScramCredentials()
        self.access_control = AccessControlList()
        self._next_producer_id = 0
        self._metadata_version: int | None = None
        self._blocked: list[MetadataRecord] | None = None

    @property
    def topics(self) -> Mapping[str, TopicDescription]:
        """By name."""
        return MappingProxyType(self._topics)

    @property
    def broker_configs(self) -> Mapping[str, Mapping[str, str]]:
        """Dynamic settings by broker id as text; "" holds the defaults for all brokers. The same object until one of
        them changes."""
        return self._configs[ConfigResource.BROKER]

    @property
    def group_configs(self) -> Mapping[str, Mapping[str, str]]:
        """Settings of groups that have any, by group."""
        return self._configs[ConfigResource.GROUP]

    def configs_of(self, resource: ConfigResource, name: str) -> Mapping[str, str]:
        """What a topic, a broker or a group sets; nothing where it is not known."""
        if resource is ConfigResource.TOPIC:
            topic = self._topics.get(name)
            return {} if topic is None else topic.configs
        return self._configs[resource].get(name, {})

    @property
    def next_producer_id(self) -> int:
        """All smaller producer ids are assigned."""
        return self._next_producer_id

    @property
    def metadata_version(self) -> int | None:
        """The level of the log's format; None before the log's first record."""
        return self._metadata_version

    def topic_by_id(self, topic_id: UUID) -> TopicDescription | None:
        name = self._names_by_id.get(topic_id)
        return None if name is None else self._topics[name]

    def topic_that_collides(self, name: str) -> str | None:
        """Another topic whose name equals `name` if `.` and `_` are treated as equal."""
        other = self._names_by_folded_name.get(folded_name(name))
        return None if other == name else other

    def was_removed(self, topic_id: UUID) -> bool:
        """Whether a topic with this id existed and was deleted: its folders can be removed."""
        return topic_id in self._removed_topic_ids

    def replay(self, record: MetadataRecord) -> None:
        """Applies one committed record; types that the image does not use change nothing."""
        if isinstance(record, BeginTransactionRecord | EndTransactionRecord | AbortTransactionRecord):
            self._replay_transaction(record)
        elif self._blocked is not None:
            self._blocked.append(record)
        else:
            self._replay_now(record)

    def _replay_transaction(
        self, record: BeginTransactionRecord | EndTransactionRecord | AbortTransactionRecord
    ) -> None:
        blocked, self._blocked = self._blocked, None
        if isinstance(record, BeginTransactionRecord):
            self._blocked = []
        elif isinstance(record, EndTransactionRecord):
            for held_record in blocked or ():
                self._replay_now(held_record)

    def _replay_now(self, record: MetadataRecord) -> None:
        match record:
            case TopicRecord():
                self._add_topic(record)
            case PartitionRecord():
                self._add_partition(record)
            case ConfigRecord():
                self._set_config(record)
            case RemoveTopicRecord():
                self._remove_topic(record)
            case ProducerIdsRecord():
                self._next_producer_id = record.next_producer_id
            case UserScramCredentialRecord() | RemoveUserScramCredentialRecord():
                self.scram_credentials.replay(record)
            case AccessControlEntryRecord() | RemoveAccessControlEntryRecord():
                self.access_control.replay(record)
            case FeatureLevelRecord():
                if record.name == METADATA_VERSION_FEATURE:
                    self._metadata_version = record.feature_level
            case _:
                pass

    def _add_topic(self, record: TopicRecord) -> None:
        self._topics[record.name] = TopicDescription(
            name=record.name,
            topic_id=record.topic_id,
            partition_count=0,
            is_internal=is_internal_topic(record.name),
        )
        self._names_by_id[record.topic_id] = record.name
        self._names_by_folded_name[folded_name(record.name)] = record.name

    def _add_partition(self, record: PartitionRecord) -> None:
        topic = self.topic_by_id(record.topic_id)
        if topic is not None and record.partition_id >= topic.partition_count:
            self._topics[topic.name] = replace(topic, partition_count=record.partition_id + 1)

    def _set_config(self, record: ConfigRecord) -> None:
        if record.resource_type in self._configs:
            self._set_config_of_other(record)
            return
        topic = self._topics.get(record.resource_name)
        if topic is None or record.resource_type != ConfigResource.TOPIC:
            return
        configs = dict(topic.configs)
        if record.value is None:
            configs.pop(record.name, None)
        else:
            configs[record.name] = record.value
        self._topics[topic.name] = replace(topic, configs=configs)

    def _set_config_of_other(self, record: ConfigRecord) -> None:
        """Of a broker or a group. What was handed out before stays as it was."""
        of_all = dict(self._configs[record.resource_type])
        configs = dict(of_all.pop(record.resource_name, {}))
        if record.value is None:
            configs.pop(record.name, None)
        else:
            configs[record.name] = record.value
        if configs:
            of_all[record.resource_name] = configs
        self._configs[record.resource_type] = of_all

    def _remove_topic(self, record: RemoveTopicRecord) -> None:
        self._removed_topic_ids.add(record.topic_id)
        name = self._names_by_id.pop(record.topic_id, None)
        if name is not None:
            del self._topics[name]
            self._names_by_folded_name.pop(folded_name(name), None)
