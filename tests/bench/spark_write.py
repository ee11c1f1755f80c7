"""Spark writes a topic in one batch."""

from __future__ import annotations

from bench.card import Bench, BenchOutcome, Better, Contender, Figure, Scale
from bench.spark_places import CONTENDERS, check_rows, drop_topic, new_topic, sink
from bench.stage import Stage


def run(stage: Stage, contender: Contender, case: str) -> BenchOutcome:
    rows = stage.scale.spark_rows
    topic = new_topic(stage, contender)
    try:
        with stage.measured(contender, with_spark=True):
            found = stage.spark(contender).order("write", place=sink(stage, contender, topic), rows=rows)
        check_rows(stage, contender, topic, rows)
    finally:
        drop_topic(stage, contender, topic)
    return BenchOutcome(
        values={"rows/s": rows / found["seconds"]},
        verified=f"all {rows:,} rows read back: count, bytes, sum of numbers",
    )


def cases(scale: Scale) -> tuple[str, ...]:
    return (f"{scale.spark_rows:,} rows",)


BENCH = Bench(
    name="spark-write",
    what="batch write, 100 B, 4 partitions, local[2]",
    how="rows of spark.range to a new topic; ours exactly-once and durable, the connector at-least-once and not synced",
    verified="every row read back: count, bytes, sum of the numbers in the values",
    figures=(
        Figure(
            name="rows/s",
            unit="rows/s",
            better=Better.HIGHER,
            targets={Contender.EMBEDDED: 2.5, Contender.BROKER: 1.5},
        ),
    ),
    contenders=CONTENDERS,
    cases=cases,
    run=run,
    needs=frozenset({"spark"}),
    full_seconds=190,
)
