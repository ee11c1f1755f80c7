"""What `__consumer_offsets` stores of KIP-848 consumer groups; `consumer_record_codec` has the formats.

Each record is named by its type, its group, and for some types a member or a regular expression. A record without a
value is a tombstone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from uuid import UUID

Partitions = Mapping[UUID, frozenset[int]]
"""Partition numbers by topic id; no topic without partitions."""

PartitionEpochs = Mapping[UUID, Mapping[int, int]]
"""By topic id and partition: the member epoch since which the partition is the member's."""


class ConsumerRecordType(IntEnum):
    """The first field of a key."""

    GROUP = 3
    TOPICS = 4
    MEMBER = 5
    TARGET = 6
    TARGET_OF_MEMBER = 7
    CURRENT_OF_MEMBER = 8
    REGEX = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEpoch:
    epoch: int
    metadata_hash: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTopics:
    """Written by Kafka 4.0. Its content is not used; if it exists, a tombstone is written for it."""

    content: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicProtocol:
    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMemberMetadata:
    """Stored for a member that uses the classic protocol in a group of the new one."""

    session_timeout_ms: int
    protocols: tuple[ClassicProtocol, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberMetadata:
    """`topic_regex` "", or None in what older versions stored: none."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    topic_regex: str | None = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMemberMetadata | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetEpoch:
    """`computed_ms` 0: not known, written before Kafka 4.3."""

    epoch: int
    computed_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetOfMember:
    partitions: Partitions = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentOfMember:
    """`state` is a number: a newer Kafka may have more states."""

    epoch: int
    previous_epoch: int
    state: int
    assigned: PartitionEpochs = field(default_factory=dict)
    pending_revocation: PartitionEpochs = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedRegex:
    """Topics that matched a regular expression, at a version of the metadata and a time."""

    topics: frozenset[str]
    version: int
    time_ms: int


ConsumerRecordValue = (
    GroupEpoch | StoredTopics | MemberMetadata | TargetEpoch | TargetOfMember | CurrentOfMember | ResolvedRegex
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupRecord:
    """`item`: the member id or the regular expression, where the type has one. `value` None: a tombstone."""

    type: ConsumerRecordType
    group_id: str
    item: str = ""
    value: ConsumerRecordValue | None = None
