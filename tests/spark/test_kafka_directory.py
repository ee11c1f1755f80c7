"""`format("streamlog")` over a directory that a real Kafka wrote: what its consumer saw, and not one byte changed."""

import pytest
from golden_data import consumer_saw, fingerprint, unpack
from support.spark.stream_driver import StreamDriver


@pytest.fixture(scope="module")
def golden(tmp_path_factory):
    folder = unpack(tmp_path_factory.mktemp("golden"))
    before = fingerprint(folder / "log")
    yield folder
    assert fingerprint(folder / "log") == before


def as_a_consumer_sees(row):
    headers = None if row.headers is None else tuple((h.key, h.value) for h in row.headers)
    timestamp_ms = round(row.timestamp.timestamp() * 1000)
    return row.offset, timestamp_ms, row.timestampType, row.key, row.value, headers


@pytest.mark.parametrize(
    ("isolation", "split"),
    [
        pytest.param("read_committed", {}, marks=pytest.mark.long),
        pytest.param("read_uncommitted", {}, marks=pytest.mark.long),
        ("read_committed", {"minPartitions": "30"}),
        ("read_uncommitted", {"maxRecordsPerPartition": "400"}),
    ],
)
def test_a_batch_query_returns_the_records_of_kafkas_consumer(spark, golden, isolation, split):
    options = {"subscribePattern": "^[a-z-]+$", "includeHeaders": "true", "kafka.isolation.level": isolation}
    frame = spark.read.format("streamlog").options(**options, **split).load(str(golden / "log"))
    found = {}
    for row in frame.orderBy("topic", "partition", "offset").collect():
        found.setdefault((row.topic, row.partition), []).append(as_a_consumer_sees(row))
    expected = {
        partition: [(r.offset, r.timestamp_ms, r.timestamp_type, r.key, r.value, r.headers) for r in records]
        for partition, records in consumer_saw(golden, isolation).items()
        if records
    }
    assert found == expected


def test_a_stream_reads_kafkas_directory_in_small_batches(spark, golden, tmp_path):
    options = {"subscribe": "transactions,compacted,trimmed", "maxOffsetsPerTrigger": "100"}
    driver = StreamDriver(spark, str(golden / "log"), tmp_path, options, columns=("topic AS value",))
    values = driver.run_available_now()
    expected = consumer_saw(golden, "read_committed")
    topics = ("transactions", "compacted", "trimmed")
    assert {topic: values.count(topic) for topic in topics} == {topic: len(expected[(topic, 0)]) for topic in topics}
