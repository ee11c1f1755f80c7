"""Spark reads a topic in one batch."""

from __future__ import annotations

from bench.card import Bench, BenchOutcome, Better, Contender, Figure, Scale
from bench.spark_places import CONTENDERS, PARTITIONS, VALUE_BYTES, source, written_topic
from bench.stage import Stage


def run(stage: Stage, contender: Contender, case: str) -> BenchOutcome:
    rows = stage.scale.spark_rows
    topic = written_topic(stage, contender)
    with stage.measured(contender, with_spark=True):
        found = stage.spark(contender).order("read", place=source(stage, contender, topic))
    assert (found["count"], found["value_bytes"]) == (rows, rows * VALUE_BYTES), f"{topic}: {found}, not {rows} rows"
    assert rows // PARTITIONS - 1 <= found["max_offset"] < rows + 100, f"largest offset {found['max_offset']}"
    return BenchOutcome(
        values={"rows/s": rows / found["seconds"]},
        verified=f"count {rows:,} and {rows * VALUE_BYTES:,} bytes; the sum of numbers once for the topic",
    )


def cases(scale: Scale) -> tuple[str, ...]:
    return (f"{scale.spark_rows:,} rows",)


BENCH = Bench(
    name="spark-read",
    what="batch read, 100 B, 4 partitions, local[2]: count, sum(length(value)), max(offset)",
    how="one Spark application of ours and one of the connector's, both of the same PySpark, warm",
    verified="count, bytes and largest offset each time; the sum of the numbers in the values once",
    figures=(
        Figure(
            name="rows/s",
            unit="rows/s",
            better=Better.HIGHER,
            targets={Contender.EMBEDDED: 2.5, Contender.BROKER: 2.0},
        ),
    ),
    contenders=CONTENDERS,
    cases=cases,
    run=run,
    needs=frozenset({"spark"}),
    full_seconds=150,
)
