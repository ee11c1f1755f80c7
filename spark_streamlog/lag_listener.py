"""A ready `StreamingQueryListener` that says how far streams are behind their topics.

    from spark_streamlog.lag_listener import LagListener

    spark.streams.addListener(LagListener(print))

PySpark takes no metrics from a source written in Python (4.2, 4.3), but the progress of a query has the source's end
and latest offsets; the numbers are their difference.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from spark_streamlog.errors import ConditionError
from spark_streamlog.planning.offset_lag import OffsetLag, offset_lag
from spark_streamlog.planning.stream_offset import StreamOffset, from_checkpoint

logger = logging.getLogger("spark_streamlog")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLag:
    """Of one source of a query when a micro-batch was done. `source` counts the query's sources from 0."""

    query_id: UUID
    run_id: UUID
    query_name: str | None
    batch_id: int
    source: int
    topics: tuple[str, ...]
    offsets: OffsetLag

    @property
    def metrics(self) -> dict[str, str]:
        """`minOffsetsBehindLatest`, `maxOffsetsBehindLatest`, `avgOffsetsBehindLatest`, as Spark's Kafka source has
        them."""
        return self.offsets.metrics()

    def __str__(self) -> str:
        lag = self.offsets
        return (
            f"query={self.query_name or self.query_id} batch={self.batch_id} source=streamlog({', '.join(self.topics)})"
            f" offsets_behind={lag.total} min={lag.minimum} max={lag.maximum} avg={lag.average:.1f}"
        )


class LagListener(StreamingQueryListener):
    """Calls `on_lag` for each streamlog source at each progress of each query; without it a line is logged at INFO.

    `latest` holds the newest lags of the queries that run, by run id. Spark calls listeners in a thread of its own.
    """

    def __init__(self, on_lag: Callable[[SourceLag], Any] | None = None) -> None:
        self._on_lag = on_lag if on_lag is not None else _log
        self.latest: dict[UUID, tuple[SourceLag, ...]] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        lags = lags_of(event.progress)
        if lags:
            self.latest[lags[0].run_id] = lags
        for lag in lags:
            self._on_lag(lag)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self.latest.pop(event.runId, None)


def lags_of(progress: Any) -> tuple[SourceLag, ...]:
    """Of the streamlog sources in a `StreamingQueryProgress`, as in `query.lastProgress`. Other sources have offsets of
    another form and are passed over."""
    found = []
    for number, source in enumerate(progress.sources):
        end, latest = _offsets(source.endOffset), _offsets(source.latestOffset)
        lag = offset_lag(end, latest) if end is not None and latest is not None else None
        if lag is not None and latest is not None:
            found.append(
                SourceLag(
                    query_id=progress.id,
                    run_id=progress.runId,
                    query_name=progress.name,
                    batch_id=progress.batchId,
                    source=number,
                    topics=tuple(sorted({tp.topic for tp in latest})),
                    offsets=lag,
                )
            )
    return tuple(found)


def _offsets(text: str | None) -> StreamOffset | None:
    try:
        return from_checkpoint(json.loads(text)) if text else None
    except (ValueError, ConditionError):
        return None


def _log(lag: SourceLag) -> None:
    logger.info("%s", lag)
