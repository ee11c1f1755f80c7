"""Warns on the driver of rows that their topic may delete as soon as they are written.

Once for each topic of a write: a stream commits each micro-batch in a process that may be another one. All of them get
the same directory from Spark, in SPARK_LOCAL_DIRS, and the first one leaves an empty file there.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from broker_core.record.expired_rows import ExpiredRows

_LOCAL_DIRECTORIES = "SPARK_LOCAL_DIRS"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

logger = logging.getLogger(__name__)

_told: set[str] = set()
"""In this process, for where there is no directory."""


def warn_of_expired(expired: Mapping[str, ExpiredRows], *, write: str | None) -> None:
    """`write` identifies the query or the application for all its batches; None warns each time."""
    for topic, rows in expired.items():
        if write is None or _is_first(f"{write}/{topic}"):
            logger.warning(
                "%d rows were written to topic '%s' with timestamps older than its retention.ms=%d keeps records, the"
                " oldest of %s: they may be deleted soon. retention.ms=-1 keeps them (streamlog topic alter %s --config"
                " retention.ms=-1, or the option topic.config.retention.ms for a topic that the write creates)",
                rows.row_count,
                topic,
                rows.retention_ms,
                _text_of(rows.oldest_ms),
                topic,
            )


def _is_first(key: str) -> bool:
    folder = os.environ.get(_LOCAL_DIRECTORIES, "").split(",")[0]
    if folder:
        try:
            (Path(folder) / f"streamlog-expired-{hashlib.sha256(key.encode()).hexdigest()[:16]}").touch(exist_ok=False)
            return True
        except FileExistsError:
            return False
        except OSError:
            pass  # it is full or gone: once for each process, then
    is_first = key not in _told
    _told.add(key)
    return is_first


def _text_of(time_ms: int) -> str:
    try:
        return (_EPOCH + timedelta(milliseconds=time_ms)).isoformat(timespec="milliseconds")
    except OverflowError:
        return f"{time_ms} ms"
