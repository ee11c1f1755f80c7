"""Kafka's own DumpLogSegments accepts what the Spark sinks write, for each codec and with transactions."""

from __future__ import annotations

import pytest
from conformance.dumped_segments import data_files, dump
from support.brokers import kafka_tools
from support.spark.spark_session import spark

from broker_core.model.identifiers import CompressionType

__all__ = ["spark"]

pytestmark = pytest.mark.spark
CODECS = [codec.name.lower() for codec in CompressionType]
ROW_COUNT = 500
COLUMNS = [
    "cast(id as string) as key",
    "if(id % 7 = 0, null, encode(concat('value ', id), 'UTF-8')) as value",
    "array(named_struct('key', 'from', 'value', encode('spark', 'UTF-8'))) as headers",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    reason = kafka_tools.why_unavailable()
    if reason:
        pytest.skip(reason)
    return tmp_path_factory.mktemp("sink")


@pytest.fixture(scope="module")
def dumped(spark, folder):
    rows = spark.range(0, ROW_COUNT, numPartitions=2)
    for codec in CODECS:
        writer = rows.selectExpr(*COLUMNS).write.format("streamlog").mode("append")
        writer.option("topic", f"batch-{codec}").option("kafka.compression.type", codec).save(str(folder / "log"))
    rows.write.parquet(str(folder / "rows"))
    stream = spark.readStream.schema(rows.schema).parquet(str(folder / "rows")).selectExpr(*COLUMNS)
    query = stream.writeStream.format("streamlog").option("topic", "stream-zstd").trigger(availableNow=True)
    query = query.option("kafka.compression.type", "zstd").option("checkpointLocation", str(folder / "checkpoint"))
    query.start(str(folder / "log")).awaitTermination()
    return dump(data_files(folder / "log"), "--print-data-log")


@pytest.mark.parametrize("topic", [*(f"batch-{codec}" for codec in CODECS), "stream-zstd"])
def test_kafka_reads_what_the_sink_wrote(folder, dumped, topic):
    partition = folder / "log" / f"{topic}-0"
    lines = dumped.records(partition)
    markers = [line for line in lines if "endTxnMarker: COMMIT" in line]
    found = [line for line in lines if line not in markers]
    assert markers
    keys = {line.rsplit(" key: ", 1)[1].split(" ")[0] for line in found}
    assert keys == {str(number) for number in range(ROW_COUNT)}
    assert len(found) == ROW_COUNT
    assert all("headerKeys: [from]" in line for line in found)
    assert sum("valueSize: -1 " in line for line in found) == -(-ROW_COUNT // 7)
    codecs = dumped.codecs(partition)
    codecs["none"] -= len(markers)
    assert set(+codecs) == {topic.rsplit("-", 1)[1]}
