"""Runs the source's planners and readers over a Cluster without Spark: what a query would read, as plain values."""

from __future__ import annotations

import itertools

from broker_core.model.identifiers import TopicPartition
from spark_streamlog.options.option_reader import QueryKind
from spark_streamlog.options.read_options import parse_read_options
from spark_streamlog.source.batch_planner import plan_batch
from spark_streamlog.source.group_progress import progress_of
from spark_streamlog.source.offset_reader import OffsetReader
from spark_streamlog.source.range_reader import read_range
from spark_streamlog.source.stream_planner import StreamPlanner


def read_options(kind=QueryKind.BATCH, **given):
    """Options of a query of the topic `t`; `__` in a name stands for a dot."""
    named = {name.replace("__", "."): str(value) for name, value in given.items()}
    if not {"subscribe", "subscribePattern", "assign"} & named.keys():
        named["subscribe"] = "t"
    return parse_read_options({"path": "/log", "fetchOffset.retryIntervalMs": "0"} | named, kind)


def values_of(batches):
    return [
        value if value is None else value.decode() for batch in batches for value in batch.column("value").to_pylist()
    ]


def read_all(cluster, planned, options):
    """The values of all ranges, in the order of the ranges."""
    return list(itertools.chain.from_iterable(values_of(read_range(cluster, one, options)) for one in planned))


def batch_values(cluster, **given):
    """What a batch query with these options reads."""
    options = read_options(**given)
    return read_all(cluster, plan_batch(OffsetReader(cluster, options), options), options)


class StreamRun:
    """One run of a stream, as Spark drives it. `checkpoint` is the end of the last batch an earlier run committed.

    `memory` is what the query has beside its checkpoint: a `CheckpointMemory`, or nothing.
    """

    def __init__(self, cluster, checkpoint=None, *, available_now=False, now_ms=0, memory=None, **given):
        self.cluster = cluster
        self.options = read_options(QueryKind.STREAM, **given)
        self.now_ms = now_ms
        offsets = OffsetReader(cluster, self.options, sleep=lambda _: None, now_ms=lambda: self.now_ms)
        progress = progress_of(cluster, self.options, now_ms=lambda: self.now_ms)
        self.planner = StreamPlanner(
            offsets,
            self.options,
            now_ms=lambda: self.now_ms,
            progress=progress,
            memories=[each for each in (memory, progress) if each is not None],
        )
        self.committed = checkpoint
        self.batches = []
        if available_now:
            self.planner.prepare_available_now()

    def next_end(self, *, is_limited=True):
        start = self.planner.initial_offset() if self.committed is None else self.committed
        limit = self.options.max_offsets_per_trigger
        return start, self.planner.latest_offset(start, max_offsets=limit, is_limited=is_limited)

    def run_batch(self, end=None, *, is_limited=True):
        """Plans, reads and commits the next batch; its values, or None when there is nothing new. `end` repeats one."""
        is_first = self.committed is None
        if end is None:
            start, end = self.next_end(is_limited=is_limited)
        else:
            start = self.planner.initial_offset() if is_first else self.committed
        if end == start and not is_first:
            return None
        # Spark asks for the start once more when the first batch runs.
        start = self.planner.initial_offset() if is_first else start
        values = read_all(self.cluster, self.planner.plan(start, end), self.options)
        self.committed = end
        self.batches.append(values)
        return values

    def run_all(self):
        """Batches until nothing is new; all their values."""
        values = []
        while (batch := self.run_batch()) is not None:
            values += batch
        return values


def at(**offsets):
    """`at(t_0=5)` -> {t-0: 5}."""
    return {
        TopicPartition(topic, int(number)): offset
        for (topic, number), offset in ((name.rsplit("_", 1), offset) for name, offset in offsets.items())
    }
