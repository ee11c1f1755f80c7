"""Finds the start of the last N records of a partition.

Offsets are not records: control records use offsets, compaction and aborted transactions leave gaps. So the records
of a window before the end are counted, and the window is doubled until it has enough.
"""

from __future__ import annotations

from typing import Any

from broker_core.cli.partition_consumer import PartitionConsumer
from broker_core.cluster import Cluster
from broker_core.model.identifiers import IsolationLevel, TopicPartition


def start_of_last(cluster: Cluster, partition: TopicPartition, count: int, isolation: IsolationLevel) -> int:
    """The offset of the record that `count - 1` records follow, or the log start if there are fewer."""
    bounds = cluster.bounds(partition)
    end = bounds.readable_end(isolation)
    if count == 0:
        return end
    window = count
    while True:
        start = max(bounds.log_start_offset, end - window)
        reader = PartitionConsumer(cluster, partition, start, isolation=isolation, columns=frozenset({"offset"}))
        newest: list[Any] = []
        held = 0
        for batch, _ in reader.read(end):
            newest.append(batch.column("offset"))
            held += batch.num_rows
            while newest and held - len(newest[0]) >= count:
                held -= len(newest.pop(0))
        if held >= count:
            return int(newest[0][held - count].as_py())
        if start == bounds.log_start_offset:
            return start
        window *= 2
