"""What many partitions cost a micro-batch that has little in each: a program by itself, beside the hour of the others.

    python tests/bench/many_partitions.py 1000          partitions; with a directory of ours
    python tests/bench/many_partitions.py 1000 127.0.0.1:9092     the same at a broker

An availableNow stream to noop takes three rows of each partition in each of six micro-batches. Printed are the times of
whole triggers: the first one, which starts what Spark starts once, and the median of the others.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from pyspark.sql import SparkSession

from broker_core.client.cluster_client import open_remote
from broker_core.cluster import Cluster
from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.model.client_settings import parse_client_settings
from broker_core.model.identifiers import TopicPartition
from broker_core.record.batch_builder import build_batch
from broker_core.record.batch_reader import Record

ROWS, BATCHES = 3, 6


def fill(cluster: Cluster, topic: str, partitions: int) -> None:
    cluster.create_topic(topic, partition_count=partitions)
    values = [Record(value=b"x" * 100) for _ in range(ROWS)]
    for _ in range(BATCHES):
        for partition in range(partitions):
            cluster.append(TopicPartition(topic, partition), build_batch(values))


def measure(options: dict[str, str], path: str | None, checkpoint: Path, partitions: int) -> list[int]:
    """Milliseconds of each micro-batch."""
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    limit = str(partitions * ROWS)
    reader = spark.readStream.format("streamlog").options(**options)
    reader = reader.options(startingOffsets="earliest", maxOffsetsPerTrigger=limit)
    frame = reader.load(path) if path else reader.load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    progress = [one for one in query.recentProgress if one["numInputRows"]]
    spark.stop()
    assert [one["numInputRows"] for one in progress] == [partitions * ROWS] * BATCHES, progress
    return [one["durationMs"]["triggerExecution"] for one in progress]


def main() -> None:
    partitions = int(sys.argv[1])
    brokers = sys.argv[2] if len(sys.argv) > 2 else None
    with tempfile.TemporaryDirectory() as folder:
        path = None if brokers else f"{folder}/log"
        topic = f"many-{Path(folder).name}"
        cluster: Cluster
        if brokers:
            cluster = open_remote(parse_client_settings({"bootstrap.servers": brokers}))
        else:
            cluster = open_embedded(f"{folder}/log", create=True)
        with closing(cluster):
            fill(cluster, topic, partitions)
        options = {"subscribe": topic} | ({"kafka.bootstrap.servers": brokers} if brokers else {})
        times = measure(options, path, Path(folder) / "checkpoint", partitions)
    print(f"{partitions} partitions: first {times[0]} ms, then {statistics.median(times[1:]):.0f} ms: {times[1:]}")


if __name__ == "__main__":
    main()
