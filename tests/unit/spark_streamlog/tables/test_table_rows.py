"""Rows of the metadata tables against an embedded log whose content is known."""

import logging

import pyarrow as pa
import pytest
from support.brokers.in_memory_cluster import InMemoryCluster
from support.builders.append_records import append_values
from support.clients.transacting import init

from broker_core.cluster import GroupOffset
from broker_core.embedded.embedded_cluster import EmbeddedCluster
from broker_core.model.exceptions import AuthorizationError
from broker_core.model.identifiers import TopicPartition
from spark_streamlog.tables.table_rows import PIECE_ROW_COUNT, TableScan, read_table, split_scan
from spark_streamlog.tables.table_schema import MetadataTable, table_arrow_schema

NOW_MS = 1_700_000_000_000
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


@pytest.fixture
def cluster(tmp_path):
    with EmbeddedCluster(tmp_path / "log", create=True) as made:
        made.create_topic("a", partition_count=2, configs={"retention.ms": "-1"})
        made.create_topic("b")
        yield made


def rows(cluster, table, **options):
    pieces = split_scan(cluster, TableScan(table=table, **options))
    batches = [batch for piece in pieces for batch in read_table(cluster, piece, now_ms=NOW_MS)]
    assert all(batch.schema == table_arrow_schema(table) for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


def test_topics_has_a_row_per_topic_with_its_settings(cluster):
    found = {row["topic"]: row for row in rows(cluster, MetadataTable.TOPICS)}
    assert (found["a"]["partition_count"], found["b"]["partition_count"]) == (2, 1)
    assert dict(found["a"]["configs"]) == {"retention.ms": "-1"}
    assert found["a"]["topic_id"] == str(cluster.describe_topics(["a"])["a"].topic_id)
    assert not found["b"]["is_internal"]


def test_segments_has_a_row_per_segment_of_the_selected_topics(cluster):
    append_values(cluster, "a", b"x", b"y")
    found = rows(cluster, MetadataTable.SEGMENTS, topics=frozenset({"a"}))
    assert [(r["topic"], r["partition"], r["base_offset"], r["next_offset"]) for r in found] == [
        ("a", 0, 0, 2),
        ("a", 1, 0, 0),
    ]
    assert all(r["is_active"] for r in found)
    assert found[0]["size_bytes"] > 0
    assert found[1]["max_timestamp"] is None


def test_batches_has_a_row_per_batch_with_offsets_and_producer(cluster):
    append_values(cluster, "a", b"x", b"y")
    append_values(cluster, "a", b"z")
    append_values(cluster, "b", b"other")
    found = rows(cluster, MetadataTable.BATCHES, topics=frozenset({"a"}))
    assert [(r["partition"], r["base_offset"], r["last_offset"], r["record_count"]) for r in found] == [
        (0, 0, 1, 2),
        (0, 2, 2, 1),
    ]
    assert {r["compression"] for r in found} == {"none"}
    assert not any(r["is_control"] or r["is_transactional"] for r in found)


def test_batches_starts_at_the_log_start_and_is_read_in_pieces(cluster):
    for number in range(6):
        append_values(cluster, "a", str(number).encode())
    cluster.delete_records(A0, 4)
    found = rows(cluster, MetadataTable.BATCHES, topics=frozenset({"a"}))
    assert [r["base_offset"] for r in found] == [4, 5]
    assert PIECE_ROW_COUNT > 6


def test_groups_has_a_row_per_committed_offset_with_its_metadata(cluster):
    cluster.commit_offsets("g", {A1: GroupOffset(offset=7, metadata="m"), B0: GroupOffset(offset=1)})
    cluster.commit_offsets("h", {B0: GroupOffset(offset=2)})
    found = rows(cluster, MetadataTable.GROUPS)
    assert [(r["group"], r["topic"], r["partition"], r["offset"], r["metadata"]) for r in found] == [
        ("g", "a", 1, 7, "m"),
        ("g", "b", 0, 1, ""),
        ("h", "b", 0, 2, ""),
    ]
    assert all(r["commit_time"] is not None for r in found)
    only = rows(cluster, MetadataTable.GROUPS, groups=frozenset({"h"}))
    assert [r["group"] for r in only] == ["h"]


def test_lag_has_a_row_per_group_and_partition(cluster):
    append_values(cluster, "a", b"x", b"y", b"z")
    cluster.commit_offsets("g", {A0: GroupOffset(offset=1)})
    [row] = rows(cluster, MetadataTable.LAG)
    assert (row["group"], row["topic"], row["partition"], row["offset"]) == ("g", "a", 0, 1)
    assert (row["log_end_offset"], row["behind_offsets"], row["lost_offsets"]) == (3, 2, 0)
    assert row["behind_bytes"] > 0


def test_an_unknown_lag_is_null_and_logged_as_a_warning(caplog):
    twin = InMemoryCluster()
    twin.create_topic("b")
    twin.commit_offsets("g", {B0: GroupOffset(offset=1)})

    def refuse(partition):
        raise AuthorizationError("not for you")

    twin.bounds = refuse
    with caplog.at_level(logging.WARNING, logger="spark_streamlog"):
        [row] = rows(twin, MetadataTable.LAG)
    assert (row["offset"], row["log_end_offset"], row["behind_offsets"]) == (1, None, None)
    assert "The lag of group g in b-0 is unknown: not for you" in caplog.text


def test_transactions_has_a_row_per_transactional_id_with_open_partitions(cluster):
    producer = init(cluster, "t")
    assert [r["state"] for r in rows(cluster, MetadataTable.TRANSACTIONS)] == ["Empty"]
    cluster.add_partitions_to_transaction(producer, [B0, A1])
    [row] = rows(cluster, MetadataTable.TRANSACTIONS)
    assert (row["transactional_id"], row["state"], row["producer_id"]) == ("t", "Ongoing", producer.producer_id)
    assert row["partitions"] == [{"topic": "a", "partition": 1}, {"topic": "b", "partition": 0}]
    assert row["start_time"] is not None


def test_a_table_without_rows_gives_no_batches(cluster):
    for table in (MetadataTable.GROUPS, MetadataTable.LAG, MetadataTable.TRANSACTIONS, MetadataTable.BATCHES):
        assert rows(cluster, table) == []


def test_a_missing_topic_has_no_rows(cluster):
    assert rows(cluster, MetadataTable.SEGMENTS, topics=frozenset({"nope"})) == []
    gone = TableScan(table=MetadataTable.BATCHES, partition=TopicPartition("nope", 0))
    assert list(read_table(cluster, gone, now_ms=NOW_MS)) == []


def test_a_timestamp_that_does_not_fit_microseconds_is_null():
    twin = InMemoryCluster()
    twin.create_topic("b")
    append_values(twin, "b", b"x", timestamps_ms=[2**62])
    [row] = rows(twin, MetadataTable.BATCHES, topics=frozenset({"b"}))
    assert row["max_timestamp"] is None
    assert isinstance(table_arrow_schema(MetadataTable.BATCHES).field("max_timestamp").type, pa.TimestampType)
