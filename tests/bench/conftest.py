"""The benchmarks of Spark use a session as users have it, which no other test does."""

import pytest
from support.spark.spark_session import start_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    session = start_session(tmp_path_factory.mktemp("warehouse"), conf={})
    yield session
    session.stop()
