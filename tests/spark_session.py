"""The Spark session that all Spark suites share, and a fresh place for a log.

Starting Spark takes seconds, so there is one session per test run. Workers get this Python and this checkout.
"""

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def environment_for_workers():
    """What the processes of Spark need to run the code under test."""
    inherited = os.environ.get("PYTHONPATH")
    return {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(ROOT), *([inherited] if inherited else [])]),
    }


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """local[2], few shuffle partitions, no UI. Skips, with one sentence of advice, where Java is missing."""
    from spark_streamlog.java_check import missing_java_advice

    advice = missing_java_advice()
    if advice:
        pytest.skip(advice)
    os.environ.update(environment_for_workers())
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .appName("spark-streamlog tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.forceDeleteTempCheckpointLocation", "true")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def log_dir(tmp_path):
    """Path of a log directory that is not there yet, as text."""
    return str(tmp_path / "log")
