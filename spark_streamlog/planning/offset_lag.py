"""How far a stream is behind: the numbers that Spark's Kafka source reports as its metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from broker_core.model.identifiers import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetLag:
    """Offsets between what a source has read and the readable end, over its partitions. Spark has no `total`."""

    minimum: int
    maximum: int
    average: float
    total: int

    def metrics(self) -> dict[str, str]:
        """With the names of Spark's Kafka source."""
        return {
            "minOffsetsBehindLatest": str(self.minimum),
            "maxOffsetsBehindLatest": str(self.maximum),
            "avgOffsetsBehindLatest": str(self.average),
        }


def offset_lag(end: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]) -> OffsetLag | None:
    """None without partitions. As in Spark, one of which nothing was read counts from 0."""
    behind = [max(0, offset - end.get(tp, 0)) for tp, offset in latest.items()]
    if not behind:
        return None
    return OffsetLag(minimum=min(behind), maximum=max(behind), average=sum(behind) / len(behind), total=sum(behind))
