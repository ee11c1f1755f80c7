"""What the source plans and reads at a broker, without Spark: starts and ends, limits, progress, data loss."""

import json
import time
from uuid import uuid4

import pytest
from support.builders.builders import a_batch
from support.builders.committed_rows import committed_values
from support.clients.transacting import begin, write
from support.spark.read_query import StreamRun, batch_values, read_all, read_options, values_of

from broker_core.cluster import GroupOffset
from broker_core.model.exceptions import NotAvailableRemotelyError, TopicExistsError
from broker_core.model.fetch_start import FetchStart
from broker_core.model.identifiers import IsolationLevel, TopicPartition
from broker_core.record.batch_builder import build_batch
from broker_core.record.batch_reader import Record
from spark_streamlog.errors import ConditionError
from spark_streamlog.options.option_reader import QueryKind
from spark_streamlog.source.batch_planner import plan_batch
from spark_streamlog.source.offset_reader import OffsetReader
from spark_streamlog.source.range_reader import read_ranges
from spark_streamlog.source.topic_memory import memory_of
from spark_streamlog.tables.table_rows import TableScan, read_table, split_scan
from spark_streamlog.tables.table_schema import MetadataTable
from spark_streamlog.wall_clock import wall_clock_ms

MINUTE_MS = 60_000


@pytest.fixture
def first(topic):
    return TopicPartition(topic, 0)


@pytest.fixture
def second(topic):
    return TopicPartition(topic, 1)


def add(client, partition, *values, timestamp_ms=1000):
    """Batches of one record, a millisecond apart."""
    for number, value in enumerate(values):
        client.append(partition, build_batch([Record(value=value.encode(), timestamp_ms=timestamp_ms + number)]))


def rows_of(client, table, **which):
    scans = split_scan(client, TableScan(table=table, **which))
    found = [batch for scan in scans for batch in read_table(client, scan, now_ms=wall_clock_ms())]
    return [row for batch in found for row in batch.to_pylist()]


# -- batch queries --


def test_topics_are_subscribed_by_name_by_pattern_or_by_assignment(client, topic, first, second):
    add(client, first, "a")
    add(client, second, "b")
    assert batch_values(client, subscribe=topic) == ["a", "b"]
    assert batch_values(client, subscribePattern=f"^{topic}$|^__") == ["a", "b"]
    assert batch_values(client, assign=f'{{"{topic}":[1]}}') == ["b"]
    with pytest.raises(ConditionError, match=f"STREAMLOG_UNKNOWN_TOPICS.*{topic}-7"):
        batch_values(client, assign=f'{{"{topic}":[0,7]}}')


def test_a_start_relative_to_now_to_the_end_or_at_a_groups_offsets(broker, client, topic, first):
    group, now_ms = broker.name("g"), int(time.time() * 1000)
    add(client, first, "old", timestamp_ms=now_ms - 20 * MINUTE_MS)
    add(client, first, "new", "newest", timestamp_ms=now_ms - MINUTE_MS)
    client.commit_offsets(group, {first: GroupOffset(offset=2)})
    everything = ["old", "new", "newest"]
    asked = {"-10m": everything[1:], "latest-1": everything[2:], "latest-2": everything[1:], "latest-9": everything}
    for start, values in asked.items():
        found = batch_values(
            client, subscribe=topic, startingOffsets=start, startingOffsetsByTimestampStrategy="latest"
        )
        assert found == values, start
    assert batch_values(client, assign=f'{{"{topic}":[0]}}', startingOffsets=f"group:{group}") == ["newest"]
    with pytest.raises(ConditionError, match=r"STREAMLOG_GROUP_WITHOUT_OFFSETS.*nobody"):
        batch_values(client, subscribe=topic, startingOffsets="group:nobody")


