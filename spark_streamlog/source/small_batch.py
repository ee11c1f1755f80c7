"""Reads a small micro-batch where it is planned, because its tasks would cost more than the reading.

The option `smallBatchOffsets` sets the limit. The plan is the same and is read in the same way, but as one Spark
partition. A batch that is repeated after a crash is read again from the log.

Not with failOnDataLoss=false. Spark caches the rows under the texts of the batch's two offsets until it gets other
rows, and does not call the reader when the same texts return. After a topic was recreated or a log was truncated, the
same offsets may mean other rows; with failOnDataLoss=true that fails the query.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from broker_core.cluster import Cluster
from spark_streamlog.options.read_options import ReadOptions
from spark_streamlog.rows.joined_batches import joined
from spark_streamlog.source.planned_range import PlannedRange

logger = logging.getLogger("spark_streamlog")

MAX_BYTES: Final = 4 * 1024 * 1024
"""Of the rows as Arrow has them: Spark keeps them in the driver's memory."""

MAX_RANGES: Final = 1024
"""Partitions that are read one after the other, a quarter of a millisecond each; parallel tasks read more of them
faster."""


def read_small_batch(
    cluster: Cluster, planned: Sequence[PlannedRange], options: ReadOptions
) -> list[pa.RecordBatch] | None:
    """All rows of the plan. None if it is large, if the options set how to divide it, or on any error: then tasks read
    it, and report the error."""
    if options.min_partitions is not None or options.max_records_per_partition is not None:
        return None  # maxPartitions is kept by one partition
    if not options.fail_on_data_loss or len(planned) > MAX_RANGES:
        return None
    if not 0 < sum(one.until_offset - one.from_offset for one in planned) <= options.small_batch_offsets:
        return None
    try:
        batches = _read(cluster, planned, options)
        return batches if batches is not None and _are_topics_the_same(cluster, planned) else None
    except Exception as error:
        logger.info("A small batch could not be read during planning, so tasks read it: %s", error)
        return None


def _read(cluster: Cluster, planned: Sequence[PlannedRange], options: ReadOptions) -> list[pa.RecordBatch] | None:
    # Imported here: a plan that is left to tasks does not need the readers.
    from spark_streamlog.source.range_reader import read_ranges

    batches: list[pa.RecordBatch] = []
    size_bytes = 0
    # Each range gets a share of the fetch size: few records are needed. In a directory the topics are compared once,
    # after all was read; a broker compares them with each fetch, and a plan of reads names the topic's data.
    is_compared = not options.target.is_directory
    share_bytes = MAX_BYTES // len(planned)
    ranges = [replace(one, size_bytes=share_bytes, topic_id=one.topic_id if is_compared else None) for one in planned]
    for batch in read_ranges(cluster, ranges, options):
        size_bytes += batch.nbytes
        if size_bytes > MAX_BYTES:
            return None
        batches.append(batch)
    return list(joined(batches))


def _are_topics_the_same(cluster: Cluster, planned: Sequence[PlannedRange]) -> bool:
    topics = cluster.describe_topics({one.topic_partition.topic for one in planned})
    return all(
        one.topic_id is not None
        and (topic := topics.get(one.topic_partition.topic)) is not None
        and topic.topic_id == one.topic_id
        for one in planned
    )
