"""All tests here need Java and share one Spark session."""

import json
from pathlib import Path

import pytest
from support.spark.spark_session import log_dir, spark
from support.spark.stream_driver import StreamDriver

__all__ = ["log_dir", "spark"]

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent == HERE:
            item.add_marker(pytest.mark.spark)


@pytest.fixture
def connect_address(spark):
    """The address at which the session of all tests serves Spark Connect."""
    return f"sc://127.0.0.1:{spark.conf.get('spark.connect.grpc.binding.port')}"


@pytest.fixture
def source(tmp_path):
    """A folder of JSON files that a stream reads; each call adds one file."""
    folder = tmp_path / "source"
    folder.mkdir()

    def add(*rows):
        name = f"{len(list(folder.iterdir())):04d}.json"
        text = "".join(json.dumps({"number": number, "word": word}) + "\n" for number, word in rows)
        (folder / f".{name}").write_text(text)
        (folder / f".{name}").rename(folder / name)

    add.folder = str(folder)
    return add


@pytest.fixture(params=[pytest.param({}, id=""), pytest.param({"smallBatchOffsets": "0"}, marks=pytest.mark.long)])
def stream(request, spark, log_dir, tmp_path):
    """Makes drivers; a second one with the same name goes on from the first one's checkpoint. What they read is small,
    so it is handed over by the process that plans; in the long profile tasks read it, too."""
    made = []

    def make(name="stream", **options):
        options = request.param | {key.replace("__", "."): value for key, value in options.items()}
        made.append(StreamDriver(spark, log_dir, tmp_path / name, options))
        return made[-1]

    yield make
    for one in made:
        one.stop()
