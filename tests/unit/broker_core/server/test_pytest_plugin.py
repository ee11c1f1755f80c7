"""A test session of somebody else's, who has the package installed."""

import subprocess
import sys

THEIRS = """
import pytest
from confluent_kafka import Producer

@pytest.fixture
def streamlog_broker_settings():
    return {"num.partitions": "3"}

def test_the_fixtures_log_is_empty(streamlog_path):
    assert not list(streamlog_path.iterdir())

def test_a_produced_record_arrives(streamlog_broker):
    producer = Producer({"bootstrap.servers": streamlog_broker.bootstrap_servers})
    errors = []
    producer.produce("t", b"value", on_delivery=lambda error, message: errors.append(error))
    producer.flush(30)
    assert errors == [None]
    assert len(producer.list_topics(timeout=30).topics["t"].partitions) == 3

def test_every_test_has_its_own_broker(streamlog_broker):
    producer = Producer({"bootstrap.servers": streamlog_broker.bootstrap_servers})
    assert not producer.list_topics(timeout=30).topics

@pytest.fixture
def streamlog_cluster_settings():
    return {"num.partitions": "2"}

def test_a_record_outlives_a_node(streamlog_cluster):
    producer = Producer({"bootstrap.servers": streamlog_cluster.bootstrap_servers})
    errors = []
    producer.produce("t", b"value", on_delivery=lambda error, message: errors.append(error))
    producer.flush(30)
    assert errors == [None]
    first = streamlog_cluster.leader_of("t", 0)
    assert streamlog_cluster.in_sync_replicas("t", 1) == {1, 2, 3}
    streamlog_cluster.node(first).kill()
    assert streamlog_cluster.leader_of("t", 0) != first
    assert streamlog_cluster.controller_id != first
"""


def test_the_fixtures_work_for_others(tmp_path):
    (tmp_path / "test_theirs.py").write_text(THEIRS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)],
        cwd=tmp_path, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert "4 passed" in done.stdout, done.stdout + done.stderr


def test_the_plugin_imports_the_broker_only_on_use():
    loaded = "import sys, broker_core.server.pytest_plugin; print('broker_core.server.broker_thread' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
