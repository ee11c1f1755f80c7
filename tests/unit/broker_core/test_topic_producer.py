"""Rows to batches to appends: partitions, sequences, rounds, limits."""

from functools import partial
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.brokers.in_memory_cluster import InMemoryCluster
from support.builders.committed_rows import committed_values

from broker_core.cluster import TransactionalProducer
from broker_core.model.exceptions import (
    InvalidTopicNameError,
    RecordTooLargeError,
    TopicExistsError,
    TopicNotCreatedError,
    UnknownPartitionError,
    UnknownTopicError,
)
from broker_core.model.identifiers import CompressionType, TopicPartition
from broker_core.record.batch_reader import iter_headers
from broker_core.record.columns import ALL_COLUMNS, decode
from broker_core.record.expired_rows import ExpiredRows
from broker_core.record.partitioner import partition_for_key
from broker_core.topic_producer import (
    ProducerSettings,
    TopicCreation,
    TopicProducer,
    describe_existing,
    describe_or_create,
)

NOW_MS = 1_700_000_000_000


@pytest.fixture
def cluster():
    return InMemoryCluster()


def a_producer(cluster, *, first_partition=0, **settings):
    return TopicProducer(
        cluster,
        find_topic=partial(describe_or_create, cluster),
        now_ms=lambda: NOW_MS,
        settings=ProducerSettings(**settings),
        first_partition=first_partition,
    )


def values(*items):
    return pa.RecordBatch.from_pydict({"value": pa.array(items, pa.binary())})


def stored(cluster, topic, partition=0):
    return cluster.fetch(TopicPartition(topic, partition), 0, max_bytes=1 << 30).buffer


def headers_of(cluster, topic, partition=0):
    return [header for _, header in iter_headers(stored(cluster, topic, partition))]


def rows_of(cluster, topic, partition=0):
    return decode(stored(cluster, topic, partition), from_offset=0, columns=ALL_COLUMNS).record_batch.to_pydict()


def test_a_missing_topic_is_created_with_the_requested_settings(cluster):
    made = describe_or_create(cluster, "t", partition_count=3, configs={"retention.ms": "1"})
    assert (made.partition_count, made.configs) == (3, {"retention.ms": "1"})
    assert describe_or_create(cluster, "t", partition_count=5, creation=TopicCreation.NEVER) == made


@pytest.mark.parametrize(
    ("is_auto_creating", "creation", "words"),
    [
        (False, TopicCreation.AUTO, "auto.create.topics.enable is false"),
        (None, TopicCreation.AUTO, "this user cannot read"),
        (True, TopicCreation.NEVER, "topic.create is false"),
        (None, TopicCreation.NEVER, "topic.create is false"),
        (True, TopicCreation.AUTO, None),
        (True, TopicCreation.ALWAYS, None),
        (False, TopicCreation.ALWAYS, None),
        (None, TopicCreation.ALWAYS, None),
    ],
)
def test_a_topic_is_created_only_if_the_log_and_the_writer_allow_it(cluster, is_auto_creating, creation, words):
    cluster.is_auto_creating = is_auto_creating
    if words is None:
        assert describe_or_create(cluster, "t", creation=creation).name == "t"
        return
    with pytest.raises(TopicNotCreatedError, match=words):
        describe_or_create(cluster, "t", creation=creation)
    assert cluster.describe_topics() == {}


def test_rows_are_appended_in_order_with_timestamp_and_producer(cluster):
    producer = a_producer(cluster)
    producer.add("t", values(b"a", b"", None))
    assert producer.holds_rows
    producer.flush()
    assert not producer.holds_rows
    assert producer.appended_record_count == 3
    rows = rows_of(cluster, "t")
    assert rows["value"] == [b"a", b"", None]
    assert {moment.timestamp() * 1000 for moment in rows["timestamp"]} == {NOW_MS}
    (header,) = headers_of(cluster, "t")
    assert (header.producer_id >= 0, header.producer_epoch, header.base_sequence) == (True, 0, 0)


