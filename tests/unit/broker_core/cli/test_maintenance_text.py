"""The output of `log maintain`."""

import re

import pytest

from broker_core.cluster import GroupOffset
from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.model.identifiers import TopicPartition

SMALL = ("--config", "internal.segment.bytes=200")


@pytest.fixture
def log(streamlog):
    """A topic with three segments for retention, one with two for compaction, one with nothing to do."""
    streamlog("topic", "create", "orders.events", *SMALL)
    streamlog("topic", "create", "users", *SMALL)
    streamlog("topic", "create", "quiet")
    for _ in range(3):
        streamlog("produce", "orders.events", stdin=b"1\n2\n3\n4\n5\n6\n")
        streamlog("produce", "users", "--key-separator", ":", stdin=b"k:1\nk:2\nk:3\nk:4\nk:5\nk:6\n")
    # Only now, so that no roll does the work before `maintain`.
    streamlog("topic", "alter", "orders.events", "--config", "retention.bytes=0")
    streamlog("topic", "alter", "users", "--config", "cleanup.policy=compact")
    return streamlog


def test_retention_and_compaction_counts_are_shown_separately_per_partition(log):
    # Retention removed 100 records, and it said: removed records 0.
    orders, quiet, users = log("log", "maintain", "--json").json
    assert (orders["topic"], orders["deleted_segments"], orders["deleted_offsets"]) == ("orders.events", 3, 18)
    assert orders["removed_records"] == 0
    assert (users["deleted_offsets"], users["compacted_segments"], users["removed_records"]) == (0, 2, 11)
    assert users["freed_bytes"] > 0
    assert {value for name, value in quiet.items() if name not in ("topic", "partition", "error")} == {0}


def test_only_changed_partitions_are_shown(log):
    done = log("log", "maintain")
    assert done.status == 0
    rows = [line.split() for line in done.out.decode().splitlines() if re.search(r"-\d", line)]
    assert [row[:5] for row in rows] == [["orders.events-0", "3", "18", "0", "0"], ["users-0", "0", "0", "2", "11"]]
    assert done.err == "3 partitions maintained, 2 changed\n"


def test_without_changes_one_sentence_is_shown(log):
    log("log", "maintain")
    again = log("log", "maintain", "quiet")
    assert (again.status, again.out, again.err) == (0, b"", "1 partition maintained, nothing to do\n")


def test_internal_partitions_are_counted_apart(log, log_path):
    """They were counted among the partitions of the topics that were created."""
    with open_embedded(log_path) as cluster:
        cluster.commit_offsets("g", {TopicPartition("quiet", 0): GroupOffset(offset=1)})
    assert log("log", "maintain").err.startswith("3 partitions and 1 internal partition maintained")


def test_a_partition_error_is_shown_and_the_exit_code_is_1(log, log_path):
    (log_path / "quiet-0" / ".lock").unlink()
    (log_path / "quiet-0" / ".lock").mkdir()
    done = log("log", "maintain")
    assert done.status == 1
    error, summary = done.err.splitlines()
    assert error.startswith("quiet-0: ")
    assert "Is a directory" in error
    assert summary == "3 partitions maintained, 2 changed, 1 failed"


def test_the_table_shows_full_names_on_80_columns(log, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    lines = re.sub(r"\x1b\[[0-9;]*m", "", log("log", "maintain").out.decode()).splitlines()
    assert [word for line in lines[:2] for word in line.split()] == [
        *["segments", "offsets", "segments", "records", "bytes", "key"],
        *["partition", "deleted", "deleted", "compacted", "removed", "freed", "filters"],
    ]
    assert any(line.startswith("orders.events-0 ") for line in lines)
    assert max(map(len, lines)) <= 80
