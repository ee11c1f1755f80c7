"""Spark streams a topic to noop with AvailableNow, and does so with PySpark as it is installed, not from its zip."""

from __future__ import annotations

from dataclasses import replace

from bench.card import Bench, BenchOutcome, Better, Contender, Figure, Scale
from bench.row_values import ReadTally, check_tally, expected_tally
from bench.spark_places import CONTENDERS, VALUE_BYTES, checkpoint, source, written_topic
from bench.stage import Stage


def run(stage: Stage, contender: Contender, case: str) -> BenchOutcome:
    return stream(stage, contender, is_compiled=False)


def run_compiled(stage: Stage, contender: Contender, case: str) -> BenchOutcome:
    return stream(stage, contender, is_compiled=True)


def stream(stage: Stage, contender: Contender, *, is_compiled: bool) -> BenchOutcome:
    rows = stage.scale.spark_rows
    topic = written_topic(stage, contender)
    spark, place = stage.spark(contender, is_compiled=is_compiled), source(stage, contender, topic)
    if ("observed", contender) not in stage.remembered:
        seen = spark.order("stream", place=place, checkpoint=checkpoint(stage), observed=True)
        check_tally(ReadTally(**seen["tally"]), expected_tally(rows, VALUE_BYTES), f"stream of {topic}")
        stage.remembered[("observed", contender)] = True
    with stage.measured(contender, with_spark=True, is_compiled=is_compiled):
        found = spark.order("stream", place=place, checkpoint=checkpoint(stage), observed=False)
    assert found["rows"] == rows and found["is_gapless"], f"stream of {topic}: {found}"
    return BenchOutcome(
        values={"rows/s": rows / found["seconds"]},
        verified=f"{rows:,} rows, offsets of batches without a gap; contents tallied in one run before",
    )


def cases(scale: Scale) -> tuple[str, ...]:
    return (f"{scale.spark_rows:,} rows",)


BENCH = Bench(
    name="spark-stream",
    what="AvailableNow stream to noop, 100 B, 4 partitions, local[2]",
    how="a new checkpoint each time; from start() to the end of the query",
    verified="rows and gapless offsets each time; once, with an observation: count, bytes, sum of numbers",
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
    full_seconds=140,
)
COMPILED = replace(
    BENCH,
    name="spark-stream-compiled",
    what="the same with PYTHONPATH=conf/compiled_pyspark: Spark's Python processes do not compile PySpark",
    run=run_compiled,
)
