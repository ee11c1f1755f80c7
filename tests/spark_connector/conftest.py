"""Spark's own Kafka connector at our broker or, with `--kafka real`, at Apache Kafka itself, which shows that the tests
are right. Needs Java, Maven and pip; one Spark and one broker serve the whole suite.
"""

import subprocess
import sys
from pathlib import Path

import pytest
from support.brokers.kafka_tools import CACHE, why_without_jars
from support.brokers.reachable_broker import PASSWORD, USER
from support.brokers.real_kafka import RealKafka
from support.brokers.scram_users import add_scram_user
from support.brokers.served_broker import ServedBroker
from support.spark.spark_kafka_process import PY4J_VERSION, SPARK_VERSION, SparkKafka

HERE = Path(__file__).parent
PYSPARK = CACHE / f"pyspark-{SPARK_VERSION}"
JARS = CACHE / f"spark-kafka-{SPARK_VERSION}"
CONNECTOR = (
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SPARK_VERSION}",
    f"org.apache.spark:spark-token-provider-kafka-0-10_2.13:{SPARK_VERSION}",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent == HERE:
            item.add_marker(pytest.mark.kafka)


def why_unavailable():
    """The reason to skip, or None once all is there."""
    if reason := why_without_jars("Spark and its Kafka connector", JARS, CONNECTOR, transitive=False):
        return reason
    if not (PYSPARK / "pyspark").is_dir():
        wanted = [f"pyspark=={SPARK_VERSION}", f"py4j=={PY4J_VERSION}"]
        install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(PYSPARK), *wanted]
        result = subprocess.run(install, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            return f"pip could not bring PySpark {SPARK_VERSION}: {result.stderr.strip()[-200:]}"
    return None


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    reason = why_unavailable()
    if reason:
        pytest.skip(reason)
    jars = ":".join(str(jar) for jar in sorted(JARS.glob("*.jar")))
    running = SparkKafka(PYSPARK, jars, tmp_path_factory.mktemp("spark") / "session")
    assert running.version() == SPARK_VERSION
    yield running
    running.close()


@pytest.fixture(scope="session")
def broker(request, spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("broker") / "node"
    if request.config.getoption("--kafka") == "real":
        running = RealKafka(folder)
    else:
        running = ServedBroker(folder)
        add_scram_user(running, USER, PASSWORD)
    yield running
    running.stop()
