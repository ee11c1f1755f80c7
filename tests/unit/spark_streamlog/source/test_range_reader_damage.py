"""Spark's reads of a log with one damaged batch in its file: in a directory, and at a broker of ours."""

import logging
import re
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.builders.append_records import append_values
from support.builders.builders import a_record
from support.spark.read_query import read_options, values_of

from broker_core.broker.settings.broker_config import parse_broker_config
from broker_core.client.cluster_client import open_remote
from broker_core.cluster import TransactionalProducer
from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.model.client_settings import parse_client_settings
from broker_core.model.identifiers import TopicPartition
from broker_core.record.batch_builder import build_batch
from broker_core.record.batch_reader import iter_headers
from broker_core.server.broker_thread import BrokerThread
from broker_core.server.development import development_settings
from spark_streamlog.errors import ConditionError
from spark_streamlog.options.option_reader import QueryKind
from spark_streamlog.options.read_options import parse_read_options
from spark_streamlog.source.batch_planner import plan_batch
from spark_streamlog.source.offset_reader import OffsetReader
from spark_streamlog.source.range_reader import read_range

T0 = TopicPartition("t", 0)
LEVELS = ["read_committed", "read_uncommitted"]


@contextmanager
def opened(door, path):
    """(cluster, options that lead to it)"""
    if door == "directory":
        with open_embedded(path, create=True) as cluster:
            yield cluster, {"path": str(path)}
        return
    with (
        BrokerThread(parse_broker_config(development_settings(str(path), port=0))) as broker,
        open_remote(parse_client_settings({"bootstrap.servers": broker.bootstrap_servers})) as cluster,
    ):
        yield cluster, {"kafka.bootstrap.servers": broker.bootstrap_servers}


@pytest.fixture(params=["directory", "broker"])
def log(request, tmp_path):
    """(cluster, a function that reads with options)"""
    with opened(request.param, tmp_path / "log") as (cluster, place):
        cluster.create_topic("t", configs={"retention.ms": "-1", "segment.ms": str(2**62)})

        def read(**given):
            named = {name.replace("__", "."): value for name, value in given.items()}
            options = parse_read_options({"subscribe": "t"} | place | named, QueryKind.BATCH)
            found = []
            try:
                for planned in plan_batch(OffsetReader(cluster, options), options):
                    for batch in read_range(cluster, planned, options):
                        found += values_of([batch])
            except ConditionError as error:
                return found, str(error)
            return found, None

        yield cluster, read, request.param, tmp_path / "log" / "t-0" / "00000000000000000000.log"


def damage(file: Path, number: int) -> int:
    """The last byte of the batch; returns its base offset."""
    content = bytearray(file.read_bytes())
    position, header = list(iter_headers(bytes(content)))[number]
    with file.open("r+b") as opened_file:
        opened_file.seek(position + header.size_bytes - 1)
        opened_file.write(bytes([content[position + header.size_bytes - 1] ^ 0x40]))
    return header.base_offset


def transaction(cluster, transactional_id, *values, commit):
    given = cluster.init_producer(transactional_id)
    producer = TransactionalProducer(
        transactional_id=transactional_id, producer_id=given.producer_id, producer_epoch=given.producer_epoch
    )
    cluster.add_partitions_to_transaction(producer, [T0])
    records = [a_record(0, key=None, value=value.encode()) for value in values]
    cluster.append(
        T0,
        build_batch(
            records,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=0,
            is_transactional=True,
        ),
    )
    cluster.end_transaction(producer, commit=commit)


@pytest.mark.parametrize("level", LEVELS)
def test_all_before_a_damaged_batch_is_read_and_the_error_names_the_place(log, level):
    cluster, read, door, file = log
    append_values(cluster, "t", "a", "b")
    transaction(cluster, "x", "aborted", commit=False)
    transaction(cluster, "y", "c", commit=True)
    append_values(cluster, "t", "d", "e")
    append_values(cluster, "t", "f")
    offset = damage(file, 5)
    values, error = read(kafka__isolation__level=level)
    assert values == ["a", "b", *(["aborted"] if level == "read_uncommitted" else []), "c"]
    assert f"[STREAMLOG_UNREADABLE_RECORD] A record of topic t partition 0 at offset {offset} cannot be read" in error
    place = f"{re.escape(str(file))}, position" if door == "directory" else "broker's log names the file"
    assert re.search(place, error) and "onUnreadableRecord=skip" in error


@pytest.mark.parametrize("level", LEVELS)
def test_skipping_unreadable_records_goes_on_behind_the_damaged_batch(log, level, caplog):
    cluster, read, _, file = log
    append_values(cluster, "t", "a", "b")
    append_values(cluster, "t", "lost", "lost")
    append_values(cluster, "t", "c")
    append_values(cluster, "t", "lost")
    append_values(cluster, "t", "d")
    append_values(cluster, "t", "lost")
    for number in (1, 3, 5):
        damage(file, number)
    with caplog.at_level(logging.WARNING, "spark_streamlog"):
        assert read(kafka__isolation__level=level, onUnreadableRecord="skip") == (["a", "b", "c", "d"], None)
    (said,) = [message for message in caplog.messages if "onUnreadableRecord" in message]
    assert "4 record(s) of topic t partition 0 were skipped, the first at offset 2" in said


def test_what_follows_a_skipped_abort_marker_of_the_same_producer_is_read(log):
    cluster, read, _, file = log
    transaction(cluster, "x", "aborted", commit=False)
    transaction(cluster, "x", "committed", commit=True)
    append_values(cluster, "t", "z")
    damage(file, 1)
    assert read(kafka__isolation__level="read_committed", onUnreadableRecord="skip") == (["committed", "z"], None)


def test_a_damaged_length_ends_also_a_read_that_skips(tmp_path):
    with open_embedded(tmp_path / "log", create=True) as cluster:
        cluster.create_topic("t", configs={"retention.ms": "-1", "segment.ms": str(2**62)})
        for value in "abc":
            append_values(cluster, "t", value)
        file = tmp_path / "log" / "t-0" / "00000000000000000000.log"
        content = bytearray(file.read_bytes())
        content[[position for position, _ in iter_headers(bytes(content))][1] + 11] ^= 0x40
        file.write_bytes(content)
        options = read_options(onUnreadableRecord="skip")
        planned = plan_batch(OffsetReader(cluster, options), options)
        with pytest.raises(ConditionError, match="where the damaged part ends is not known, so it cannot be skipped"):
            values_of(read_range(cluster, planned[0], options))
