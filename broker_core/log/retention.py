"""The segments that retention removes: always by log start offset, and by size and time if cleanup.policy has `delete`.

It removes the oldest first, without gaps, and only segments wholly below the high watermark and, for size and time,
below the pinned offset. The active segment is removed too if all of it has expired and it is not empty: it is rolled
first, so that the log keeps an (empty) active segment and its end offset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from broker_core.log.segment_table import Segment
from broker_core.model.topic_config import TopicConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPlan:
    """`removed`: base offsets, oldest first. `must_roll`: the active segment is among them, open a new one first."""

    removed: tuple[int, ...]
    must_roll: bool
    log_start_offset: int
    """After it."""
    reasons: tuple[str, ...]
    """One per removed segment, for the log line."""


def plan_retention(
    segments: Iterable[Segment],
    *,
    config: TopicConfig,
    now_ms: int,
    log_start_offset: int,
    high_watermark: int,
    pinned_offset: int | None = None,
) -> RetentionPlan | None:
    """None: nothing to remove. `pinned_offset`: records from there on are still needed, even if they are old."""
    remaining = list(segments)
    removed: list[Segment] = []
    reasons: list[str] = []

    def take_while(is_breached: Callable[[Segment, Segment | None], str | None], highest_offset: int) -> None:
        while remaining:
            segment = remaining[0]
            following = remaining[1] if len(remaining) > 1 else None
            until_offset = following.base_offset if following else segment.next_offset
            if until_offset > highest_offset or (following is None and segment.size_bytes == 0):
                return
            reason = is_breached(segment, following)
            if reason is None:
                return
            removed.append(remaining.pop(0))
            reasons.append(reason)

    take_while(_below_log_start(log_start_offset), high_watermark)
    if config.is_deleted_by_retention:
        unpinned = high_watermark if pinned_offset is None else min(high_watermark, pinned_offset)
        if config.retention_bytes >= 0:
            size_bytes = sum(segment.size_bytes for segment in remaining)
            take_while(_above_size(size_bytes, config.retention_bytes), unpinned)
        if config.retention_ms >= 0:
            take_while(_too_old(now_ms, config.retention_ms), unpinned)
    if not removed:
        return None
    end = remaining[0].base_offset if remaining else removed[-1].next_offset
    return RetentionPlan(
        removed=tuple(segment.base_offset for segment in removed),
        must_roll=not remaining,
        log_start_offset=max(log_start_offset, end),
        reasons=tuple(reasons),
    )


def _below_log_start(log_start_offset: int) -> Callable[[Segment, Segment | None], str | None]:
    def is_breached(segment: Segment, following: Segment | None) -> str | None:
        if following is None or following.base_offset > log_start_offset:
            return None
        return f"it ends at or below log start offset {log_start_offset}"

    return is_breached


def _above_size(size_bytes: int, retention_bytes: int) -> Callable[[Segment, Segment | None], str | None]:
    excess_bytes = size_bytes - retention_bytes

    def is_breached(segment: Segment, following: Segment | None) -> str | None:
        nonlocal excess_bytes
        if excess_bytes < 0 or excess_bytes < segment.size_bytes:
            return None
        excess_bytes -= segment.size_bytes
        return f"retention.bytes={retention_bytes}: the log holds {excess_bytes + segment.size_bytes} bytes more"

    return is_breached


def _too_old(now_ms: int, retention_ms: int) -> Callable[[Segment, Segment | None], str | None]:
    def is_breached(segment: Segment, following: Segment | None) -> str | None:
        largest_ms = segment.largest_timestamp_ms
        # The age of a segment without any time is unknown.
        if largest_ms < 0 or now_ms - largest_ms <= retention_ms:
            return None
        return f"retention.ms={retention_ms}: its largest timestamp is {largest_ms}, {now_ms - largest_ms} ms ago"

    return is_breached
