"""The wiring: what Spark makes, and what it hands over."""

import pickle

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from broker_core.embedded.embedded_cluster import open_embedded
from spark_streamlog.source import StreamlogDataSource

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


def test_where_a_micro_batch_is_planned_its_driver_takes_over(options):
    for expected in ([0], [1]):
        StreamlogDataSource(options).streamWriter(SCHEMA, overwrite=False)
        assert driver_epochs(options) == expected


def test_a_data_source_that_was_handed_over_commits_and_must_not_take_over(options):
    handed_over = pickle.loads(pickle.dumps(StreamlogDataSource(options)))
    handed_over.streamWriter(SCHEMA, overwrite=False)
    assert driver_epochs(options) == []
