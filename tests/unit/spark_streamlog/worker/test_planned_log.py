import os
import pickle
import shutil
import socket
from pathlib import Path

import pytest
from pyspark.sql.datasource import InputPartition
from support.builders.append_records import append_values
from support.spark.read_query import read_options

from broker_core.embedded.embedded_cluster import EmbeddedCluster
from broker_core.model.client_settings import parse_client_settings
from broker_core.model.exceptions import DirectoryFormatError
from broker_core.model.identifiers import TopicPartition
from spark_streamlog.errors import ConditionError
from spark_streamlog.open_cluster import open_for_writing
from spark_streamlog.options.option_reader import LogTarget
from spark_streamlog.source.batch_reader import StreamlogBatchReader
from spark_streamlog.worker.planned_log import PlannedLog, open_planned_log, open_to_plan, planned_log_to_write


@pytest.fixture
def target(tmp_path):
    return LogTarget(path=str(tmp_path / "log"))


def planned_log(target):
    with open_to_plan(target) as (_, log):
        return log


def another_log_in_place_of(path):
    """What an executor with file systems of its own has at the same path."""
    shutil.rmtree(path)
    with EmbeddedCluster(path, create=True) as cluster:
        cluster.create_topic("t")


def test_planning_a_write_creates_the_log_that_its_tasks_must_find(target):
    planned = planned_log_to_write(target)
    lines = Path(target.path, "meta.properties").read_text().splitlines()
    properties = dict(line.split("=") for line in lines if "=" in line)
    assert planned.log_id == f"{properties['cluster.id']}/{properties['directory.id']}"
    assert planned.host == socket.gethostname()
    assert planned_log_to_write(target) == planned_log(target) == planned
    cluster = open_planned_log(target, pickle.loads(pickle.dumps(planned)))
    cluster.create_topic("t")
    append_values(cluster, "t", "a")
    assert cluster.bounds(TopicPartition("t", 0)).log_end_offset == 1


def test_a_task_that_finds_another_log_names_host_path_and_remedy(target):
    planned = planned_log_to_write(target)
    another_log_in_place_of(target.path)
    with pytest.raises(ConditionError) as caught:
        open_planned_log(target, planned)
    assert caught.value.condition == "STREAMLOG_LOG_NOT_SHARED"
    text = str(caught.value)
    assert f"on host {socket.gethostname()} cannot use {target.path}: the log at this path has another id" in text
    assert planned.log_id in text
    assert "kafka.bootstrap.servers" in text


@pytest.mark.parametrize("what_is_there", ["nothing", "an empty directory", "other files"])
def test_a_task_that_finds_no_log_creates_none(target, what_is_there):
    planned = planned_log_to_write(target)
    open_planned_log(target, planned)
    shutil.rmtree(target.path)
    if what_is_there != "nothing":
        os.mkdir(target.path)
    if what_is_there == "other files":
        Path(target.path, "notes.txt").touch()
    before = os.listdir(target.path) if os.path.exists(target.path) else None
    with pytest.raises(ConditionError, match="STREAMLOG_LOG_NOT_SHARED.*the log " + planned.log_id):
        open_planned_log(target, planned)
    assert (os.listdir(target.path) if os.path.exists(target.path) else None) == before


def test_a_log_deleted_under_a_task_is_not_created_again_by_its_next_append(target):
    # The driver's side of the process may make logs, and opened it first.
    open_for_writing(target).create_topic("t")
    cluster = open_planned_log(target, planned_log(target))
    append_values(cluster, "t", "a")
    shutil.rmtree(target.path)
    with pytest.raises(DirectoryFormatError):
        append_values(cluster, "t", "b")
    with pytest.raises(DirectoryFormatError):
        cluster.create_topic("t")
    assert not os.path.exists(target.path)


def test_a_kafka_directory_without_ids_must_only_exist(target):
    open_for_writing(target).create_topic("t")
    unnamed = PlannedLog(host="driver", log_id="")
    assert "t" in open_planned_log(target, unnamed).describe_topics()
    shutil.rmtree(target.path)
    with pytest.raises(ConditionError, match="planned on host driver with the log \\(without an id\\)"):
        open_planned_log(target, unnamed)


def test_brokers_need_no_check_of_the_log_id():
    target = LogTarget(brokers=parse_client_settings({"bootstrap.servers": "localhost:1"}))
    assert planned_log(target) is planned_log_to_write(target) is None
    open_planned_log(target, None)


def test_a_task_reads_only_the_planned_log(target):
    cluster = open_for_writing(target)
    cluster.create_topic("t")
    append_values(cluster, "t", "a", "b")
    reader = StreamlogBatchReader(read_options(path=target.path))
    partitions = pickle.loads(pickle.dumps(reader.partitions()))
    assert all(isinstance(each, InputPartition) for each in partitions)
    assert [row for p in partitions for batch in reader.read(p) for row in batch.column("value").to_pylist()] == [
        b"a",
        b"b",
    ]
    another_log_in_place_of(target.path)
    with pytest.raises(ConditionError, match="STREAMLOG_LOG_NOT_SHARED"):
        [list(reader.read(p)) for p in partitions]
