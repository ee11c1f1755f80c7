"""Orders become enriched orders, enriched orders become alerts: two exactly-once hops, each with a crash.

    pip install -e '.[examples]' && python examples/orders_alerts.py

1. writes orders in several currencies to the topic `orders`, keyed by customer;
2. a stream joins each with the rates, a table of its own, and writes it to `enriched`;
3. simulates a crash after the sink has committed a batch and before Spark has logged that commit: the newest entry of
   Spark's commit log is deleted and the stream started again. Spark then runs the last batch a second time;
4. a stream over `enriched` writes an alert for each customer and hour that spent too much to `alerts`, by
   `foreachBatch(write_to(…))` in update mode, with the same crash;
5. compares both topics with a computation that knows neither Spark nor the log.

Everything is left in `streamlog-orders/` below the current directory.
"""

import argparse
import random
import sys
from collections import Counter, defaultdict
from pathlib import Path

from example_run import fresh_folder, start_spark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

from spark_streamlog.foreach_batch import write_to

RATES = {"EUR": 100, "USD": 92, "GBP": 117, "CHF": 106}
"""Cents of a euro for one unit."""
ALERT_ABOVE_CENTS = 200_000
"""What a customer may spend in an hour."""
ORDER_SCHEMA = "order_id long, customer string, hour int, amount long, currency string"
ENRICHED_SCHEMA = "order_id long, customer string, hour int, euro_cents long"
console = Console()


def make_orders(count: int) -> list[tuple[int, str, int, int, str]]:
    """The same orders at every run: (order, customer, hour of the day, amount, currency)."""
    dice = random.Random(42)
    currencies = list(RATES)
    return [
        (
            number,
            f"customer-{dice.randrange(40):02}",
            number * 24 // count,
            dice.randrange(1, 900),
            dice.choice(currencies),
        )
        for number in range(count)
    ]


def write_orders(spark: SparkSession, orders: list[tuple[int, str, int, int, str]], log: Path) -> None:
    # One task: rows of several tasks stand in a partition as the tasks happened to write them.
    frame = spark.createDataFrame(orders, ORDER_SCHEMA).coalesce(1)
    rows = frame.select(F.col("customer").alias("key"), F.to_json(F.struct("*")).alias("value"))
    rows.write.format("streamlog").option("topic", "orders").option("topic.partitions", 4).mode("append").save(str(log))


def read_stream(spark: SparkSession, topic: str, schema: str, log: Path) -> DataFrame:
    """The topic's JSON values as columns; about three micro-batches a run."""
    return (
        spark.readStream.format("streamlog")
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 1200)
        .load(str(log))
        .select(F.from_json(F.col("value").cast("string"), schema).alias("order"))
        .select("order.*")
    )


def enrich(spark: SparkSession, log: Path, checkpoint: Path) -> None:
    """`orders` to `enriched`: the sink is exactly-once by itself."""
    rates = spark.createDataFrame(list(RATES.items()), "currency string, cents long")
    enriched = (
        read_stream(spark, "orders", ORDER_SCHEMA, log)
        .join(F.broadcast(rates), "currency")
        .select("order_id", "customer", "hour", (F.col("amount") * F.col("cents")).alias("euro_cents"))
    )
    query = (
        enriched.select(F.col("customer").alias("key"), F.to_json(F.struct("*")).alias("value"))
        .writeStream.format("streamlog")
        .option("topic", "enriched")
        .option("topic.partitions", 2)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start(str(log))
    )
    query.awaitTermination()


