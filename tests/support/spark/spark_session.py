"""The Spark session that all Spark suites share, and a fresh place for a log.

Starting Spark takes seconds, so there is one session per test run. Workers get this Python and this checkout.
"""

import os
import sys
from pathlib import Path

import pytest
from support.brokers.reachable_broker import free_ports

ROOT = Path(__file__).parents[3]
TESTS = ROOT / "tests"
SHORT_LIVED = {
    # For queries over a handful of rows: nothing pays that takes long to begin.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
}


def environment_for_workers():
    """What the processes of Spark need to run the code under test, and to start fast (see `warm_workers`)."""
    inherited = os.environ.get("PYTHONPATH")
    paths = [str(TESTS / "warm_workers"), str(ROOT), *([inherited] if inherited else [])]
    return {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(paths),
    }


def short_lived(folder, conf=SHORT_LIVED):
    """Environment of a program that starts a Spark of its own: `conf` as its defaults, from a file in `folder`."""
    folder.mkdir(parents=True)
    (folder / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in conf.items()))
    return environment_for_workers() | {"SPARK_CONF_DIR": str(folder)}


def start_session(warehouse, *, conf):
    """local[2], few shuffle partitions, no UI. Skips, with one sentence of advice, where Java is missing."""
    from spark_streamlog.java_check import missing_java_advice

    advice = missing_java_advice()
    if advice:
        pytest.skip(advice)
    os.environ.update(environment_for_workers())
    from pyspark.sql import SparkSession

    builder = (
        SparkSession.builder.master("local[2]")
        .appName("spark-streamlog tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.forceDeleteTempCheckpointLocation", "true")
        .config("spark.sql.warehouse.dir", str(warehouse))
    )
    for name, value in conf.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """Serves Spark Connect, too, with sessions of its own: another JVM would take seven seconds of two cores."""
    connect = {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(free_ports(1)[0]),
    }
    session = start_session(tmp_path_factory.mktemp("warehouse"), conf=SHORT_LIVED | connect)
    yield session
    session.stop()


@pytest.fixture
def log_dir(tmp_path):
    """Path of a log directory that is not there yet, as text."""
    return str(tmp_path / "log")