def test_sequences_continue_across_rounds_per_partition(cluster):
    cluster.create_topic("t", partition_count=2)
    producer = a_producer(cluster)
    for round_number in range(4):
        producer.add("t", values(*[b"x"] * (round_number + 1)))
        producer.flush()
    assert [h.base_sequence for h in headers_of(cluster, "t", 0)] == [0, 1]
    assert [h.base_sequence for h in headers_of(cluster, "t", 1)] == [0, 2]
    assert len({h.producer_id for p in (0, 1) for h in headers_of(cluster, "t", p)}) == 1


def test_ignored_keys_do_not_choose_the_partition(cluster):
    cluster.create_topic("t", partition_count=8)
    rows = pa.RecordBatch.from_pydict({"key": pa.array([b"a", b"b", b"c", b"d"]), "value": pa.array([b"x"] * 4)})
    assert len({partition_for_key(key, 8) for key in (b"a", b"b", b"c", b"d")}) > 1
    producer = a_producer(cluster, first_partition=5, ignores_keys=True)
    producer.add("t", rows)
    producer.flush()
    assert rows_of(cluster, "t", 5)["key"] == [b"a", b"b", b"c", b"d"]


def test_without_rows_no_producer_and_no_topic_are_created(cluster):
    producer = a_producer(cluster)
    producer.add("t", values(b"a").slice(0, 0))
    producer.flush()
    assert headers_of(cluster, "t") == []
    assert cluster.init_producer().producer_id <= 1


def test_keys_are_partitioned_like_kafka_and_null_keys_use_the_sticky_partition_of_the_round(cluster):
    cluster.create_topic("t", partition_count=5)
    keys = [b"k%d" % number if number % 3 else None for number in range(60)]
    producer = a_producer(cluster, first_partition=7)
    producer.add("t", pa.RecordBatch.from_pydict({"key": keys, "value": [b"%d" % n for n in range(60)]}))
    producer.flush()
    for partition in range(5):
        expected = [
            (key, b"%d" % number)
            for number, key in enumerate(keys)
            if (2 if key is None else partition_for_key(key, 5)) == partition
        ]
        rows = rows_of(cluster, "t", partition)
        assert list(zip(rows["key"], rows["value"], strict=True)) == expected


def test_the_sticky_partition_changes_with_each_round(cluster):
    cluster.create_topic("t", partition_count=3)
    producer = a_producer(cluster, first_partition=2)
    for number in range(4):
        producer.add("t", values(b"%d" % number))
        producer.flush()
    assert [rows_of(cluster, "t", p)["value"] for p in range(3)] == [[b"1"], [b"2"], [b"0", b"3"]]


def test_the_partition_column_overrides_the_key_and_null_falls_back(cluster):
    cluster.create_topic("t", partition_count=3)
    producer = a_producer(cluster, first_partition=1)
    batch = {
        "partition": pa.array([2, None, None, 0], pa.int32()),
        "key": [b"k", b"k", None, None],
        "value": [b"0", b"1", b"2", b"3"],
    }
    producer.add("t", pa.RecordBatch.from_pydict(batch))
    producer.flush()
    where = {value: p for p in range(3) for value in rows_of(cluster, "t", p)["value"]}
    assert where == {b"0": 2, b"1": partition_for_key(b"k", 3), b"2": 1, b"3": 0}


@pytest.mark.parametrize("asked", [-1, 3])
def test_a_missing_partition_is_refused_and_nothing_is_written(cluster, asked):
    cluster.create_topic("t", partition_count=3)
    producer = a_producer(cluster)
    batch = {"partition": pa.array([0, asked], pa.int32()), "value": [b"a", b"b"]}
    producer.add("t", pa.RecordBatch.from_pydict(batch))
    with pytest.raises(
        UnknownPartitionError, match=f"partition {asked}, but topic 't' has the partitions 0 to 2.*drop"
    ):
        producer.flush()
    assert all(not stored(cluster, "t", p) for p in range(3))


