"""Spark's micro-batches while rows come in steadily."""

from __future__ import annotations

import json
import statistics
import time

from bench.card import Bench, BenchOutcome, Better, Contender, Figure, Scale
from bench.spark_places import CONTENDERS, check_rows, checkpoint, drop_topic, feeding, new_topic, source
from bench.stage import Stage

ROWS_PER_SECOND = 10_000
FEWEST_BATCHES = 5
FEEDING_SECONDS = 300


def run(stage: Stage, contender: Contender, case: str) -> BenchOutcome:
    topic = new_topic(stage, contender)
    spark = stage.spark(contender)
    try:
        spark.order("begin_micro_batches", place=source(stage, contender, topic), checkpoint=checkpoint(stage))
        with stage.measured(contender, with_spark=True):
            rows = _feed(stage, contender, topic)
            found = spark.order("end_micro_batches", rows=rows, settle_batches=stage.scale.settle_batches)
        assert found["rows"] == rows and found["is_gapless"], f"{found['rows']} rows came of {rows}: {found}"
        check_rows(stage, contender, topic, rows)
    finally:
        drop_topic(stage, contender, topic)
    times = sorted(found["times_ms"])
    phases = ", ".join(f"{name} {value}" for name, value in found["phases_ms"].items())
    return BenchOutcome(
        values={"p50": statistics.median(times), "p95": times[int(len(times) * 0.95)]},
        verified=f"{rows:,} rows sent and seen without a gap; the topic read back: count, bytes, sum of numbers; "
        f"{len(times)} batches timed, medians in ms: {phases}",
    )


def _feed(stage: Stage, contender: Contender, topic: str) -> int:
    """Rows that were sent."""
    spark = stage.spark(contender)
    with stage.feeder(topic=topic, rows_per_second=ROWS_PER_SECOND, **feeding(stage, contender)) as feeder:
        assert feeder.stdin is not None and feeder.stdout is not None
        begin = time.monotonic()
        time.sleep(stage.scale.micro_batch_seconds)
        # A machine that is busy gets more time: what is measured are batches, not how many there were.
        enough = stage.scale.settle_batches + FEWEST_BATCHES
        while spark.order("count_micro_batches")["batches"] < enough and time.monotonic() - begin < FEEDING_SECONDS:
            time.sleep(0.5)
        feeder.stdin.write("stop\n")
        feeder.stdin.flush()
        said = feeder.stdout.readline()
    assert feeder.returncode == 0, f"the feeder ended with {feeder.returncode}"
    return int(json.loads(said)["rows"])


def cases(scale: Scale) -> tuple[str, ...]:
    return (f"{ROWS_PER_SECOND:,} rows/s",)


BENCH = Bench(
    name="spark-micro-batch",
    what="micro-batches at 10,000 rows/s to noop, local[2]",
    how="batches as fast as they go, time of the whole trigger; rows come from a process that sends 50 portions a "
    "second, embedded or with librdkafka. The first ten batches of a run are not timed",
    verified="as many rows as were sent, batches' offsets without a gap; the topic read back: count, bytes, sum of "
    "numbers",
    figures=(
        Figure(
            name="p50",
            unit="ms",
            better=Better.LOWER,
            targets={Contender.EMBEDDED: 1.25, Contender.BROKER: 1.25},
        ),
        Figure(
            name="p95",
            unit="ms",
            better=Better.LOWER,
            targets={Contender.EMBEDDED: 1.25, Contender.BROKER: 1.25},
        ),
    ),
    contenders=CONTENDERS,
    cases=cases,
    run=run,
    needs=frozenset({"spark"}),
    is_warmed_up=False,
    full_seconds=210,
)
