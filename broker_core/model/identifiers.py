"""Identifiers and small values that every room shares."""

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
"""Transactional ids that begin so serve one batch write and are never used again: a coordinator of ours forgets them
soon (limits.SINGLE_USE_ID_EXPIRATION_MS)."""

SINK_GROUP_PREFIX = "streamlog-sink-"
"""Groups of this name hold what exactly-once sinks have decided. A coordinator of ours never lets it expire: a query
may stand still for a year, and would then write its last batch a second time."""


class TopicPartition(NamedTuple):
    """One partition of a topic. Ordered by topic, then by number. A tuple, because every request looks up several."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdAndEpoch:
    """What an idempotent producer stamps into each batch header."""

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
    """What a reader may see, with Kafka's wire values."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class OffsetSpec(enum.IntEnum):
    """A place in a partition that is not a timestamp, with ListOffsets' wire values."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