def test_start_and_end_timestamps_and_a_timestamp_after_every_record(client, topic, first):
    add(client, first, "a", "b", "c", "d")
    between = {"startingTimestamp": 1001, "endingTimestamp": 1003}
    assert batch_values(client, subscribe=topic, startingOffsetsByTimestampStrategy="latest", **between) == ["b", "c"]
    by_partition = f'{{"{topic}":{{"0":1002,"1":1}}}}'
    assert batch_values(
        client, subscribe=topic, startingOffsetsByTimestamp=by_partition, startingOffsetsByTimestampStrategy="latest"
    ) == ["c", "d"]
    with pytest.raises(ConditionError, match="STREAMLOG_NO_OFFSET_FOR_TIMESTAMP"):
        batch_values(client, subscribe=topic, startingTimestamp=5000)


def test_ranges_are_split_and_no_offset_is_lost(client, topic, first):
    for base in range(0, 100, 10):
        client.append(
            first, build_batch([Record(value=b"%d" % number, timestamp_ms=1) for number in range(base, base + 10)])
        )
    for limits in ({"minPartitions": 7}, {"maxRecordsPerPartition": 13}):
        options = read_options(assign=f'{{"{topic}":[0]}}', startingOffsets=f'{{"{topic}":{{"0":0}}}}', **limits)
        planned = plan_batch(OffsetReader(client, options), options)
        assert len(planned) in (7, 8)
        assert read_all(client, planned, options) == [str(number) for number in range(100)]


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_open_and_aborted_records_are_read_according_to_the_isolation_level(broker, client, topic, first, isolation):
    for value, end in (("aborted", False), ("committed", True)):
        producer = begin(client, broker.name("x"), first)
        write(client, producer, first, value)
        client.end_transaction(producer, commit=end)
    open_one = begin(client, broker.name("x"), first)
    write(client, open_one, first, "open")
    add(client, first, "behind it")
    seen = batch_values(client, subscribe=topic, kafka__isolation__level=isolation)
    everything = ["aborted", "committed", "open", "behind it"]
    assert seen == (["committed"] if isolation == "read_committed" else everything)
    client.end_transaction(open_one, commit=False)
    assert committed_values(client, topic) == [b"committed", b"behind it"]


def test_records_deleted_before_they_were_read_are_reported_or_skipped(client, topic, first):
    add(client, first, "a", "b", "c")
    strict, lenient = (
        read_options(assign=f'{{"{topic}":[0]}}', startingOffsets=f'{{"{topic}":{{"0":0}}}}', failOnDataLoss=is_fatal)
        for is_fatal in (True, False)
    )
    planned = plan_batch(OffsetReader(client, strict), strict)
    client.delete_records(first, 2)
    assert read_all(client, planned, lenient) == ["c"]
    with pytest.raises(ConditionError, match=r"KAFKA_DATA_LOSS\.COULD_NOT_READ_OFFSET_RANGE.*0"):
        read_all(client, planned, strict)


# -- streams --


def a_stream(client, topic, checkpoint=None, **given):
    return StreamRun(client, checkpoint, **({"subscribe": topic, "startingOffsets": "earliest"} | given))


def test_a_stream_reads_up_to_its_limit_and_continues_from_its_checkpoint(client, topic, first, second):
    add(client, first, "a", "b", "c")
    add(client, second, "d", "e", "f")
    stream = a_stream(client, topic, maxOffsetsPerTrigger=4)
    assert (stream.run_batch(), stream.run_batch(), stream.run_batch()) == (["a", "b", "d", "e"], ["c", "f"], None)
    add(client, second, "g")
    assert a_stream(client, topic, stream.committed).run_all() == ["g"]


def test_bytes_per_trigger_are_limited_to_whole_batches(client, topic, first):
    size = len(a_batch())
    for _ in range(10):
        client.append(first, a_batch())
    stream = a_stream(client, topic, maxBytesPerTrigger=3 * size)
    stream.run_all()
    assert len(stream.batches) in (4, 5), "sampled, so a little more or less than three batches each"


def test_progress_is_committed_to_a_consumer_group(broker, client, topic, first):
    group = broker.name("g")
    add(client, first, "a", "b", "c")
    stream = a_stream(client, topic, groupId=group, maxOffsetsPerTrigger=2)
    stream.run_all()
    assert client.fetch_offsets(group)[first].offset == 3
    assert group in client.list_groups()


