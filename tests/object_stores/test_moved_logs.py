"""Queries that go on from their checkpoints after their log has moved from a directory to object storage, and back."""

import pytest
from support.spark.object_place import ObjectPlace
from support.spark.spark_session import spark
from support.spark.stream_driver import forget_last_commit

from broker_core.cli.command_line import run

__all__ = ["spark"]

pytestmark = [pytest.mark.long, pytest.mark.timeout(900), pytest.mark.spark]


@pytest.fixture(params=["directory to S3", "S3 to directory"])
def move(request, spark, tmp_path, versitygw_server, new_url):
    """(place, other place, arguments of the copy from one to the other)."""
    options = versitygw_server.options()
    properties = tmp_path / "store.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in options.items()))
    places = [ObjectPlace(spark, str(tmp_path / "log")), ObjectPlace(spark, new_url, options)]
    config = ["--to-config", str(properties)]
    if request.param == "S3 to directory":
        places.reverse()
        config = ["--from-config", str(properties)]
    before, after = places
    return before, after, ["log", "copy", before.url, after.url, "--groups", *config]


def write_numbers(place, first, until):
    """Rows with these numbers, in two partitions."""
    rows = place.spark.range(first, until, 1, 2).selectExpr("string(id % 7) AS key", "string(id) AS value")
    place.write(rows, topic="t", topic__partitions="2")


def rows_by_place(place, topic):
    return {(row.partition, row.offset): (row.key, row.value) for row in place.read(topic).collect()}


def test_a_query_goes_on_from_its_checkpoint_in_a_moved_log_and_copies_each_row_once(move, tmp_path):
    before, after, copy = move
    read = {"maxOffsetsPerTrigger": "40", "groupId": "g"}
    write = {"topic": "copy", "topic.partitions": "3"}
    checkpoint = tmp_path / "checkpoint"
    write_numbers(before, 0, 100)
    assert before.copy(checkpoint, read=read, write=write) >= 2
    assert run(copy) == 0
    # What comes while the log is copied, and so by the second run.
    write_numbers(before, 100, 150)
    assert run(copy) == 0
    for topic in ("t", "copy"):
        assert rows_by_place(after, topic) == rows_by_place(before, topic)
    write_numbers(after, 150, 180)
    assert after.copy(checkpoint, read=read, write=write) >= 2
    assert sorted(map(int, after.values("copy"))) == list(range(180))
    assert sorted(map(int, before.values("copy"))) == list(range(100)), "nobody writes to the old place any more"


def test_a_moved_query_that_repeats_its_last_batch_there_writes_it_once(move, tmp_path):
    before, after, copy = move
    checkpoint = tmp_path / "checkpoint"
    write_numbers(before, 0, 20)
    before.copy(checkpoint)
    assert run(copy) == 0
    write_numbers(after, 20, 40)
    after.copy(checkpoint)
    forget_last_commit(checkpoint)
    write_numbers(after, 40, 50)
    after.copy(checkpoint)
    assert sorted(map(int, after.values("copy"))) == list(range(50))
