"""Spark Connect: the same format, without a JAR on the client. The server is in the JVM of the session that all tests
share; tests/object_stores/test_connect_and_submit.py has one in a process of its own."""

import os
import subprocess
import sys

import pytest
from support.builders.stored_records import stored_values

pytest.importorskip("grpc", reason="Spark Connect needs grpcio: pip install -e '.[test]'")

CLIENT = """
import sys
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

address, log, checkpoint = sys.argv[1:]
spark = SparkSession.builder.remote(address).getOrCreate()
assert type(spark).__module__.startswith("pyspark.sql.connect"), type(spark)
numbers = spark.range(1000).select(F.col("id").cast("string").alias("key"), F.col("id").cast("string").alias("value"))
numbers.write.format("streamlog").option("topic", "in").option("topic.partitions", 2).mode("append").save(log)
batch = spark.read.format("streamlog").option("subscribe", "in").load(log)
print("batch", batch.count(), batch.columns)
stream = spark.readStream.format("streamlog").option("subscribe", "in").option("startingOffsets", "earliest").load(log)
query = (
    stream.select("key", "value").writeStream.format("streamlog").option("topic", "out")
    .option("checkpointLocation", checkpoint).trigger(availableNow=True).start(log)
)
query.awaitTermination()
print("stream", sum(p["sink"]["numOutputRows"] for p in query.recentProgress))
try:
    numbers.write.format("streamlog").mode("append").save(log)
except Exception as refusal:
    print("refused", "STREAMLOG_INVALID_SINK_COLUMNS" in str(refusal))
from spark_streamlog.functions import from_avro, from_int, to_avro

schema = '{"type":"record","name":"r","fields":[{"name":"id","type":"long"}]}'
typed = batch.select(to_avro(F.struct(F.col("key").cast("string").cast("long").alias("id")), schema).alias("avro"))
print("typed", typed.select(from_avro("avro", schema).alias("v")).agg(F.sum("v.id")).collect()[0][0])
try:
    batch.select(from_int("value")).collect()
except Exception as refusal:
    print("corrupt", "STREAMLOG_CORRUPT_VALUE" in str(refusal))
typed = spark.range(3).select(F.struct("id").alias("value"))
formats = {"valueFormat": "avro", "valueFormat.schema": schema}
typed.write.format("streamlog").options(topic="avro", **formats).mode("append").save(log)
found = spark.read.format("streamlog").options(subscribe="avro", **formats).load(log)
print("columns", found.agg(F.sum("value.id")).collect()[0][0])
from spark_streamlog.foreach_batch import write_to

counts = stream.groupBy("partition").count().select(F.col("count").cast("string").alias("value"))
for app_id in ("counts", None):
    query = (
        counts.writeStream.outputMode("update").foreachBatch(write_to(log, topic="counts", app_id=app_id))
        .option("checkpointLocation", f"{checkpoint}-{app_id}").trigger(availableNow=True).start()
    )
    try:
        query.awaitTermination()
        print("each", app_id)
    except Exception as refusal:
        print("each", "STREAMLOG_FOREACH_BATCH_NEEDS_APP_ID" in str(refusal))
spark.stop()
"""


@pytest.mark.timeout(300)
def test_a_connect_client_writes_reads_and_streams(connect_address, log_dir, tmp_path):
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    client = subprocess.run(
        [sys.executable, "-c", CLIENT, connect_address, log_dir, str(tmp_path / "checkpoint")],
        env=inherited,
        capture_output=True,
        text=True,
        timeout=200,
        cwd=tmp_path,  # not the checkout: the client needs nothing of ours
        check=False,
    )
    assert client.returncode == 0, client.stderr[-3000:]
    lines = client.stdout.splitlines()
    columns = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert f"batch 1000 {columns}" in lines
    assert "stream 1000" in lines
    assert "refused True" in lines
    assert f"typed {sum(range(1000))}" in lines
    assert "corrupt True" in lines
    assert "columns 3" in lines
    assert lines[-2:] == ["each counts", "each True"], client.stderr[-3000:]
    assert sum(int(value) for value in stored_values(log_dir, "counts")) == 1000
    assert sorted(stored_values(log_dir, "out")) == sorted(b"%d" % number for number in range(1000))
