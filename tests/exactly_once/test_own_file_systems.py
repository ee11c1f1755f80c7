"""Executors that do not see the driver's directory: at its path each has an empty one of its own."""

import json
import re

import pytest
from exactly_once.spark_process import QueryFailed, SparkProcess
from exactly_once.standalone_cluster import StandaloneCluster, why_no_mounts_of_their_own
from support.builders.append_records import append_values

from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.model.identifiers import TopicPartition

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture
def shared_by_nobody(tmp_path):
    if reason := why_no_mounts_of_their_own():
        pytest.skip(reason)
    folder = tmp_path / "driver's own"
    folder.mkdir()
    return folder


def test_a_query_whose_executors_lack_the_drivers_log_fails_by_name(shared_by_nobody, tmp_path):
    directory = shared_by_nobody / "log"
    with open_embedded(directory, create=True) as cluster:
        cluster.create_topic("in")
        append_values(cluster, "in", "a", "b")
        cluster.create_topic("out")
    where = {"directory": str(directory)}
    stream = where | {"checkpoint": str(tmp_path / "checkpoint")}
    queries = [("count_rows", where | {"topic": "in"})]
    for delivery in ("at-least-once", "exactly-once"):
        queries.append(("write_batch", where | {"count": 8, "word": "w", "delivery": delivery}))
        queries.append(("copy_numbers", stream | {"checkpoint": str(tmp_path / delivery), "delivery": delivery}))
    kills = tmp_path / "kills"
    with (
        StandaloneCluster(kills, not_shared=shared_by_nobody) as standalone,
        SparkProcess(kills, master=standalone.master, environment=standalone.environment) as spark,
    ):
        for function, arguments in queries:
            with pytest.raises(QueryFailed) as caught:
                spark.call(function, **arguments)
            said = str(caught.value)
            assert "[STREAMLOG_LOG_NOT_SHARED]" in said, (function, json.dumps(arguments), said[:2000])
            assert re.search(r"A task on host \S+ cannot use " + re.escape(str(directory)), said)
            assert "kafka.bootstrap.servers" in said
    with open_embedded(directory) as cluster:
        assert cluster.bounds(TopicPartition("out", 0)).log_end_offset == 0
