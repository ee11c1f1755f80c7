"""Rows per second of the Spark source and sink: batch write, batch read, AvailableNow stream, 100-byte values.

    pytest -m bench -s tests/bench/test_spark_throughput.py         10 million rows; STREAMLOG_BENCH_ROWS changes it

Prints a table of cold (first run in a session) and warm rates. Nothing here fails on a clock: what is checked is
that every row arrived.
"""

import os
import platform
import time
from importlib.metadata import version

import pytest
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.record import columns

ROWS = int(os.environ.get("STREAMLOG_BENCH_ROWS", "10000000"))
PARTITIONS = 4
RUNS = 3
pytestmark = [pytest.mark.bench, pytest.mark.spark, pytest.mark.timeout(1800)]


def rate_of(work):
    begin = time.perf_counter()
    work()
    return ROWS / (time.perf_counter() - begin)


def hundred_byte_values(spark):
    # Cheap to make, so that the sink is what is timed (lpad alone would cost as much as the sink): 100 characters,
    # different in each row.
    number = (F.col("id") + 10**11).cast("string")
    return spark.range(0, ROWS, 1, PARTITIONS).select(F.concat(number, F.lit("x" * 88)).alias("value"))


def write_run(spark, folder):
    with_log = open_embedded(str(folder), create=True)
    with_log.create_topic("bench", partition_count=PARTITIONS)
    with_log.close()
    hundred_byte_values(spark).write.format("streamlog").option("topic", "bench").mode("append").save(str(folder))


def read_run(spark, folder):
    frame = spark.read.format("streamlog").option("subscribe", "bench").load(str(folder))
    totals = frame.agg(F.count("*"), F.sum(F.length("value")), F.max("offset")).first()
    assert totals[0] == ROWS
    assert totals[1] == ROWS * 100


def stream_run(spark, folder, checkpoint):
    query = (
        spark.readStream.format("streamlog")
        .option("subscribe", "bench")
        .option("startingOffsets", "earliest")
        .load(str(folder))
        .writeStream.format("noop")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert sum(p["numInputRows"] for p in query.recentProgress) == ROWS


def test_print_rows_per_second(spark, tmp_path):
    rates = {"batch write": [], "batch read (count, sum, max)": [], "AvailableNow stream to noop": []}
    for run in range(RUNS):
        folder = tmp_path / f"log-{run}"
        rates["batch write"].append(rate_of(lambda folder=folder: write_run(spark, folder)))
    for _ in range(RUNS):
        rates["batch read (count, sum, max)"].append(rate_of(lambda: read_run(spark, folder)))
    for run in range(RUNS):
        checkpoint = tmp_path / f"checkpoint-{run}"
        rates["AvailableNow stream to noop"].append(
            rate_of(lambda checkpoint=checkpoint: stream_run(spark, folder, checkpoint))
        )
    table = Table(
        title=f"{ROWS:,} rows of 100 bytes, {PARTITIONS} partitions, local[2], {os.cpu_count()} cores\n"
        f"PySpark {version('pyspark')}, Python {platform.python_version()}, kernel {columns.KERNEL_NAME}"
    )
    for heading in ("work", "first run (rows/s)", "best later run (rows/s)"):
        table.add_column(heading, justify="left" if heading == "work" else "right")
    for work, runs in rates.items():
        table.add_row(work, f"{runs[0]:,.0f}", f"{max(runs[1:]):,.0f}")
    Console(width=110).print()
    Console(width=110).print(table)
