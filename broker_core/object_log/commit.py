"""Commits as values. `commit_codec` writes and reads them, `log_image` folds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from broker_core.object_log.data_range import AppendedRange, PlacedRange
from broker_core.staged_writes import AppVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendRanges:
    """Each range is appended to its partition, in this order."""

    ranges: tuple[AppendedRange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipOffsets:
    """The partition, which ends at `from_offset`, ends at `until_offset`: no record is between them. For copies of a
    log with gaps between its offsets."""

    topic_id: UUID
    partition: int
    from_offset: int
    until_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PutTopic:
    """The new state of a topic: a new one, or one with more partitions or other settings."""

    name: str
    topic_id: UUID
    partition_count: int
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopic:
    topic_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceRanges:
    """Replaces the ranges that cover [from_offset, until_offset) by `outputs`, which have the same or, if compacted,
    fewer records at the same offsets.

    `input_digest` is `input_digest` of the ranges that were read: if the ranges are others now, the commit is wrong.
    `clean_until`: the partition is compacted up to this offset; None leaves the value unchanged.
    """

    topic_id: UUID
    partition: int
    from_offset: int
    until_offset: int
    input_digest: str
    outputs: tuple[PlacedRange, ...]
    clean_until: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveLogStart:
    """Deletes the records below the offset."""

    topic_id: UUID
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PinOffsets:
    """Where the group blocks retention: (topic id, partition, offset, expiry in ms). Each replaces the group's pin in
    that partition; an expiry of 0 removes it."""

    group_id: str
    pins: tuple[tuple[UUID, int, int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvanceHorizon:
    """Data objects begun before it cannot be committed any more, so unreferenced ones can be removed."""

    horizon_ms: int


Change = (
    AppendRanges | SkipOffsets | PutTopic | DeleteTopic | ReplaceRanges | MoveLogStart | PinOffsets | AdvanceHorizon
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One step of the log. `writer` is a random id of this commit: 32 hexadecimal digits.

    `previous_writer`: that of the commit before it. It shows that a commit was removed and its number used again. Empty
    in the first commit, and in those of a version that did not write it.
    """

    log_id: UUID
    number: int
    writer: str
    time_ms: int
    changes: tuple[Change, ...]
    app: AppVersion | None = None
    previous_writer: str = ""
