"""failOnDataLoss=false while another process appends and deletes records: nothing twice, nothing outside, in order."""

import multiprocessing
import random
import time

import pytest
from support.builders.append_records import append_values
from support.spark.read_query import StreamRun, read_options, values_of

from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.model.exceptions import StreamlogError
from broker_core.model.identifiers import TopicPartition
from spark_streamlog.source.planned_range import PlannedRange
from spark_streamlog.source.range_reader import read_range

T0 = TopicPartition("t", 0)
CONFIGS = {"segment.bytes": "1048576", "retention.ms": "-1"}


def append_and_delete(log_dir, seconds, seed):
    """Values are their offsets. Now and then the log start jumps up to near the end."""
    dice = random.Random(seed)
    with open_embedded(log_dir) as cluster:
        next_value = 0
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            count = dice.randint(1, 200)
            append_values(cluster, "t", *(f"{n:0100}" for n in range(next_value, next_value + count)))
            next_value += count
            if dice.random() < 0.1:
                start = cluster.bounds(T0).log_start_offset
                cluster.delete_records(T0, dice.randint(start, next_value))


def race(log_dir, seconds, seed, check):
    with open_embedded(log_dir, create=True) as cluster:
        cluster.create_topic("t", configs=CONFIGS)
        other = multiprocessing.get_context("spawn").Process(
            target=append_and_delete, args=(log_dir, seconds, seed), daemon=True
        )
        other.start()
        check(cluster, other)
        other.join(30)
        assert other.exitcode == 0


def run_stream(cluster, other):
    stream = StreamRun(cluster, startingOffsets="earliest", failOnDataLoss=False, maxOffsetsPerTrigger=500)
    read = []
    while other.is_alive():
        read += map(int, stream.run_batch() or [])
    read += map(int, stream.run_all())
    assert read == sorted(set(read)), "something came twice or out of order"
    assert (
        read[-1] == cluster.bounds(T0).log_end_offset - 1 or stream.committed[T0] == cluster.bounds(T0).log_end_offset
    )


def read_ranges(cluster, other):
    dice = random.Random(1)
    topic_id = cluster.describe_topics()["t"].topic_id
    losses = 0
    while other.is_alive():
        bounds = cluster.bounds(T0)
        from_offset = dice.randint(max(0, bounds.log_start_offset - 100), bounds.log_end_offset)
        until_offset = min(bounds.log_end_offset, from_offset + dice.randint(0, 2000))
        planned = PlannedRange(
            topic_partition=T0, from_offset=from_offset, until_offset=until_offset, topic_id=topic_id
        )
        values = [int(v) for v in values_of(read_range(cluster, planned, read_options(failOnDataLoss=False)))]
        assert values == sorted(set(values)), "something came twice or out of order"
        missing = set(range(from_offset, until_offset)) - set(values)
        assert len(missing) + len(values) == until_offset - from_offset, "a row from outside of the range"
        assert max(missing, default=-1) < cluster.bounds(T0).log_start_offset, "something there was not read"
        losses += len(values) < until_offset - from_offset
        try:
            strict = [int(v) for v in values_of(read_range(cluster, planned, read_options()))]
        except StreamlogError:
            continue
        assert strict == list(range(from_offset, until_offset))
    assert losses


@pytest.mark.parametrize("check", [run_stream, read_ranges])
def test_reads_are_correct_during_deletions(tmp_path, check):
    race(str(tmp_path / "log"), 1.5, 7, check)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("check", [run_stream, read_ranges])
def test_reads_are_correct_during_long_runs_of_deletions(tmp_path, check, seed):
    race(str(tmp_path / "log"), 30, seed, check)