def alert(spark: SparkSession, log: Path, checkpoint: Path) -> None:
    """`enriched` to `alerts`, in update mode: a batch that was written already, by its number, writes nothing."""
    spent = (
        read_stream(spark, "enriched", ENRICHED_SCHEMA, log)
        .groupBy("customer", "hour")
        .agg(F.sum("euro_cents").alias("euro_cents"))
        .where(F.col("euro_cents") > ALERT_ABOVE_CENTS)
    )

    query = (
        spent.select(F.concat_ws(" ", "customer", "hour").alias("key"), F.to_json(F.struct("*")).alias("value"))
        .writeStream.outputMode("update")
        .foreachBatch(write_to(str(log), topic="alerts"))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def forget_last_commit(checkpoint: Path) -> None:
    """What a crash leaves that comes after the sink's commit and before Spark's."""
    commits = checkpoint / "commits"
    newest = max(int(file.name) for file in commits.iterdir() if file.name.isdigit())
    for file in commits.glob(f"*{newest}*"):
        if file.name in (str(newest), f".{newest}.crc"):
            file.unlink()


def read_topic(spark: SparkSession, topic: str, schema: str, log: Path) -> list:
    frame = spark.read.format("streamlog").option("subscribe", topic).load(str(log)).orderBy("partition", "offset")
    return frame.select(F.from_json(F.col("value").cast("string"), schema).alias("order")).select("order.*").collect()


def check(spark: SparkSession, orders: list[tuple[int, str, int, int, str]], log: Path) -> list[str]:
    """What differs from the plain computation; nothing, if all is well."""
    expected = Counter(
        (number, customer, hour, amount * RATES[currency]) for number, customer, hour, amount, currency in orders
    )
    enriched = [tuple(row) for row in read_topic(spark, "enriched", ENRICHED_SCHEMA, log)]
    complaints = []
    if Counter(enriched) != expected:
        complaints.append(
            f"enriched: {len(enriched)} rows, {len(set(enriched))} of them different, expected {len(orders)}"
        )
    by_customer = defaultdict(list)
    for number, customer, _, _ in enriched:
        by_customer[customer].append(number)
    complaints += [f"{customer}: out of order" for customer, seen in by_customer.items() if seen != sorted(seen)]
    spent: Counter[tuple[str, int]] = Counter()
    for (_, customer, hour, cents), count in expected.items():
        spent[customer, hour] += cents * count
    should = {key: cents for key, cents in spent.items() if cents > ALERT_ABOVE_CENTS}
    alerts = read_topic(spark, "alerts", "customer string, hour int, euro_cents long", log)
    # An hour in several batches is alerted again whenever its sum has grown; no alert is written twice.
    if len({tuple(a) for a in alerts}) != len(alerts):
        complaints.append(f"alerts: {len(alerts)} rows, but only {len({tuple(a) for a in alerts})} different ones")
    if {(a.customer, a.hour): a.euro_cents for a in alerts} != should:
        complaints.append(f"alerts: they name other customers, hours or sums than the {len(should)} that are due")
    show(alerts, len(enriched))
    return complaints


def show(alerts: list, enriched_count: int) -> None:
    table = Table(title=f"Largest of {len(alerts)} alerts, from {enriched_count:,} enriched orders")
    for heading in ("customer", "hour", "spent"):
        table.add_column(heading, justify="left" if heading == "customer" else "right")
    for a in sorted(alerts, key=lambda a: -a.euro_cents)[:5]:
        table.add_row(a.customer, f"{a.hour:02}:00", f"{a.euro_cents / 100:,.2f} EUR")
    console.print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--path", type=Path, default=Path("streamlog-orders"), help="folder of this example")
    parser.add_argument("--orders", type=int, default=3000, help="how many orders")
    arguments = parser.parse_args()
    folder = arguments.path.absolute()
    fresh_folder(folder, {"log", "enrich", "alert"})
    log, orders = folder / "log", make_orders(arguments.orders)
    spark = start_spark(folder, name="streamlog orders")
    write_orders(spark, orders, log)
    for hop, checkpoint in ((enrich, folder / "enrich"), (alert, folder / "alert")):
        hop(spark, log, checkpoint)
        forget_last_commit(checkpoint)
        console.print(f"{hop.__name__}: Spark forgets that its last batch was committed, and starts again")
        hop(spark, log, checkpoint)
    complaints = check(spark, orders, log)
    spark.stop()
    for complaint in complaints:
        console.print(f"[bold red]{complaint}[/]")
    if not complaints:
        console.print(
            f"All {len(orders):,} orders are in `enriched` once and in order, and every alert once. Log: {log}"
        )
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
