"""What an administrator sets for KIP-848 consumer groups, with Kafka's names and defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from broker_core.group.consumer.consumer_assignors import ASSIGNORS, DEFAULT_ASSIGNOR

REGEX_MIN_REFRESH_INTERVAL_MS: Final = 10_000
"""A fixed time in Kafka: regular expressions of a group are not resolved again sooner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupSettings:
    """Durations in milliseconds."""

    session_timeout_ms: int = 45_000
    """group.consumer.session.timeout.ms: a member that is silent for longer is removed from its group."""

    heartbeat_interval_ms: int = 5_000
    """group.consumer.heartbeat.interval.ms: the interval that members are asked to use."""

    max_size: int = 2**31 - 1
    """group.consumer.max.size"""

    max_classic_size: int = 2**31 - 1
    """group.max.size: a group with more members does not become a classic one."""

    assignors: tuple[str, ...] = (DEFAULT_ASSIGNOR, *(name for name in ASSIGNORS if name != DEFAULT_ASSIGNOR))
    """group.consumer.assignors: the first one is the default."""

    assignment_interval_ms: int = 1_000
    """group.consumer.assignment.interval.ms: the least time between two target assignments of a group (KIP-1263)."""

    regex_refresh_interval_ms: int = 600_000
    """group.consumer.regex.refresh.interval.ms: regular expressions are resolved again even if no topic was made."""

    is_upgrade_enabled: bool = True
    """group.consumer.migration.policy upgrade or bidirectional: a classic group becomes a consumer group."""

    is_downgrade_enabled: bool = True
    """group.consumer.migration.policy downgrade or bidirectional: a consumer group becomes a classic group."""