def test_several_topics_are_written_in_one_round(cluster):
    producer = a_producer(cluster)
    for topic, value in (("a", b"1"), ("b", b"2"), ("a", b"3")):
        producer.add(topic, values(value))
    producer.flush()
    assert rows_of(cluster, "a")["value"] == [b"1", b"3"]
    assert rows_of(cluster, "b")["value"] == [b"2"]
    assert len(headers_of(cluster, "a")) == 1


def test_a_round_is_written_when_it_is_full(cluster):
    producer = a_producer(cluster, gather_bytes=1000)
    for _ in range(9):
        producer.add("t", values(b"x" * 240))
    assert producer.appended_record_count == 8
    producer.flush()
    assert producer.appended_record_count == 9


def test_a_batch_larger_than_a_round_is_split_into_rounds(cluster):
    producer = a_producer(cluster, gather_bytes=1000)
    items = [b"%04d" % number * 10 for number in range(1000)]
    producer.add("t", values(*items))
    producer.flush()
    headers = headers_of(cluster, "t")
    assert max(h.size_bytes for h in headers) < 2000
    assert rows_of(cluster, "t")["value"] == items


def test_batches_end_at_the_configured_size(cluster):
    producer = a_producer(cluster, max_batch_bytes=1000)
    producer.add("t", values(*[b"x" * 90] * 100))
    producer.flush()
    headers = headers_of(cluster, "t")
    assert max(h.size_bytes for h in headers) <= 1000
    assert len(headers) > 5


def test_batches_stay_below_the_topics_max_message_bytes(cluster):
    cluster.create_topic("t", configs={"max.message.bytes": "1000"})
    producer = a_producer(cluster)
    producer.add("t", values(*[b"x" * 90] * 100))
    producer.flush()
    assert max(h.size_bytes for h in headers_of(cluster, "t")) <= 1000


def test_a_record_at_the_limit_is_written_and_one_byte_more_is_refused_with_its_round(cluster):
    cluster.create_topic("t", configs={"max.message.bytes": "1000"})
    cluster.create_topic("other")
    producer = a_producer(cluster)
    producer.add("t", values(b"x" * 900))
    producer.flush()
    overhead = headers_of(cluster, "t")[0].size_bytes - 900
    producer.add("t", values(b"x" * (1000 - overhead)))
    producer.flush()
    assert headers_of(cluster, "t")[1].size_bytes == 1000
    producer.add("other", values(b"a"))
    producer.add("t", values(b"b", b"x" * (1001 - overhead)))
    with pytest.raises(RecordTooLargeError, match=r"1001 bytes.* limit of 1000.* max\.message\.bytes") as caught:
        producer.flush()
    assert (caught.value.size_bytes, caught.value.limit_bytes) == (1001, 1000)
    assert len(headers_of(cluster, "t")) == 2
    assert not stored(cluster, "other")


def test_the_error_names_the_producers_limit_if_it_is_lower(cluster):
    producer = a_producer(cluster, max_request_bytes=500)
    producer.add("t", values(b"x" * 600))
    with pytest.raises(RecordTooLargeError, match=r"limit of 500; the producer setting max\.request\.size"):
        producer.flush()


def test_a_large_record_that_compresses_below_the_limit_is_written(cluster):
    producer = a_producer(cluster, compression=CompressionType.ZSTD)
    producer.add("t", values(b"x" * 5_000_000))
    producer.flush()
    assert [len(value) for value in rows_of(cluster, "t")["value"]] == [5_000_000]


