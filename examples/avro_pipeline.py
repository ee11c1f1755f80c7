"""Typed columns in, typed columns out: Avro with a schema registry, in a stream and without a JAR.

    pip install -e '.[examples]' && python examples/avro_pipeline.py

1. writes readings of sensors to the topic `readings` as Avro in Confluent's wire format; their schema is registered in
   a registry, here a JSON file (with `valueFormat.registry.url` it is one that is reached over HTTP);
2. appends a value that is not Avro;
3. a stream reads `readings` as a typed column, writes the corrupt value with the reason to the topic `broken`, and
   writes the mean of each sensor and hour to `means`, Avro again;
4. reads `means` and compares it with a computation that knows neither Spark nor Avro.

Everything is left in `streamlog-avro/` below the current directory.
"""

import argparse
import sys
from collections import defaultdict
from pathlib import Path

from example_run import fresh_folder, start_spark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

READING_SCHEMA = """{
  "type": "record", "name": "Reading", "namespace": "com.example.sensors",
  "fields": [
    {"name": "sensor", "type": "string"},
    {"name": "taken", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "celsius", "type": ["null", "double"], "default": null}
  ]
}"""
SENSOR_COUNT = 12
FIRST_SECOND = 1_750_000_000 // 3600 * 3600
console = Console()


def formats(folder: Path, **more: str) -> dict[str, str]:
    """The options that make typed columns of keys and values, the same for source and sink."""
    return {
        "keyFormat": "string",
        "valueFormat": "avro",
        "valueFormat.registry.file": str(folder / "registry.json"),
        **more,
    }


def make_readings(count: int) -> list[tuple[str, int, float | None]]:
    """The same at every run: (sensor, seconds, degrees or nothing), one every ten seconds in turn."""
    return [
        (
            f"sensor-{n % SENSOR_COUNT:02}",
            FIRST_SECOND + 10 * n,
            None if n % 97 == 0 else round(15 + n * 7 % 101 / 10, 1),
        )
        for n in range(count)
    ]


def write_readings(spark: SparkSession, readings: list[tuple[str, int, float | None]], folder: Path) -> None:
    frame = spark.createDataFrame(readings, "sensor string, taken long, celsius double")
    value = F.struct("sensor", F.timestamp_seconds("taken").alias("taken"), "celsius")
    rows = frame.select(F.col("sensor").alias("key"), value.alias("value"))
    options = formats(folder, **{"valueFormat.schema": READING_SCHEMA})
    rows.write.format("streamlog").options(**options).option("topic", "readings").mode("append").save(
        str(folder / "log")
    )


def write_something_broken(spark: SparkSession, log: Path) -> None:
    broken = spark.sql("select 'sensor-03' as key, 'not Avro at all' as value")
    broken.write.format("streamlog").option("topic", "readings").mode("append").save(str(log))


def run_stream(spark: SparkSession, folder: Path) -> None:
    log = str(folder / "log")
    readings = (
        spark.readStream.format("streamlog")
        .options(**formats(folder))
        .option("subscribe", "readings")
        .option("startingOffsets", "earliest")
        .load(log)
    )

    def write_both(batch: DataFrame, batch_id: int) -> None:
        batch.persist()
        means = (
            batch.where("value is not null")
            .groupBy(F.col("value.sensor").alias("sensor"), F.date_trunc("hour", "value.taken").alias("hour"))
            .agg(F.avg("value.celsius").alias("celsius"), F.count("*").alias("readings"))
        )
        typed = means.select(F.col("sensor").alias("key"), F.struct("*").alias("value"))
        aside = batch.where("_corrupt is not null").select("key", F.col("_corrupt").alias("value"))
        for frame, topic, options in ((typed, "means", formats(folder)), (aside, "broken", {})):
            (
                frame.write.format("streamlog")
                .options(**options)
                .option("topic", topic)
                .option("txnAppId", f"avro-pipeline-{topic}")
                .option("txnVersion", batch_id)
                .mode("append")
                .save(log)
            )
        batch.unpersist()

    query = (
        readings.writeStream.foreachBatch(write_both)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def check(spark: SparkSession, readings: list[tuple[str, int, float | None]], folder: Path) -> list[str]:
    """What differs from the plain computation; nothing, if all is well."""
    log = str(folder / "log")
    means = spark.read.format("streamlog").options(**formats(folder)).option("subscribe", "means").load(log)
    console.print(
        f"The column value of the topic means: {means.schema['value'].dataType.simpleString()}", soft_wrap=True
    )
    found = means.select(
        "value.sensor", F.unix_timestamp("value.hour").alias("hour"), "value.celsius", "value.readings"
    )
    rows = {(row.sensor, row.hour): (row.celsius, row.readings) for row in found.collect()}
    taken = defaultdict(list)
    for sensor, second, celsius in readings:
        taken[sensor, second // 3600 * 3600].append(celsius)
    complaints = []
    if rows.keys() != taken.keys():
        complaints.append(f"means: {len(rows)} sensors and hours, expected {len(taken)}")
    for key in rows.keys() & taken.keys():
        known = [celsius for celsius in taken[key] if celsius is not None]
        if rows[key][1] != len(taken[key]) or abs(rows[key][0] - sum(known) / len(known)) > 1e-9:
            complaints.append(f"means: {key} is {rows[key]}")
    broken = (
        spark.read.format("streamlog").option("subscribe", "broken").load(log).selectExpr("string(value)").collect()
    )
    if len(broken) != 1:
        complaints.append(f"broken: {len(broken)} values, expected one")
    else:
        console.print(f"Corrupt value: {broken[0].value}", soft_wrap=True)
    show(rows)
    return complaints


def show(rows: dict[tuple[str, int], tuple[float, int]]) -> None:
    table = Table(title="Warmest hours, from the topic means")
    for heading in ("sensor", "hour", "mean", "readings"):
        table.add_column(heading, justify="left" if heading == "sensor" else "right")
    for (sensor, hour), (celsius, count) in sorted(rows.items(), key=lambda item: -item[1][0])[:5]:
        table.add_row(sensor, f"{(hour - FIRST_SECOND) // 3600:02}", f"{celsius:.2f} °C", str(count))
    console.print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--path", type=Path, default=Path("streamlog-avro"), help="folder of this example")
    folder = parser.parse_args().path.absolute()
    fresh_folder(folder, {"log", "checkpoint", "registry.json"})
    readings = make_readings(5000)
    spark = start_spark(folder, name="streamlog avro")
    write_readings(spark, readings, folder)
    write_something_broken(spark, folder / "log")
    run_stream(spark, folder)
    complaints = check(spark, readings, folder)
    spark.stop()
    for complaint in complaints:
        console.print(f"[bold red]{complaint}[/]")
    if not complaints:
        console.print(f"All {len(readings):,} readings are in the means. Log and registry: {folder}", soft_wrap=True)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
