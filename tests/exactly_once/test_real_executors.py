"""Executors that are processes of their own, and one of them killed: with the package installed, and shipped."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from exactly_once.kill_matrix import KillMatrix
from exactly_once.kill_orders import Kill, KillFolder
from exactly_once.kill_stories import task_kill
from exactly_once.shipped_package import build_archive, python_without_us
from exactly_once.spark_process import CONF, HERE, SparkProcess
from exactly_once.standalone_cluster import StandaloneCluster, home_of_its_own
from exactly_once.watching_reader import WatchingReader

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

LOCAL_CLUSTER = "local-cluster[2,1,1024]"


@pytest.fixture
def matrix(tmp_path):
    matrix = KillMatrix(tmp_path, KillFolder(tmp_path / "kills"))
    yield matrix
    matrix.close()


def test_a_killed_executor_and_a_retried_stage_lose_and_repeat_no_row(matrix, tmp_path):
    matrix.watch(WatchingReader(matrix.place, matrix.checkpoint, is_source_order_kept=False))
    home = {"SPARK_HOME": str(home_of_its_own(tmp_path / "home"))}
    with SparkProcess(matrix.kills.path, master=LOCAL_CLUSTER, environment=home, log_level="WARN") as spark:
        for keys_shuffled, kill in (
            (False, Kill(step="TASK_APPENDED")),
            (False, Kill(step="PARTITIONS_ADDED", nth=2)),
            # The first of three tasks that read what both executors have shuffled takes one of them with it.
            (True, Kill(step="TASK_FLUSHED")),
            (True, Kill(step="TASK_FLUSHED", nth=2)),
        ):
            matrix.add_batches(2)
            matrix.kills.order(kill.of("executor"))
            spark.call(
                "copy_stream",
                directory=matrix.place,
                checkpoint=str(matrix.checkpoint),
                max_offsets=15,
                keys_shuffled=keys_shuffled,
            )
            matrix.note_hits("an executor dies", (kill.of("executor"),))
        assert matrix.finish(spark, is_source_order_kept=False) == []
        assert "FetchFailed" in spark.log_path.read_text(), "no stage was tried again"


def test_a_speculative_attempt_writes_no_row_twice(matrix):
    # Spark does that neither in local[n] nor in local-cluster: a copy runs on another host.
    matrix.watch(WatchingReader(matrix.place, matrix.checkpoint))
    conf = {
        "spark.speculation": "true",
        "spark.speculation.interval": "20ms",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.minTaskRuntime": "50ms",
    }
    with (
        StandaloneCluster(matrix.kills.path) as cluster,
        SparkProcess(matrix.kills.path, master=cluster.master, conf=conf, environment=cluster.environment) as spark,
    ):
        for step in ("TASK_MAY_WRITE", "PARTITIONS_ADDED", "TASK_APPENDED", "TASK_FLUSHED"):
            matrix.add_batches(2)
            slow = task_kill(step, task=2, action="wait")
            matrix.kills.order(slow, task_kill("TASK_FLUSHED", task=2, attempt=1, action="go"))
            matrix.begin_copy(spark)
            assert matrix.end_copy(spark) is None, step
            matrix.note_hits("a slow task", (slow, task_kill("TASK_FLUSHED", task=2, attempt=1, action="go")))
        assert matrix.finish(spark) == []


def test_a_killed_executor_with_the_shipped_package_loses_and_repeats_no_row(matrix, tmp_path):
    python = python_without_us(tmp_path)
    # Not from the folder where the tests run, where Python would find the package.
    missing = subprocess.run(
        [python, "-c", "import spark_streamlog"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "ModuleNotFoundError" in missing.stderr
    archive, home = build_archive(tmp_path / "streamlog.zip"), home_of_its_own(tmp_path / "home")
    for kills in ((Kill(step="TASK_FLUSHED", victims="executor"),), ()):
        matrix.add_batches(2)
        matrix.kills.order(*kills)
        result = submit(matrix, python, archive, home)
        assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
        matrix.note_hits("shipped", kills)
    homes = {note["package"] for note in matrix.kills.passed()}
    assert homes, "nothing was noted"
    assert all(".zip/" in home for home in homes), homes
    of_tasks = {note["package"] for note in matrix.kills.passed() if note["step"].startswith("TASK")}
    # In an executor's own folder, where Spark puts what was shipped.
    assert {Path(home).parts[0] for home in of_tasks} == {archive.name}, of_tasks
    matrix.kills.order()
    with SparkProcess(matrix.kills.path) as spark:
        assert matrix.finish(spark) == []


def submit(matrix, python, archive, home):
    request = {
        "function": "copy_stream",
        "arguments": {"directory": matrix.place, "checkpoint": str(matrix.checkpoint), "max_offsets": 15},
    }
    environment = os.environ | {
        # The driver's side: Spark looks for data sources, and runs the source of a stream, without the shipped files.
        "PYTHONPATH": str(archive),
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": str(python),
        "STREAMLOG_KILL_FOLDER": str(matrix.kills.path),
        "STREAMLOG_IS_SHIPPED": "yes",
    }
    return subprocess.run(
        [
            *(str(home / "bin/spark-submit"), "--master", LOCAL_CLUSTER, "--py-files", str(archive)),
            *(str(HERE / "query_host.py"), json.dumps({"conf": CONF, "once": request})),
        ],
        env=environment,
        cwd=archive.parent,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
