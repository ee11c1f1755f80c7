"""The inside of a Spark process: does what it is ordered on stdin, line by line, and says how long it took.

A place is {"format", "options", "path"}: our directory, a broker through ours, a broker through Spark's connector.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.row_values import DIGITS, FIRST_NUMBER
from bench.spark_process import ANSWER_MARK
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

PARTITIONS = 4
VALUE_BYTES = 100


def start_session(folder: Path, jars: str) -> SparkSession:
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("bench")
        .config("spark.driver.memory", "2g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.numRecentProgressUpdates", "20000")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
    )
    if jars:
        builder = builder.config("spark.driver.extraClassPath", jars)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def tally() -> list[Any]:
    """Aggregates that make a `Tally` of any reader's values."""
    number = F.substring(F.col("value").cast("string"), 1, DIGITS).cast("long") - FIRST_NUMBER
    return [
        F.count("*").alias("count"),
        F.coalesce(F.sum(F.length("value")), F.lit(0)).alias("value_bytes"),
        F.coalesce(F.sum(number), F.lit(0)).alias("numbers"),
    ]


def write(spark: SparkSession, place: dict[str, Any], rows: int) -> dict[str, Any]:
    # Cheap to make, so that the sink is what is timed.
    number = (F.col("id") + FIRST_NUMBER).cast("string")
    value = F.concat(number, F.lit("x" * (VALUE_BYTES - DIGITS))).alias("value")
    writer = spark.range(0, rows, 1, PARTITIONS).select(value).write.format(place["format"]).mode("append")
    writer = writer.options(**place["options"])
    begin = time.perf_counter()
    writer.save(place["path"]) if place["path"] else writer.save()
    return {"seconds": time.perf_counter() - begin}


def read(spark: SparkSession, place: dict[str, Any]) -> dict[str, Any]:
    reader = spark.read.format(place["format"]).options(**place["options"])
    frame = reader.load(place["path"]) if place["path"] else reader.load()
    begin = time.perf_counter()
    count, value_bytes, last = frame.agg(F.count("*"), F.sum(F.length("value")), F.max("offset")).first()
    seconds = time.perf_counter() - begin
    return {"seconds": seconds, "count": count, "value_bytes": value_bytes, "max_offset": last}


def count_all(spark: SparkSession, place: dict[str, Any]) -> dict[str, Any]:
    reader = spark.read.format(place["format"]).options(**place["options"])
    frame = reader.load(place["path"]) if place["path"] else reader.load()
    return frame.agg(*tally()).first().asDict()


def stream(spark: SparkSession, place: dict[str, Any], checkpoint: str, observed: bool) -> dict[str, Any]:
    """AvailableNow to noop. Observed: with a tally of the rows that came, which costs."""
    frame = stream_of(spark, place)
    observation = Observation("tally") if observed else None
    if observed:
        frame = frame.observe("tally", *tally())
    writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).trigger(availableNow=True)
    begin = time.perf_counter()
    query = writer.start()
    query.awaitTermination()
    seconds = time.perf_counter() - begin
    answer = {"seconds": seconds, **progress_of(query)}
    if observation is not None:
        rows = [one["observedMetrics"]["tally"].asDict() for one in query.recentProgress if one["observedMetrics"]]
        answer["tally"] = {name: sum(row[name] for row in rows) for name in ("count", "value_bytes", "numbers")}
    return answer


def copy(spark: SparkSession, place: dict[str, Any], to: dict[str, Any], checkpoint: str) -> dict[str, Any]:
    """AvailableNow, topic to topic."""
    writer = stream_of(spark, place).select("value").writeStream.format(to["format"]).options(**to["options"])
    writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    begin = time.perf_counter()
    query = writer.start(to["path"]) if to["path"] else writer.start()
    query.awaitTermination()
    return {"seconds": time.perf_counter() - begin, **progress_of(query)}


class NoopStream:
    """A stream to noop as fast as it goes; one at a time."""

    def __init__(self) -> None:
        self._query: StreamingQuery | None = None

    def begin(self, spark: SparkSession, place: dict[str, Any], checkpoint: str) -> dict[str, Any]:
        writer = stream_of(spark, place).writeStream.format("noop").option("checkpointLocation", checkpoint)
        self._query = writer.start()
        return {}

    def count(self, spark: SparkSession) -> dict[str, Any]:
        """Batches with rows so far."""
        assert self._query is not None, "no stream was begun"
        if self._query.exception() is not None:
            raise self._query.exception()
        return {"batches": sum(1 for one in self._query.recentProgress if one["numInputRows"])}

    def end(self, spark: SparkSession, rows: int, settle_batches: int) -> dict[str, Any]:
        """Waits until all rows were seen; the times of batches with rows, without the first ones."""
        query = self._query
        assert query is not None, "no stream was begun"
        deadline = time.monotonic() + 60
        while sum(one["numInputRows"] for one in query.recentProgress) < rows and time.monotonic() < deadline:
            time.sleep(0.2)
        query.stop()
        batches = [one for one in query.recentProgress if one["numInputRows"]]
        kept = batches[settle_batches:]
        return {
            **progress_of(query),
            "times_ms": [one["durationMs"]["triggerExecution"] for one in kept],
            "phases_ms": {
                phase: sorted(one["durationMs"].get(phase, 0) for one in kept)[len(kept) // 2] if kept else 0
                for phase in ("latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets")
            },
        }


def stream_of(spark: SparkSession, place: dict[str, Any]) -> DataFrame:
    reader = spark.readStream.format(place["format"]).options(**place["options"])
    reader = reader.option("startingOffsets", "earliest")
    return reader.load(place["path"]) if place["path"] else reader.load()


def progress_of(query: StreamingQuery) -> dict[str, Any]:
    """Rows, and whether the batches' offsets follow one another without a gap."""
    sources = [one["sources"][0] for one in query.recentProgress if one["numInputRows"]]
    pairs = itertools.pairwise(sources)
    return {
        "rows": sum(one["numInputRows"] for one in query.recentProgress),
        "is_gapless": all(first["endOffset"] == second["startOffset"] for first, second in pairs),
    }


def main() -> None:
    spark = start_session(Path(sys.argv[1]), sys.argv[2])
    micro = NoopStream()
    works: dict[str, Callable[..., dict[str, Any]]] = {
        "write": write, "read": read, "count_all": count_all, "stream": stream, "copy": copy,
        "begin_micro_batches": micro.begin, "count_micro_batches": micro.count, "end_micro_batches": micro.end,
    }  # fmt: skip
    answer({"version": spark.version})
    for line in sys.stdin:
        arguments = json.loads(line)
        try:
            found = works[arguments.pop("work")](spark, **arguments)
        except Exception as error:
            found = {"error": f"{type(error).__name__}: {str(error)[:2000]}"}
        answer(found)
    spark.stop()


def answer(found: dict[str, Any]) -> None:
    print(ANSWER_MARK + json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