def test_a_partition_that_is_added_later_is_read_from_its_start(client, topic, first):
    add(client, first, "a")
    stream = a_stream(client, topic)
    assert stream.run_all() == ["a"]
    client.create_partitions(topic, 3)
    add(client, TopicPartition(topic, 2), "b")
    assert stream.run_all() == ["b"]


@pytest.mark.parametrize("is_fatal", [True, False])
def test_a_recreated_topic_is_another_topic(client, topic, first, is_fatal):
    add(client, first, "a", "b")
    stream = a_stream(client, topic, failOnDataLoss=is_fatal)
    stream.run_all()
    client.delete_topic(topic)
    client.create_topic(topic, partition_count=2, configs={"retention.ms": "-1"})
    add(client, first, "c")
    if is_fatal:
        with pytest.raises(ConditionError, match="KAFKA_DATA_LOSS"):
            stream.run_all()
    else:
        assert stream.run_all() == ["c"]


def test_a_stream_reads_up_to_the_first_open_transaction(broker, client, topic, first):
    add(client, first, "a")
    producer = begin(client, broker.name("x"), first)
    write(client, producer, first, "b")
    add(client, first, "c")
    stream = a_stream(client, topic)
    assert stream.run_all() == ["a"]
    client.end_transaction(producer, commit=True)
    assert stream.run_all() == ["b", "c"]
    assert stream.options.isolation is IsolationLevel.READ_COMMITTED
    assert stream.options == read_options(QueryKind.STREAM, subscribe=topic, startingOffsets="earliest")


# -- metadata tables --


def test_the_metadata_tables_except_segments(broker, client, topic, first):
    group, name = broker.name("g"), broker.name("x")
    add(client, first, "a", "b", "c")
    client.commit_offsets(group, {first: GroupOffset(offset=1)})
    begin(client, name, first)
    (found,) = rows_of(client, MetadataTable.TOPICS, topics=frozenset({topic}))
    assert (found["topic"], found["partition_count"], found["configs"]) == (topic, 2, [("retention.ms", "-1")])
    batches = rows_of(client, MetadataTable.BATCHES, topics=frozenset({topic}))
    assert [(one["partition"], one["base_offset"], one["record_count"]) for one in batches] == [
        (0, 0, 1), (0, 1, 1), (0, 2, 1),
    ]  # fmt: skip
    (stored,) = rows_of(client, MetadataTable.GROUPS, groups=frozenset({group}))
    assert (stored["topic"], stored["partition"]) == (topic, 0)
    (lag,) = rows_of(client, MetadataTable.LAG, groups=frozenset({group}))
    assert (lag["behind_offsets"], lag["log_end_offset"]) == (2, 3)
    (transaction,) = [one for one in rows_of(client, MetadataTable.TRANSACTIONS) if one["transactional_id"] == name]
    assert (transaction["state"], transaction["partitions"]) == ("Ongoing", [{"topic": topic, "partition": 0}])
    with pytest.raises(NotAvailableRemotelyError, match="path"):
        rows_of(client, MetadataTable.SEGMENTS, topics=frozenset({topic}))


# -- a topic recreated while a stream is down --


def recreate(client, name):
    client.delete_topic(name)
    deadline = time.monotonic() + 30
    while True:
        try:
            return client.create_topic(name, partition_count=2, configs={"retention.ms": "-1"})
        except TopicExistsError:
            assert time.monotonic() < deadline, f"{name} is not deleted"
            time.sleep(0.05)


