"""Group settings, with Kafka's names and defaults."""

from __future__ import annotations

from dataclasses import dataclass

from broker_core.model.limits import MAX_OFFSET_METADATA_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """Durations in milliseconds."""

    min_session_timeout_ms: int = 6_000
    """group.min.session.timeout.ms"""

    max_session_timeout_ms: int = 1_800_000
    """group.max.session.timeout.ms"""

    max_size: int = 2**31 - 1
    """group.max.size"""

    initial_rebalance_delay_ms: int = 3_000
    """group.initial.rebalance.delay.ms: how long an empty group waits for more members before its first generation."""

    new_member_join_timeout_ms: int = 300_000
    """A constant in Kafka: a new member whose join is parked for longer is removed, its client may be dead."""

    offsets_retention_ms: int = 7 * 24 * 3600 * 1000
    """offsets.retention.minutes"""

    max_offset_metadata_bytes: int = MAX_OFFSET_METADATA_BYTES
    """offset.metadata.max.bytes"""

    max_record_bytes: int = 1_048_588
    """max.message.bytes of `__consumer_offsets`: the largest record of one group or one commit."""
