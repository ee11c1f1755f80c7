"""Rows with timestamps older than their topic keeps records. Kafka takes them silently, and may delete them at once."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from broker_core.model.identifiers import TimestampType
from broker_core.model.topic_config import TopicConfig

_PER_MS: Final = {"s": Fraction(1, 1000), "ms": Fraction(1), "us": Fraction(1000), "ns": Fraction(1_000_000)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredRows:
    """Those of one topic. `oldest_ms`: the smallest timestamp among them."""

    row_count: int
    oldest_ms: int
    retention_ms: int

    def __add__(self, other: Self) -> Self:
        return replace(self, row_count=self.row_count + other.row_count, oldest_ms=min(self.oldest_ms, other.oldest_ms))


def expired_rows(columns: pa.RecordBatch, config: TopicConfig, *, now_ms: int) -> ExpiredRows | None:
    """`columns` as `encode` takes them. None: the topic keeps all of them for a while."""
    if (
        not config.is_deleted_by_retention
        or config.retention_ms < 0
        or config.message_timestamp_type is not TimestampType.CREATE_TIME
        or "timestamp" not in columns.schema.names
    ):
        return None
    times = columns.column("timestamp")
    per_ms = _PER_MS[times.type.unit] if pa.types.is_timestamp(times.type) else Fraction(1)
    numbers = times.cast(pa.int64())
    oldest = pc.min(numbers).as_py()
    limit = (now_ms - config.retention_ms) * per_ms
    if oldest is None or oldest >= limit:
        return None
    return ExpiredRows(
        row_count=pc.sum(pc.less(numbers, pa.scalar(math.ceil(limit), pa.int64()))).as_py(),
        oldest_ms=math.floor(oldest / per_ms),
        retention_ms=config.retention_ms,
    )