class RecordedTransaction:
    """Takes part in a real transaction and remembers what it was asked for, in order."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.producer = None
        self.added = []

    def begin(self):
        assert self.producer is None, "asked for once"
        given = self.cluster.init_producer("id")
        self.producer = TransactionalProducer(
            transactional_id="id", producer_id=given.producer_id, producer_epoch=given.producer_epoch
        )
        return self.producer

    def add_partitions(self, partitions):
        assert all(not stored(self.cluster, tp.topic, tp.partition) for tp in partitions), "before the first append"
        self.added.append([str(partition) for partition in partitions])
        self.cluster.add_partitions_to_transaction(self.producer, partitions)


def a_transactional_producer(cluster, **settings):
    transaction = RecordedTransaction(cluster)
    return transaction, TopicProducer(
        cluster,
        find_topic=partial(describe_or_create, cluster),
        now_ms=lambda: NOW_MS,
        settings=ProducerSettings(**settings),
        transaction=transaction,
    )


def test_in_a_transaction_batches_have_its_producer_and_are_readable_after_the_commit(cluster):
    transaction, producer = a_transactional_producer(cluster)
    for value in (b"a", b"b"):
        producer.add("t", values(value))
        producer.flush()
    assert committed_values(cluster, "t") == []
    first, second = headers_of(cluster, "t")
    assert first.is_transactional and second.is_transactional
    assert (first.producer_id, first.producer_epoch) == (transaction.producer.producer_id, 0)
    assert (first.base_sequence, second.base_sequence) == (0, 1)
    cluster.end_transaction(transaction.producer, commit=True)
    assert committed_values(cluster, "t") == [b"a", b"b"]


def test_the_new_partitions_of_a_round_are_added_in_one_call(cluster):
    for topic in ("t", "u"):
        cluster.create_topic(topic, partition_count=3)
    transaction, producer = a_transactional_producer(cluster)

    def add_round(*partitions_by_topic):
        for topic, partitions in partitions_by_topic:
            columns = {"partition": pa.array(partitions, pa.int32()), "value": [b"x"] * len(partitions)}
            producer.add(topic, pa.RecordBatch.from_pydict(columns))
        producer.flush()

    add_round(("t", [2, 0, 2]), ("u", [1]))
    add_round(("t", [0, 2]))
    add_round(("t", [0, 1]))
    assert transaction.added == [["t-0", "t-2", "u-1"], ["t-1"]]


def test_without_rows_there_is_no_transaction(cluster):
    transaction, producer = a_transactional_producer(cluster)
    producer.add("t", values(b"a").slice(0, 0))
    producer.flush()
    assert (transaction.producer, transaction.added) == (None, [])


def test_a_refused_round_opens_no_transaction(cluster):
    transaction, producer = a_transactional_producer(cluster, max_request_bytes=500)
    producer.add("t", values(b"x" * 600))
    with pytest.raises(RecordTooLargeError):
        producer.flush()
    assert transaction.added == []


def test_the_topics_codec_overrides_the_producers(cluster):
    cluster.create_topic("t", configs={"compression.type": "lz4"})
    cluster.create_topic("free")
    producer = a_producer(cluster, compression=CompressionType.GZIP)
    for topic in ("t", "free"):
        producer.add(topic, values(b"x" * 1000))
    producer.flush()
    assert headers_of(cluster, "t")[0].compression_type is CompressionType.LZ4
    assert headers_of(cluster, "free")[0].compression_type is CompressionType.GZIP


def test_an_internal_topic_is_refused(cluster):
    cluster.create_topic("__consumer_offsets", is_internal=True)
    with pytest.raises(InvalidTopicNameError, match="internal"):
        a_producer(cluster).add("__consumer_offsets", values(b"a"))


def test_headers_and_timestamps_are_written(cluster):
    headers = pa.array(
        [[{"key": "h", "value": b"1"}, {"key": "h", "value": None}], None],
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    )
    times = pa.array([1_234_567, None], pa.timestamp("us", "UTC"))
    producer = a_producer(cluster)
    batch = {"value": pa.array(["ä", "b"]), "headers": headers, "timestamp": times}
    producer.add("t", pa.RecordBatch.from_pydict(batch))
    producer.flush()
    rows = rows_of(cluster, "t")
    assert rows["value"] == ["ä".encode(), b"b"]
    assert rows["headers"] == [[{"key": "h", "value": b"1"}, {"key": "h", "value": None}], None]
    assert [round(moment.timestamp() * 1000) for moment in rows["timestamp"]] == [1234, NOW_MS]


def test_a_topic_created_concurrently_is_used(cluster):
    class Raced(InMemoryCluster):
        """Another process makes the topic between the look and the creation."""

        def create_topic(self, name, **settings):
            super().create_topic(name, partition_count=4)
            raise TopicExistsError("it is there", topic=name)

    assert describe_or_create(Raced(), "t", partition_count=1).partition_count == 4
    with pytest.raises(UnknownTopicError, match="'t' does not exist"):
        describe_existing(cluster, "t")


rows = st.lists(
    st.tuples(st.none() | st.binary(max_size=4), st.none() | st.binary(max_size=200), st.none() | st.integers(0, 2)),
    max_size=60,
)


@given(rows, st.lists(st.integers(0, 60), max_size=5), st.integers(200, 2000))
def test_every_row_is_written_once_and_partitions_keep_their_order(rows, cuts, gather_bytes):
    cluster = InMemoryCluster()
    cluster.create_topic("t", partition_count=3)
    producer = a_producer(cluster, gather_bytes=gather_bytes)
    whole = pa.RecordBatch.from_pydict(
        {
            "key": pa.array([key for key, _, _ in rows], pa.binary()),
            "value": pa.array([value for _, value, _ in rows], pa.binary()),
            "partition": pa.array([partition for _, _, partition in rows], pa.int32()),
        }
    )
    edges = sorted({0, len(rows), *(min(cut, len(rows)) for cut in cuts)})
    for start, end in pairwise(edges):
        producer.add("t", whole.slice(start, end - start))
    producer.flush()
    assert producer.appended_record_count == len(rows)
    found = {p: list(zip(*(rows_of(cluster, "t", p)[n] for n in ("key", "value")), strict=True)) for p in range(3)}
    free = []
    for p in range(3):
        fixed = [
            (key, value)
            for key, value, asked in rows
            if asked == p or (asked is None and key is not None and partition_for_key(key, 3) == p)
        ]
        left = list(found[p])
        for pair in fixed:
            assert pair in left
            left.remove(pair)
        free += left
    expected_free = [(key, value) for key, value, asked in rows if asked is None and key is None]
    assert sorted(free, key=repr) == sorted(expected_free, key=repr)


@pytest.mark.parametrize(
    ("count_after", "what"),
    [(0, "was deleted during the write"), (1, "was deleted and created again"), (2, "was deleted and created again")],
)
def test_a_topic_that_is_deleted_during_the_write_is_named_so(cluster, count_after, what):
    cluster.create_topic("t", partition_count=2)
    producer = a_producer(cluster, first_partition=1)
    producer.add("t", values(b"a"))
    cluster.delete_topic("t")
    if count_after:
        cluster.create_topic("t", partition_count=count_after)
    with pytest.raises(UnknownTopicError, match=f"'t' {what}"):
        producer.flush()


def test_rows_that_are_older_than_the_topic_keeps_them_are_counted(cluster):
    producer = a_producer(cluster)
    for times in ([NOW_MS, 1000], [2000, 2000], [NOW_MS]):
        producer.add(f"t{len(times)}", pa.RecordBatch.from_pydict({"value": ["a"] * len(times), "timestamp": times}))
        producer.flush()
    assert producer.expired == {"t2": ExpiredRows(row_count=3, oldest_ms=1000, retention_ms=604_800_000)}
    assert rows_of(cluster, "t2")["value"] == [b"a"] * 4, "they are written all the same"
