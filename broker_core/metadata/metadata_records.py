"""KRaft's metadata records, as values. Field names are those of Kafka 4.3's `common/metadata/*.json`.

`metadata_record_codec` turns them into the bytes of `__cluster_metadata` and back. Record types that the image does
not use (brokers, quotas, tokens, in-sync sets) are kept as `OtherRecord`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import ClassVar, Final
from uuid import UUID

from broker_core.model.access_control import AccessRule, Operation, PatternType, Permission, ResourceType

METADATA_VERSION_FEATURE: Final = "metadata.version"
METADATA_VERSION_LEVEL: Final = 30
"""Kafka 4.3's level of the metadata format, whose record versions are written here."""


class ConfigResource(enum.IntEnum):
    """The resource type of a ConfigRecord."""

    TOPIC = 2
    BROKER = 4
    """By its id; "" stands for all brokers."""
    GROUP = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    """A topic is created."""

    api_key: ClassVar[int] = 2
    version: ClassVar[int] = 0
    name: str
    topic_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecord:
    """A partition is created on these brokers, in these of their directories."""

    api_key: ClassVar[int] = 3
    version: ClassVar[int] = 2
    partition_id: int
    topic_id: UUID
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    directories: tuple[UUID, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRecord:
    """A setting of a resource is set, or with None reset to its default."""

    api_key: ClassVar[int] = 4
    version: ClassVar[int] = 0
    resource_type: int
    resource_name: str
    name: str
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTopicRecord:
    """A topic is deleted with its partitions and settings."""

    api_key: ClassVar[int] = 9
    version: ClassVar[int] = 0
    topic_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class UserScramCredentialRecord:
    """A user's SCRAM credential for a mechanism (Kafka's number); it replaces an existing one."""

    api_key: ClassVar[int] = 11
    version: ClassVar[int] = 0
    name: str
    mechanism: int
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureLevelRecord:
    """The level of a feature; every metadata log begins with that of `metadata.version`."""

    api_key: ClassVar[int] = 12
    version: ClassVar[int] = 0
    name: str
    feature_level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdsRecord:
    """A block of producer ids was assigned; the next one begins at `next_producer_id`."""

    api_key: ClassVar[int] = 15
    version: ClassVar[int] = 0
    broker_id: int
    broker_epoch: int = -1
    next_producer_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessControlEntryRecord:
    """A rule of the access control list is created. The numbers are Kafka's, also those unknown here."""

    api_key: ClassVar[int] = 18
    version: ClassVar[int] = 0
    id: UUID
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int

    @classmethod
    def of(cls, rule_id: UUID, rule: AccessRule) -> AccessControlEntryRecord:
        return cls(
            id=rule_id,
            resource_type=rule.resource_type,
            resource_name=rule.resource_name,
            pattern_type=rule.pattern_type,
            principal=rule.principal,
            host=rule.host,
            operation=rule.operation,
            permission_type=rule.permission,
        )

    @property
    def rule(self) -> AccessRule:
        return AccessRule(
            resource_type=ResourceType(self.resource_type),
            resource_name=self.resource_name,
            pattern_type=PatternType(self.pattern_type),
            principal=self.principal,
            host=self.host,
            operation=Operation(self.operation),
            permission=Permission(self.permission_type),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveAccessControlEntryRecord:
    """A rule of the access control list is removed."""

    api_key: ClassVar[int] = 19
    version: ClassVar[int] = 0
    id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveUserScramCredentialRecord:
    """A user's credential for one SCRAM mechanism is removed."""

    api_key: ClassVar[int] = 22
    version: ClassVar[int] = 0
    name: str
    mechanism: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataTransactionRecord:
    """Begin (23), end (24) or abort (25) of records that take effect together or not at all (KIP-866)."""

    version: ClassVar[int] = 0
    api_key: int

    BEGIN: ClassVar[int] = 23
    END: ClassVar[int] = 24
    ABORT: ClassVar[int] = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherRecord:
    """A record that the image ignores; `body` is what follows the frame."""

    api_key: int
    version: int
    body: bytes


MetadataRecord = (
    TopicRecord
    | PartitionRecord
    | ConfigRecord
    | RemoveTopicRecord
    | UserScramCredentialRecord
    | FeatureLevelRecord
    | ProducerIdsRecord
    | AccessControlEntryRecord
    | RemoveAccessControlEntryRecord
    | RemoveUserScramCredentialRecord
    | MetadataTransactionRecord
    | OtherRecord
)
