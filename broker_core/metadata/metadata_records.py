"""KRaft's metadata records, as values: what `__cluster_metadata` holds. GENERATED, see below.

`tests/golden/metadata/generate_records.py` makes this file from the definitions in Kafka 4.3.1's own jar. Names are
Kafka's in snake case. `version` is the version in which the record was, or will be, written; `unknown_fields` are
tagged fields of a newer Kafka, which are written back as they came. Tagged fields that are at their default are not
written.

Longer than 400 lines because it lists everything that a metadata log can hold.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar
from uuid import UUID

UnknownFields = tuple[tuple[int, bytes], ...]
"""Tag and content, ascending."""

_ZERO_ID = UUID(int=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerEndpoint:
    """A part of the record below."""

    name: str
    host: str
    port: int
    security_protocol: int
    unknown_fields: UnknownFields = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFeature:
    """A part of the record below."""

    name: str
    min_supported_version: int
    max_supported_version: int
    unknown_fields: UnknownFields = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerRecord:
    """A broker process registered. Record type 0."""

    api_key: ClassVar[int] = 0
    broker_id: int
    is_migrating_zk_broker: bool = False
    incarnation_id: UUID
    broker_epoch: int
    end_points: tuple[BrokerEndpoint, ...] = ()
    features: tuple[BrokerFeature, ...] = ()
    rack: str | None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    log_dirs: tuple[UUID, ...] = ()
    cordoned_log_dirs: tuple[UUID, ...] | None = None
    version: int = 4
    unknown_fields: UnknownFields = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBrokerRecord:
    """A broker was removed from the cluster. Record type 1."""

    api_key: ClassVar[int] = 1
    broker_id: int
    broker_epoch: int
    version: int = 0
    unknown_fields: UnknownFields = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    """A topic is created. Record type 2."""

    api_key: ClassVar[int] = 2
    name: str
    topic_id: UUID
    version: int = 0
    unknown_fields: UnknownFields = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecord:
    """A partition is created on these brokers, in these of their directories. Record type 3."""

    api_key: ClassVar[int] = 3
    partition_id: int = -1
    topic_id: UUID
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    leader: int = -1
    leader_recovery_state: int = 0
    leader_epoch: int = -1
    partition_epoch: int = -1
    directories: tuple[UUID, ...] = ()
    eligible_leader_replicas: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None
    version: int = 2
    unknown_fields: UnknownFields = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRecord:
    """A setting of a resource is set, or with None reset to its default. Record type 4."""

    api_key: ClassVar[int] = 4
    resource_type: int
    resource_name: str
    name: str
    value: str | None
    version: int = 0
    unknown_fields: UnknownFields = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChangeRecord:
    """A partition changed; what is at its default did not. It raises the partition epoch. Record type 5."""

    api_key: ClassVar[int] = 5
    partition_id: int = -1
    topic_id: UUID
    isr: tuple[int, ...] | None = None
    leader: int = -2
    replicas: tuple[int, ...] | None = None
    removing_replicas: tuple[int, ...] | None = None
    adding_replicas: tuple[int, ...] | None = None
    leader_recovery_state: int = -1
    directories: tuple[UUID, ...] | None = None
    eligible_leader_replicas: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None
    version: int = 2
    unknown_fields: UnknownFields = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceBrokerRecord:
    """A broker was fenced, as Kafka before 3.2 wrote it. Record type 7."""

    api_key: ClassVar[int] = 7
    id: int
    epoch: int
    version: int = 0
    unknown_fields: UnknownFields = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfenceBrokerRecord:
    """A broker was unfenced, as Kafka before 3.2 wrote it. Record type 8."""

    api_key: ClassVar[int] = 8
    id: int
    epoch: int
    version: int = 0
    unknown_fields: UnknownFields = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTopicRecord:
    """A topic is deleted with its partitions and settings. Record type 9."""

    api_key: ClassVar[int] = 9
    topic_id: UUID
    version: int = 0
    unknown_fields: UnknownFields = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationTokenRecord:
    """A delegation token is created or renewed. Record type 10."""

    api_key: ClassVar[int] = 10
    owner: str
    requester: str
    renewers: tuple[str, ...] = ()
    issue_timestamp: int
    max_timestamp: int
    expiration_timestamp: int
    token_id: str
    version: int = 0
    unknown_fields: UnknownFields = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UserScramCredentialRecord:
    """A user's SCRAM credential for a mechanism; it replaces an existing one. Record type 11."""

    api_key: ClassVar[int] = 11
    name: str
    mechanism: int
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int
    version: int = 0
    unknown_fields: UnknownFields = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureLevelRecord:
    """The level of a feature, 0 removes it. Every log begins with that of `metadata.version`. Record type 12."""

    api_key: ClassVar[int] = 12
    name: str
    feature_level: int
    version: int = 0
    unknown_fields: UnknownFields = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityData:
    """A part of the record below."""

    entity_type: str
    entity_name: str | None
    unknown_fields: UnknownFields = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientQuotaRecord:
    """A quota of an entity is set or removed. Record type 14."""

    api_key: ClassVar[int] = 14
    entity: tuple[EntityData, ...] = ()
    key: str
    value: float
    remove: bool
    version: int = 0
    unknown_fields: UnknownFields = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdsRecord:
    """A block of producer ids was assigned; the next one begins at `next_producer_id`. Record type 15."""

    api_key: ClassVar[int] = 15
    broker_id: int
    broker_epoch: int = -1
    next_producer_id: int
    version: int = 0
    unknown_fields: UnknownFields = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistrationChangeRecord:
    """A broker's state changed: fenced 1, unfenced -1, the rest where it is given. Record type 17."""

    api_key: ClassVar[int] = 17
    broker_id: int
    broker_epoch: int
    fenced: int = 0
    in_controlled_shutdown: int = 0
    log_dirs: tuple[UUID, ...] = ()
    cordoned_log_dirs: tuple[UUID, ...] | None = None
    version: int = 3
    unknown_fields: UnknownFields = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessControlEntryRecord:
    """A rule of the access control list is created. The numbers are Kafka's. Record type 18."""

    api_key: ClassVar[int] = 18
    id: UUID
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int
    version: int = 0
    unknown_fields: UnknownFields = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveAccessControlEntryRecord:
    """A rule of the access control list is removed. Record type 19."""

    api_key: ClassVar[int] = 19
    id: UUID
    version: int = 0
    unknown_fields: UnknownFields = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NoOpRecord:
    """Nothing: shows that the controller lives. Record type 20."""

    api_key: ClassVar[int] = 20
    version: int = 0
    unknown_fields: UnknownFields = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ZkMigrationStateRecord:
    """How far a migration from ZooKeeper was; in old logs only. Record type 21."""

    api_key: ClassVar[int] = 21
    zk_migration_state: int
    version: int = 0
    unknown_fields: UnknownFields = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveUserScramCredentialRecord:
    """A user's credential for one SCRAM mechanism is removed. Record type 22."""

    api_key: ClassVar[int] = 22
    name: str
    mechanism: int
    version: int = 0
    unknown_fields: UnknownFields = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginTransactionRecord:
    """The records up to the end take effect together or not at all (KIP-866). Record type 23."""

    api_key: ClassVar[int] = 23
    name: str | None = None
    version: int = 0
    unknown_fields: UnknownFields = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransactionRecord:
    """The records since the begin take effect. Record type 24."""

    api_key: ClassVar[int] = 24
    version: int = 0
    unknown_fields: UnknownFields = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortTransactionRecord:
    """The records since the begin never take effect. Record type 25."""

    api_key: ClassVar[int] = 25
    reason: str | None = None
    version: int = 0
    unknown_fields: UnknownFields = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveDelegationTokenRecord:
    """A delegation token is removed. Record type 26."""

    api_key: ClassVar[int] = 26
    token_id: str
    version: int = 0
    unknown_fields: UnknownFields = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerEndpoint:
    """A part of the record below."""

    name: str
    host: str
    port: int
    security_protocol: int
    unknown_fields: UnknownFields = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerFeature:
    """A part of the record below."""

    name: str
    min_supported_version: int
    max_supported_version: int
    unknown_fields: UnknownFields = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterControllerRecord:
    """A controller process registered. Record type 27."""

    api_key: ClassVar[int] = 27
    controller_id: int
    incarnation_id: UUID
    zk_migration_ready: bool
    end_points: tuple[ControllerEndpoint, ...] = ()
    features: tuple[ControllerFeature, ...] = ()
    version: int = 0
    unknown_fields: UnknownFields = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearElrRecord:
    """The eligible leader replicas of a topic are forgotten, of all topics for an empty name. Record type 28."""

    api_key: ClassVar[int] = 28
    topic_name: str
    version: int = 0
    unknown_fields: UnknownFields = ()


MetadataRecord = (
    RegisterBrokerRecord
    | UnregisterBrokerRecord
    | TopicRecord
    | PartitionRecord
    | ConfigRecord
    | PartitionChangeRecord
    | FenceBrokerRecord
    | UnfenceBrokerRecord
    | RemoveTopicRecord
    | DelegationTokenRecord
    | UserScramCredentialRecord
    | FeatureLevelRecord
    | ClientQuotaRecord
    | ProducerIdsRecord
    | BrokerRegistrationChangeRecord
    | AccessControlEntryRecord
    | RemoveAccessControlEntryRecord
    | NoOpRecord
    | ZkMigrationStateRecord
    | RemoveUserScramCredentialRecord
    | BeginTransactionRecord
    | EndTransactionRecord
    | AbortTransactionRecord
    | RemoveDelegationTokenRecord
    | RegisterControllerRecord
    | ClearElrRecord
)
