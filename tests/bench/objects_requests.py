"""What Spark's work on a log on object storage asks of the store: requests and bytes. They are what a store charges."""

from __future__ import annotations

from typing import Any

from bench.card import Bench, BenchOutcome, Better, Contender, Figure, Scale
from bench.object_storage import LOG_URL, DelayingProxy
from bench.spark_places import VALUE_BYTES, check_rows, checkpoint, drop_topic, new_topic, written_topic
from bench.stage import Stage

MILLION = 1_000_000
WRITE, READ, STREAM, COPY = "batch write", "batch read", "AvailableNow stream", "AvailableNow copy"


def run(stage: Stage, contender: Contender, case: str) -> BenchOutcome:
    rows = stage.scale.spark_rows
    proxy = stage.object_storage.proxy(0)
    written = case in (WRITE, COPY)
    topic = new_topic(stage, contender) if written else written_topic(stage, contender)
    try:
        with stage.measured(contender, with_spark=True):
            counts = _counted(stage, contender, case, topic, proxy)
        check_rows(stage, contender, topic, rows)
    finally:
        if written:
            drop_topic(stage, contender, topic)
    least_bytes = rows * VALUE_BYTES * (2 if case == COPY else 1)
    moved = counts["sent_bytes"] + counts["received_bytes"]
    assert moved > least_bytes, f"{case}: {moved} bytes went through the proxy, the values alone are {least_bytes}"
    return BenchOutcome(
        values={"requests": counts["requests"] * MILLION / rows, "moved": moved / rows},
        verified=f"all {rows:,} rows of the topic read back; {counts['requests']:,} requests and {moved:,} bytes went"
        " through a proxy that counts",
    )


def _counted(stage: Stage, contender: Contender, case: str, topic: str, proxy: DelayingProxy) -> dict[str, int]:
    spark, rows = stage.spark(contender), stage.scale.spark_rows
    proxy.take_counts()
    if case == WRITE:
        spark.order("write", place=_place(stage, {"topic": topic}), rows=rows)
    elif case == READ:
        spark.order("read", place=_place(stage, {"subscribe": topic}))
    elif case == STREAM:
        place = _place(stage, {"subscribe": topic})
        spark.order("stream", place=place, checkpoint=checkpoint(stage), observed=False)
    else:
        original = written_topic(stage, contender)
        proxy.take_counts()
        places = {"place": _place(stage, {"subscribe": original}), "to": _place(stage, {"topic": topic})}
        spark.order("copy", **places, checkpoint=checkpoint(stage))
    return proxy.take_counts()


def _place(stage: Stage, options: dict[str, str]) -> dict[str, Any]:
    storage = stage.object_storage
    through_proxy = storage.options_through(storage.proxy(0))
    return {"format": "streamlog", "options": options | through_proxy, "path": LOG_URL}


def cases(scale: Scale) -> tuple[str, ...]:
    return WRITE, READ, STREAM, COPY


BENCH = Bench(
    name="objects-requests",
    what="requests to an object store and bytes, of Spark's work on rows of 100 B, 4 partitions, local[2]",
    how="through a proxy that counts; planning, commits and checkpoints of the log are part of it",
    verified="every row read back; the bytes that were moved are more than those of the values",
    figures=(
        Figure(name="requests", unit="requests/M rows", better=Better.LOWER),
        Figure(name="moved", unit="bytes/row", better=Better.LOWER),
    ),
    contenders=(Contender.OBJECTS,),
    cases=cases,
    run=run,
    needs=frozenset({"spark", "versitygw"}),
    is_warmed_up=False,
    is_by_name_only=True,
    full_seconds=240,
)
