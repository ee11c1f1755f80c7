"""One cluster of three nodes for all tests here. Each test finds all nodes running, whatever the one before did."""

import pytest
from support.cluster.tested_cluster import TestedCluster


@pytest.fixture(scope="session")
def _running(tmp_path_factory):
    with TestedCluster(tmp_path_factory.mktemp("cluster") / "nodes") as cluster:
        yield cluster


@pytest.fixture
def cluster(_running):
    _running.heal()
    return _running
