"""The wiring: what Spark makes, and what it hands over."""

import pickle
import subprocess
import sys

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from broker_core.embedded.embedded_cluster import open_embedded
from spark_streamlog.data_source import StreamlogDataSource

QUERY_ID = "73186b39-922e-4208-9ce5-ca7bd052e63b"
SCHEMA = StructType([StructField("value", StringType())])


@pytest.fixture
def options(tmp_path):
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    (checkpoint / "metadata").write_text(f'{{"id":"{QUERY_ID}"}}')
    return {"path": str(tmp_path / "log"), "topic": "t", "checkpointlocation": str(checkpoint)}


def driver_epochs(options):
    with open_embedded(options["path"], create=True) as cluster:
        return [one.producer_epoch for one in cluster.list_transactions(prefix=f"{QUERY_ID}-driver")]


def test_planning_a_micro_batch_takes_over(options):
    for expected in ([0], [1]):
        StreamlogDataSource(options).streamWriter(SCHEMA, overwrite=False)
        assert driver_epochs(options) == expected


def test_a_pickled_data_source_commits_without_taking_over(options):
    handed_over = pickle.loads(pickle.dumps(StreamlogDataSource(options)))
    handed_over.streamWriter(SCHEMA, overwrite=False)
    assert driver_epochs(options) == []


PLANNED = """
import sys
from pyspark.sql.streaming.datasource import ReadAllAvailable
from spark_streamlog.data_source import StreamlogDataSource

source = StreamlogDataSource({options!r})
reader = source.streamReader(source.schema())
start = reader.initialOffset()
end = reader.latestOffset(start, ReadAllAvailable())
print(len(reader.partitions(start, end)), *sys.modules)
"""


def test_the_planning_process_imports_no_readers_sinks_or_test_modules(tmp_path):
    """A query waits for what it loads, each time that it is started."""
    with open_embedded(tmp_path / "log", create=True) as cluster:
        cluster.create_topic("t", partition_count=2)
    options = {"path": str(tmp_path / "log"), "subscribe": "t", "startingOffsets": "earliest"}
    code = PLANNED.format(options=options)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    planned, *loaded = done.stdout.split()
    assert planned == "0"  # there is nothing in the topic yet
    assert "spark_streamlog.source.stream_planner" in loaded
    assert not {"hypothesis", "pyarrow.compute", "scramp"} & set(loaded)
    behind_other_doors = ("batch_reader", "range_reader", "stream_writer", "batch_writer", "table_reader")
    assert not {f"spark_streamlog.{name}" for name in behind_other_doors} & set(loaded)
