"""`PlacedWrites`: appends at given offsets, with gaps, for copies of a log.

Directories and logs on object storage implement it. Brokers do not: in Kafka's protocol the broker assigns the offsets,
without gaps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from broker_core.model.exceptions import UnexpectedLogEndError
from broker_core.model.identifiers import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedAppend:
    """Whole v2 batches with ascending offsets in [from_offset, until_offset); offsets without a record are gaps.

    `batches` is changed in place, and may be empty: then the whole range is a gap. The batches belong to no producer
    and no transaction. `log_start_offset`: the log start is moved up to it; None leaves it.
    """

    partition: TopicPartition
    from_offset: int
    until_offset: int
    batches: bytearray
    log_start_offset: int | None = None

    def require_log_end(self, log_end_offset: int) -> None:
        """Raises UnexpectedLogEndError."""
        if log_end_offset != self.from_offset:
            raise UnexpectedLogEndError(
                f"{self.partition} ends at offset {log_end_offset}, not at {self.from_offset}: somebody else writes to"
                " it while it is copied to",
                partition=self.partition,
                expected_offset=self.from_offset,
                log_end_offset=log_end_offset,
            )


@runtime_checkable
class PlacedWrites(Protocol):
    """The writing side of a copy."""

    def append_placed(self, appends: Sequence[PlacedAppend]) -> None:
        """Appends each to its partition, which must end at `from_offset` and then ends at `until_offset`.

        Durable when it returns. If it is interrupted, a directory may have a part of it, and each partition ends at a
        whole batch; a log on object storage has all of it or nothing. No retention or compaction is started.

        Raises UnexpectedLogEndError, UnknownTopicError, UnknownPartitionError, CorruptBatchError, and what
        `Cluster.append` raises for the disk or the object store.
        """
        ...
