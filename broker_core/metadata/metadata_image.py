"""The state of the metadata log: features, brokers, topics with their partitions, settings, quotas, users, access
rules, delegation tokens, the next producer id.

The image is a fold over the log's records. Only `replay` changes it, so an image that was updated record by record
while running equals one that was replayed from the log's start, on every node that replayed to the same offset. Records
between a begin and an end marker (KIP-866) take effect when the end arrives, and never after an abort marker. A record
that contradicts the image is refused with InconsistentMetadataError and changes nothing.

Look-ups, all in one step: a topic by name, by id, and by its name with `.` folded to `_`; a partition by topic and
number; the partitions that a broker holds or leads (`partitions`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final
from uuid import UUID

from broker_core.cluster import TopicDescription
from broker_core.metadata.access_control_list import AccessControlList
from broker_core.metadata.client_quotas import ClientQuotas
from broker_core.metadata.cluster_registrations import BrokerRecord, ClusterRegistrations
from broker_core.metadata.config_resource import ConfigResource
from broker_core.metadata.metadata_records import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)
from broker_core.metadata.metadata_version import KRAFT_VERSION_FEATURE, METADATA_VERSION_FEATURE
from broker_core.metadata.partition_state import PartitionState, changed_state, created_state
from broker_core.metadata.partition_table import PartitionTable
from broker_core.metadata.scram_credentials import ScramCredentials
from broker_core.model.exceptions import InconsistentMetadataError
from broker_core.model.topic_name import folded_name, is_internal_topic

_TransactionRecord = BeginTransactionRecord | EndTransactionRecord | AbortTransactionRecord

_NO_CONFIGS: Final[Mapping[str, str]] = MappingProxyType({})


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
        self._topic_configs: dict[str, Mapping[str, str]] = {}
        self._features: dict[str, int] = {}
        self._tokens: dict[str, DelegationTokenRecord] = {}
        self.partitions = PartitionTable()
        self.registrations = ClusterRegistrations()
        self.client_quotas = ClientQuotas()
        self.scram_credentials = ScramCredentials()
        self.access_control = AccessControlList()
        self._next_producer_id: int | None = None
        self._blocked: list[MetadataRecord] | None = None

    @property
    def topics(self) -> Mapping[str, TopicDescription]:
        """By name."""
        return MappingProxyType(self._topics)

    @property
    def features(self) -> Mapping[str, int]:
        """The finalized level of each feature that has one, `metadata.version` among them."""
        return MappingProxyType(self._features)

    @property
    def delegation_tokens(self) -> Mapping[str, DelegationTokenRecord]:
        """By token id."""
        return MappingProxyType(self._tokens)

    @property
    def config_types(self) -> list[int]:
        """The resource types that have settings, by Kafka's numbers; also those that have no name here."""
        return sorted({*self._configs, ConfigResource.TOPIC})

    def configs_of_type(self, resource_type: int) -> Mapping[str, Mapping[str, str]]:
        """Settings by resource; also those of topics that do not exist."""
        if resource_type == ConfigResource.TOPIC:
            return MappingProxyType(self._topic_configs)
        return self._configs.get(resource_type, {})

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
        return self.configs_of_type(resource).get(name, _NO_CONFIGS)

    @property
    def next_producer_id(self) -> int:
        """All smaller producer ids are assigned."""
        return self._next_producer_id or 0

    @property
    def has_producer_ids(self) -> bool:
        """Whether any block of producer ids was ever assigned."""
        return self._next_producer_id is not None

    @property
    def metadata_version(self) -> int | None:
        """The level of the log's format; None before the log's first record."""
        return self._features.get(METADATA_VERSION_FEATURE)

    @property
    def is_in_transaction(self) -> bool:
        """Whether records wait for the end of their transaction: a snapshot made now would lack them."""
        return self._blocked is not None

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

    def partition(self, topic_id: UUID, number: int) -> PartitionState | None:
        """The partition as it is now, as a value of its own."""
        row = self.partitions.row_of(topic_id, number)
        return None if row is None else self.partitions.state_at(row)

    def __eq__(self, other: object) -> bool:
        """Whether both say the same of the cluster; which topics were removed before does not count."""
        return isinstance(other, MetadataImage) and self._content() == other._content()

    __hash__ = None  # type: ignore[assignment]  # it changes

    def _content(self) -> tuple[object, ...]:
        configs = {kind: of_all for kind, of_all in self._configs.items() if of_all}
        return (
            *(self._topics, self._topic_configs, configs, self._features, self._tokens, self.partitions),
            *(self.registrations, self.client_quotas, self.scram_credentials, self.access_control),
            *(self._next_producer_id, self._blocked),
        )

    def copy(self) -> MetadataImage:
        """An image that goes its own way: to plan on, or to write a snapshot of while this one moves on."""
        other = MetadataImage()
        other._topics, other._names_by_id = self._topics.copy(), self._names_by_id.copy()
        other._names_by_folded_name = self._names_by_folded_name.copy()
        other._removed_topic_ids = self._removed_topic_ids.copy()
        other._configs, other._topic_configs = self._configs.copy(), self._topic_configs.copy()
        other._features, other._tokens = self._features.copy(), self._tokens.copy()
        other.partitions, other.registrations = self.partitions.copy(), self.registrations.copy()
        other.client_quotas, other.scram_credentials = self.client_quotas.copy(), self.scram_credentials.copy()
        other.access_control = self.access_control.copy()
        other._next_producer_id = self._next_producer_id
        other._blocked = None if self._blocked is None else self._blocked[:]
        return other

    def replay(self, record: MetadataRecord) -> None:
        """Applies one committed record. Raises InconsistentMetadataError if it contradicts the image."""
        if isinstance(record, _TransactionRecord):
            self._replay_transaction(record)
        elif self._blocked is not None:
            self._blocked.append(record)
        else:
            self._replay_now(record)

    def _replay_transaction(self, record: _TransactionRecord) -> None:
        blocked, self._blocked = self._blocked, None
        if isinstance(record, BeginTransactionRecord):
            self._blocked = []
        elif isinstance(record, EndTransactionRecord):
            for held_record in blocked or ():
                self._replay_now(held_record)

    def _replay_now(self, record: MetadataRecord) -> None:
        match record:
            case NoOpRecord() | ZkMigrationStateRecord():
                pass
            case PartitionChangeRecord():
                self._change_partition(record)
            case PartitionRecord():
                self._add_partition(record)
            case TopicRecord():
                self._add_topic(record)
            case ConfigRecord():
                self._set_config(record)
            case RemoveTopicRecord():
                self._remove_topic(record)
            case ClearElrRecord():
                self._clear_eligible_leaders(record.topic_name)
            case _:
                self._replay_outside_topics(record)

    def _replay_outside_topics(self, record: MetadataRecord) -> None:
        match record:
            case FeatureLevelRecord():
                self._set_feature(record)
            case ProducerIdsRecord():
                self._next_producer_id = record.next_producer_id
            case ClientQuotaRecord():
                self.client_quotas.replay(record)
            case UserScramCredentialRecord() | RemoveUserScramCredentialRecord():
                self.scram_credentials.replay(record)
            case RemoveAccessControlEntryRecord() if record.id not in self.access_control.rules:
                raise InconsistentMetadataError(f"access rule {record.id} is removed, which does not exist")
            case AccessControlEntryRecord() | RemoveAccessControlEntryRecord():
                self.access_control.replay(record)
            case DelegationTokenRecord():
                self._tokens[record.token_id] = record
            case RemoveDelegationTokenRecord():
                self._tokens.pop(record.token_id, None)
            case _:
                assert isinstance(record, BrokerRecord), record
                self.registrations.replay(record)

    def _set_feature(self, record: FeatureLevelRecord) -> None:
        if record.name == KRAFT_VERSION_FEATURE:
            return
        if record.feature_level or record.name == METADATA_VERSION_FEATURE:
            self._features[record.name] = record.feature_level
        else:
            self._features.pop(record.name, None)

    def _add_topic(self, record: TopicRecord) -> None:
        existing = self._topics.get(record.name)
        if existing is not None and existing.topic_id != record.topic_id:
            raise InconsistentMetadataError(f"topic {record.name} is created while another one has its name")
        self.partitions.add_topic(record.topic_id)
        self._topics[record.name] = TopicDescription(
            name=record.name,
            topic_id=record.topic_id,
            partition_count=0,
            configs=self._topic_configs.get(record.name, {}),
            is_internal=is_internal_topic(record.name),
        )
        self._names_by_id[record.topic_id] = record.name
        self._names_by_folded_name[folded_name(record.name)] = record.name

    def _add_partition(self, record: PartitionRecord) -> None:
        topic = self.topic_by_id(record.topic_id)
        if topic is None:
            raise InconsistentMetadataError(
                f"partition {record.partition_id} of topic {record.topic_id}, which is unknown"
            )
        self.partitions.put(record.topic_id, record.partition_id, created_state(record))
        if record.partition_id >= topic.partition_count:
            self._topics[topic.name] = replace(topic, partition_count=record.partition_id + 1)

    def _change_partition(self, record: PartitionChangeRecord) -> None:
        row = self.partitions.row_of(record.topic_id, record.partition_id)
        if row is None:
            raise InconsistentMetadataError(
                f"a change of partition {record.partition_id} of topic {record.topic_id}, which does not exist"
            )
        self.partitions.change(row, record)

    def _clear_eligible_leaders(self, name: str) -> None:
        """Of one topic, or with "" of all; every partition that had any counts it as a change."""
        if name and name not in self._topics:
            raise InconsistentMetadataError(f"eligible leaders of topic {name} are cleared, which does not exist")
        topics = [self._topics[name]] if name else list(self._topics.values())
        for topic in topics:
            for number, row in self.partitions.rows_of(topic.topic_id):
                state = self.partitions.state_at(row)
                if state.eligible_leader_replicas or state.last_known_elr:
                    cleared = PartitionChangeRecord(
                        partition_id=number, topic_id=topic.topic_id, eligible_leader_replicas=(), last_known_elr=()
                    )
                    self.partitions.put(topic.topic_id, number, changed_state(state, cleared))

    def _set_config(self, record: ConfigRecord) -> None:
        """What was handed out before stays as it was."""
        if record.resource_type == ConfigResource.TOPIC:
            self._set_config_of_topic(record)
            return
        of_all = dict(self._configs.get(record.resource_type, {}))
        configs = _with_config(of_all.pop(record.resource_name, {}), record)
        if configs:
            of_all[record.resource_name] = configs
        self._configs[record.resource_type] = of_all

    def _set_config_of_topic(self, record: ConfigRecord) -> None:
        configs = _with_config(self._topic_configs.pop(record.resource_name, {}), record)
        if configs:
            self._topic_configs[record.resource_name] = configs
        topic = self._topics.get(record.resource_name)
        if topic is not None:
            self._topics[topic.name] = replace(topic, configs=configs)

    def _remove_topic(self, record: RemoveTopicRecord) -> None:
        name = self._names_by_id.pop(record.topic_id, None)
        if name is None:
            raise InconsistentMetadataError(f"topic {record.topic_id} is removed, which does not exist")
        self._removed_topic_ids.add(record.topic_id)
        self.partitions.remove_topic(record.topic_id)
        del self._topics[name]
        self._topic_configs.pop(name, None)
        self._names_by_folded_name.pop(folded_name(name), None)


def _with_config(configs: Mapping[str, str], record: ConfigRecord) -> dict[str, str]:
    changed = dict(configs)
    if record.value is None:
        changed.pop(record.name, None)
    else:
        changed[record.name] = record.value
    return changed
