"""Commits: what one of them says, as values. `commit_codec` writes and reads them, `log_image` folds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from broker_core.object_log.data_range import AppendedRange, PlacedRange
from broker_core.staged_writes import AppVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendRanges:
    """Each range goes to the end of its partition, in this order."""

    ranges: tuple[AppendedRange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PutTopic:
    """The topic as it is from here on: a new one, or one with more partitions or other settings."""

    name: str
    topic_id: UUID
    partition_count: int
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopic:
    topic_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceRanges:
    """The ranges that cover [from_offset, until_offset) give way to `outputs`, which hold the same or, compacted, fewer
    records at the same offsets.

    `input_digest` is `input_digest` of the ranges that were read: with others in their place the commit is wrong.
    `clean_until`: up to there the partition is compacted now; None leaves it as it was.
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
    """Offsets below are gone."""

    topic_id: UUID
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PinOffsets:
    """Where the group keeps retention off: (topic id, partition, offset, until when in ms). Each takes the place of the
    group's pin in that partition; one until 0 removes it."""

    group_id: str
    pins: tuple[tuple[UUID, int, int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvanceHorizon:
    """Data objects begun before it can not be committed any more, so what is not referenced of them can be removed."""

    horizon_ms: int


Change = AppendRanges | PutTopic | DeleteTopic | ReplaceRanges | MoveLogStart | PinOffsets | AdvanceHorizon


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One step of the log. `writer` is random, of this commit alone: 32 hexadecimal digits."""

    log_id: UUID
    number: int
    writer: str
    time_ms: int
    changes: tuple[Change, ...]
    app: AppVersion | None = None