def test_a_topic_recreated_while_a_stream_was_down_is_detected_by_its_id(client, topic, first, tmp_path):
    (tmp_path / "metadata").write_text(json.dumps({"id": str(uuid4())}))
    given = {"subscribe": topic, "startingOffsets": "earliest", "checkpointLocation": tmp_path}
    memory = memory_of(read_options(QueryKind.STREAM, **given))
    add(client, first, "a", "b")
    stream = StreamRun(client, memory=memory, **given)
    assert stream.run_all() == ["a", "b"]
    recreate(client, topic)
    add(client, first, "x", "y", "z")
    with pytest.raises(ConditionError, match="TOPIC_RECREATED"):
        StreamRun(client, stream.committed, memory=memory, **given).run_batch()
    tolerant = StreamRun(client, stream.committed, memory=memory, failOnDataLoss=False, **given)
    assert tolerant.run_all() == ["x", "y", "z"]


@pytest.mark.parametrize("topic_count", [1, 2])
def test_the_group_of_a_stream_shows_which_topic_was_recreated(broker, client, topic, first, topic_count):
    others = [broker.name() for _ in range(topic_count - 1)]
    for other in others:
        client.create_topic(other)
    given = {"subscribe": ",".join([topic, *others]), "startingOffsets": "earliest", "groupId": broker.name("g")}
    add(client, first, "a", "b")
    stream = StreamRun(client, **given)
    assert stream.run_all() == ["a", "b"]
    recreate(client, topic)
    add(client, first, "x", "y", "z")
    with pytest.raises(ConditionError, match="TOPIC_RECREATED"):
        StreamRun(client, stream.committed, **given).run_batch()
    assert StreamRun(client, stream.committed, failOnDataLoss=False, **given).run_all() == ["x", "y", "z"]


def test_a_broker_deletes_committed_offsets_with_their_topic(broker, client, topic, first):
    group = broker.name("g")
    client.commit_offsets(group, {first: GroupOffset(offset=2, metadata="told by the group")})
    recreate(client, topic)
    deadline = time.monotonic() + 30
    while client.fetch_offsets(group):
        assert time.monotonic() < deadline, "the group still has an offset"
        time.sleep(0.05)


# -- several partitions with one request --


def test_one_request_fetches_the_first_batches_of_several_partitions(broker, client, topic, first, second):
    add(client, first, "a", "b")
    add(client, second, "c")
    topic_id = client.describe_topics([topic])[topic].topic_id
    starts = {first: FetchStart(from_offset=1, topic_id=topic_id), second: FetchStart(from_offset=0, topic_id=topic_id)}
    found = client.fetch_several(starts, max_bytes=1 << 20)
    for partition, start in starts.items():
        alone = client.fetch(partition, start.from_offset, max_bytes=1 << 20)
        assert bytes(found[partition].buffer) == bytes(alone.buffer)
        assert (found[partition].next_offset, found[partition].bounds) == (alone.next_offset, alone.bounds)


def test_a_partition_that_cannot_be_fetched_does_not_affect_the_others(client, topic, first, second):
    add(client, first, "a")
    topic_id = client.describe_topics([topic])[topic].topic_id
    beyond = FetchStart(from_offset=7, topic_id=topic_id)
    at_the_start = FetchStart(from_offset=0, topic_id=topic_id)
    assert client.fetch_several({first: at_the_start, second: beyond}, max_bytes=1 << 20).keys() == {first}
    assert client.fetch_several({first: at_the_start, second: at_the_start}, max_bytes=1 << 20).keys() == {first}
    another = FetchStart(from_offset=0, topic_id=uuid4())
    assert client.fetch_several({first: another, second: another}, max_bytes=1 << 20) == {}
    nowhere = TopicPartition("there is no such topic", 0)
    assert client.fetch_several({nowhere: another}, max_bytes=1 << 20) == {}


def test_a_batch_above_its_share_gets_its_own_fetch_and_every_row_is_read_once(client, topic, first, second):
    large = "x" * 600_000
    for partition, name in ((first, "a"), (second, "b")):
        for number in range(3):
            add(client, partition, f"{name}{number}{large}")
    stream = StreamRun(client, subscribe=topic, startingOffsets="earliest")
    start, end = stream.next_end()
    planned = stream.planner.plan(start, end)
    values = values_of(read_ranges(client, planned, stream.options))
    assert [value[:2] for value in values] == ["a0", "a1", "a2", "b0", "b1", "b2"]
