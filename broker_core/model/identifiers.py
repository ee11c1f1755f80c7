"""Identifiers and small values for all packages."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple, NewType

Offset = NewType("Offset", int)
"""Logical position of a record in a partition, 0 to 2**63 - 1."""

LeaderEpoch = NewType("LeaderEpoch", int)
"""Term of a partition's leader; 0 in a log that never had another leader."""

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1
NO_LEADER_EPOCH = -1

SINGLE_USE_ID_PREFIX = "streamlog-write-"
"""Prefix of transactional ids that serve one batch write and are never used again: our coordinator forgets them soon
(limits.SINGLE_USE_ID_EXPIRATION_MS)."""

SINK_GROUP_PREFIX = "streamlog-sink-"
"""Prefix of groups that hold the decisions of exactly-once sinks. Our coordinator never expires them: a query may stop
for a year, and would then write its last batch a second time."""

SOURCE_GROUP_PREFIX = "streamlog-topics-"
"""Prefix of groups that hold the ids of the topics that a streaming query reads; they do not expire either."""

OWN_GROUP_PREFIXES = (SINK_GROUP_PREFIX, SOURCE_GROUP_PREFIX)
"""The commits of these groups are no positions in a topic."""


class TopicPartition(NamedTuple):
    """One partition of a topic. Ordered by topic, then by number. A tuple, because every request looks up several."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdAndEpoch:
    """The fields of an idempotent producer in each batch header."""

    producer_id: int
    producer_epoch: int


class TimestampType(enum.IntEnum):
    """Who set the timestamps of a batch; the value is what Spark shows in `timestampType`."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class CompressionType(enum.IntEnum):
    """Codec of a batch: the low three bits of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class IsolationLevel(enum.IntEnum):
    """The isolation level of a reader, with Kafka's wire values."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class OffsetSpec(enum.IntEnum):
    """A special offset of a partition, with ListOffsets' wire values."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
