"""Joins small Arrow batches: each batch costs Spark a tenth of a millisecond, regardless of its size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

JOINED_ROWS: Final = 10_000
"""Spark's own size of an Arrow batch (spark.sql.execution.arrow.maxRecordsPerBatch)."""
JOINED_BYTES: Final = 1024 * 1024
"""A larger batch is worth its cost, and copying it would save nothing."""


def joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in the same order. A batch that is large enough is passed on unchanged."""
    waiting: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        size_bytes += batch.nbytes
        if rows >= JOINED_ROWS or size_bytes >= JOINED_BYTES:
            yield _one_of(waiting)
            waiting, rows, size_bytes = [], 0, 0
    if waiting:
        yield _one_of(waiting)


def _one_of(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    (one,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return one
