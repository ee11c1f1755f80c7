"""Decides when and what to compact: Kafka's LogCleanerManager rules for one partition, and the groups of segments.

The dirty section runs from the cleaner's checkpoint to the first offset that may not be cleaned: the last stable
offset, the active segment, or the first segment younger than min.compaction.lag.ms. A partition is due when the dirty
section's share of bytes exceeds min.cleanable.dirty.ratio, or its oldest record is older than max.compaction.lag.ms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from broker_core.log.segment_table import Segment
from broker_core.model.limits import INDEX_ENTRY_OFFSET_DELTA_MAX
from broker_core.model.topic_config import TopicConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPlan:
    """`first_dirty_offset`..`until_offset` (exclusive) is dirty and may be cleaned. `is_due`: it should run now."""

    first_dirty_offset: int
    until_offset: int
    clean_bytes: int
    dirty_bytes: int
    is_due: bool
    must_reset_checkpoint: bool
    """The checkpoint was outside the log; write `first_dirty_offset` to it."""


def plan_compaction(
    segments: Sequence[Segment],
    *,
    config: TopicConfig,
    checkpoint_offset: int | None,
    log_start_offset: int,
    last_stable_offset: int,
    log_end_offset: int,
    now_ms: int,
) -> CompactionPlan | None:
    """None: cleanup.policy has no `compact`, or nothing is dirty. `segments`: all, the active one last."""
    if not config.is_compacted or len(segments) < 2:
        return None
    first_dirty_offset = log_start_offset if checkpoint_offset is None else checkpoint_offset
    must_reset_checkpoint = not log_start_offset <= first_dirty_offset <= log_end_offset
    if must_reset_checkpoint:
        first_dirty_offset = log_start_offset
    closed = segments[:-1]
    dirty = [segment for segment, following in pairwise(segments) if following.base_offset > first_dirty_offset]
    uncleanable_offset = min(last_stable_offset, segments[-1].base_offset)
    if config.min_compaction_lag_ms > 0:
        young_ms = now_ms - config.min_compaction_lag_ms
        young = (segment.base_offset for segment in dirty if segment.largest_timestamp_ms > young_ms)
        uncleanable_offset = min(uncleanable_offset, next(young, uncleanable_offset))
    # Whole segments only: the one that holds the first uncleanable offset stays as it is.
    cleanable = [segment for segment, following in pairwise(segments) if following.base_offset <= uncleanable_offset]
    dirty_bytes = sum(segment.size_bytes for segment in cleanable if segment in dirty)
    if not dirty_bytes:
        return None
    until_offset = segments[len(cleanable)].base_offset
    clean_bytes = sum(segment.size_bytes for segment in closed if segment.base_offset < first_dirty_offset)
    ratio = dirty_bytes / (clean_bytes + dirty_bytes)
    return CompactionPlan(
        first_dirty_offset=first_dirty_offset,
        until_offset=until_offset,
        clean_bytes=clean_bytes,
        dirty_bytes=dirty_bytes,
        is_due=ratio > config.min_cleanable_dirty_ratio or _is_overdue(dirty, config, now_ms),
        must_reset_checkpoint=must_reset_checkpoint,
    )


def _is_overdue(dirty: Sequence[Segment], config: TopicConfig, now_ms: int) -> bool:
    """Whether a record is older than max.compaction.lag.ms, by the first batch of each dirty segment."""
    first_ms = [segment.first_timestamp_ms for segment in dirty if segment.first_timestamp_ms > 0]
    return bool(first_ms) and min(first_ms) < now_ms - config.max_compaction_lag_ms


def group_segments(segments: Sequence[Segment], *, config: TopicConfig) -> tuple[tuple[Segment, ...], ...]:
    """Runs of segments whose cleaned content goes to one segment each, at the first one's base offset.

    `segments`: those with a base offset below the pass's end, in order, never the active one. A run holds no more bytes
    than a segment may, before cleaning, and no offset too far from its base for an index entry.
    """
    groups: list[list[Segment]] = []
    for segment in segments:
        group = groups[-1] if groups else []
        fits = (
            bool(group)
            and sum(other.size_bytes for other in group) + segment.size_bytes <= config.segment_bytes
            and sum(other.index_size_bytes for other in group) + segment.index_size_bytes <= config.segment_index_bytes
            # An empty segment has no offset that could be too far. Otherwise one would remain every 2**31 offsets.
            and (
                segment.size_bytes == 0
                or segment.next_offset - 1 - group[0].base_offset <= INDEX_ENTRY_OFFSET_DELTA_MAX
            )
        )
        if fits:
            group.append(segment)
        else:
            groups.append([segment])
    return tuple(tuple(group) for group in groups)
