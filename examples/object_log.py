"""A log on object storage: one stream writes two topics atomically, crashes, and writes nothing twice.

    pip install -e '.[examples,objects]' && python examples/object_log.py
    python examples/object_log.py --url s3://my-bucket/streamlog-example --option object.region=eu-central-1

1. writes payments to the topic `payments`, in a folder, or at the given URL;
2. a stream sends each payment to `accepted` or `refused`. A reader sees both topics change at the same instant;
3. simulates a crash after the sink has committed a batch and before Spark has logged that commit: the newest entry of
   Spark's commit log is deleted and the stream started again. Spark then runs the last batch a second time;
4. compares both topics with a computation that knows neither Spark nor the log.

Checkpoint and folder are left in `streamlog-objects/` below the current directory. There must be no log at the URL yet.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

from example_run import fresh_folder, start_spark
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from rich.console import Console

REFUSED_ABOVE = 900
SCHEMA = "id long, amount long"
TOPICS = ("payments", "accepted", "refused")
console = Console()


class ObjectLog:
    """The URL of the log and the options that reach its store."""

    def __init__(self, spark: SparkSession, url: str, options: dict[str, str]) -> None:
        self.spark = spark
        self.url = url
        self.options = options

    def write_payments(self, count: int) -> None:
        payments = self.spark.range(count).select("id", amount_of(F.col("id")).alias("amount"))
        rows = payments.select(F.col("id").cast("string").alias("key"), F.to_json(F.struct("*")).alias("value"))
        writer = rows.write.format("streamlog").options(**self.options).option("topic", "payments")
        writer.option("topic.partitions", 4).mode("append").save(self.url)

    def sort_payments(self, checkpoint: Path) -> None:
        """About three micro-batches; the column `topic` sends each row where it belongs."""
        payments = (
            self.spark.readStream.format("streamlog")
            .options(**self.options, subscribe="payments", startingOffsets="earliest", maxOffsetsPerTrigger=800)
            .load(self.url)
            .select("key", "value", F.from_json(F.col("value").cast("string"), SCHEMA).alias("payment"))
        )
        topic = F.when(F.col("payment.amount") > REFUSED_ABOVE, "refused").otherwise("accepted")
        query = (
            payments.select("key", "value", topic.alias("topic"))
            .writeStream.format("streamlog")
            .options(**self.options)
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start(self.url)
        )
        query.awaitTermination()

    def ids(self, topic: str) -> list[int]:
        frame = self.spark.read.format("streamlog").options(**self.options, subscribe=topic).load(self.url)
        return sorted(int(row.key) for row in frame.select(F.col("key").cast("string")).collect())


def amount_of(number: Any) -> Any:
    """For a column and for an int."""
    return number * 7919 % 1000


def forget_last_commit(checkpoint: Path) -> None:
    """What a crash leaves that comes after the sink's commit and before Spark's."""
    commits = checkpoint / "commits"
    newest = max(int(file.name) for file in commits.iterdir() if file.name.isdigit())
    for name in (str(newest), f".{newest}.crc"):
        (commits / name).unlink(missing_ok=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--path", type=Path, default=Path("streamlog-objects"), help="folder of this example")
    parser.add_argument("--url", help="the log; by default a folder of this example")
    parser.add_argument("--option", action="append", default=[], metavar="object.NAME=VALUE", help="can be repeated")
    parser.add_argument("--payments", type=int, default=2000, help="how many payments")
    arguments = parser.parse_args()
    folder = arguments.path.absolute()
    fresh_folder(folder, {"store", "checkpoint"})
    options = dict(option.split("=", 1) for option in arguments.option)
    spark = start_spark(folder, name="streamlog on object storage")
    log = ObjectLog(spark, arguments.url or f"objects://{folder}/store/log", options)
    log.write_payments(arguments.payments)
    log.sort_payments(folder / "checkpoint")
    forget_last_commit(folder / "checkpoint")
    console.print("Spark forgets that its last batch was committed, and starts again")
    log.sort_payments(folder / "checkpoint")
    expected = {
        "payments": list(range(arguments.payments)),
        "accepted": [number for number in range(arguments.payments) if amount_of(number) <= REFUSED_ABOVE],
        "refused": [number for number in range(arguments.payments) if amount_of(number) > REFUSED_ABOVE],
    }
    found = {topic: log.ids(topic) for topic in TOPICS}
    spark.stop()
    for topic in TOPICS:
        if found[topic] != expected[topic]:
            console.print(f"[bold red]{topic}: {len(found[topic])} rows, expected {len(expected[topic])}[/]")
    if found != expected:
        return 1
    console.print(
        f"All {arguments.payments:,} payments are in `accepted` ({len(found['accepted']):,}) or `refused` "
        f"({len(found['refused']):,}), each once. Log: {log.url}",
        soft_wrap=True,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
