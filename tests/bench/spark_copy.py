"""Spark copies a topic to another with AvailableNow."""

from __future__ import annotations

from bench.card import Bench, BenchOutcome, Better, Contender, Figure, Scale
from bench.spark_places import CONTENDERS, check_rows, checkpoint, drop_topic, new_topic, sink, source, written_topic
from bench.stage import Stage


def run(stage: Stage, contender: Contender, case: str) -> BenchOutcome:
    rows = stage.scale.spark_rows
    original, topic = written_topic(stage, contender), new_topic(stage, contender)
    places = {"place": source(stage, contender, original), "to": sink(stage, contender, topic)}
    try:
        with stage.measured(contender, with_spark=True):
            found = stage.spark(contender).order("copy", **places, checkpoint=checkpoint(stage))
        assert found["rows"] == rows and found["is_gapless"], f"copy of {original}: {found}"
        check_rows(stage, contender, topic, rows)
    finally:
        drop_topic(stage, contender, topic)
    return BenchOutcome(
        values={"rows/s": rows / found["seconds"]},
        verified=f"all {rows:,} rows of the copy read back: count, bytes, sum of numbers",
    )


def cases(scale: Scale) -> tuple[str, ...]:
    return (f"{scale.spark_rows:,} rows",)


BENCH = Bench(
    name="spark-copy",
    what="AvailableNow copy topic to topic, 100 B, 4 partitions, local[2]",
    how="a new topic and checkpoint each time; ours exactly-once and durable, the connector at-least-once and not "
    "synced",
    verified="every row of the copy read back: count, bytes, sum of the numbers in the values",
    figures=(
        Figure(
            name="rows/s",
            unit="rows/s",
            better=Better.HIGHER,
            targets={Contender.EMBEDDED: 2.0, Contender.BROKER: 2.0},
        ),
    ),
    contenders=CONTENDERS,
    cases=cases,
    run=run,
    needs=frozenset({"spark"}),
    full_seconds=280,
)
