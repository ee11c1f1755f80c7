"""The kill matrix. Its tests of Spark need Java, and a Spark process that can be killed."""

from pathlib import Path

import pytest
from exactly_once.kill_orders import KillFolder
from exactly_once.log_place import Objects
from exactly_once.spark_process import SparkProcess
from support.objects.s3_servers import BUCKET, versitygw

from spark_streamlog.java_check import missing_java_advice

HERE = Path(__file__).parent
WITHOUT_SPARK = ("test_process_kills.py", "test_broker_kills.py", "test_object_process_kills.py")


def pytest_collection_modifyitems(items):
    ours = [item for item in items if item.path.parent == HERE and item.path.name not in WITHOUT_SPARK]
    advice = missing_java_advice() if ours else None
    for item in ours:
        item.add_marker(pytest.mark.spark)
        if advice:
            item.add_marker(pytest.mark.skip(reason=advice))


@pytest.fixture(scope="session")
def kills(tmp_path_factory):
    """The folder with the orders for the processes of `sparks`."""
    return KillFolder(tmp_path_factory.mktemp("kills"))


class Sparks:
    """One Spark for all tests until it is killed; then another one."""

    def __init__(self, kills: KillFolder) -> None:
        self._kills = kills
        self._current: SparkProcess | None = None

    def current(self) -> SparkProcess:
        if self._current is None:
            self._current = self.another()
        return self._current

    def another(self) -> SparkProcess:
        """A second one. Returns before it is ready."""
        return SparkProcess(self._kills.path)

    def replace(self, spark: SparkProcess | None = None) -> None:
        """The current one was killed: `spark` takes its place, or a new one."""
        self.close()
        self._current = spark

    def close(self) -> None:
        if self._current is not None:
            self._current.close()
        self._current = None


@pytest.fixture(scope="session")
def sparks(kills):
    sparks = Sparks(kills)
    yield sparks
    sparks.close()


@pytest.fixture
def spark(sparks):
    return sparks.current()


@pytest.fixture(scope="session")
def versitygw_server(tmp_path_factory):
    with versitygw(tmp_path_factory.mktemp("versitygw")) as server:
        yield server


@pytest.fixture
def objects(versitygw_server, tmp_path):
    """A log that does not exist yet, in a bucket of a real server."""
    return Objects(f"s3://{BUCKET}/{tmp_path.name}/log", tuple(versitygw_server.options().items()))
