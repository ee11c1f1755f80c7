"""Several processes at work in one directory at once: nothing is lost, nothing comes twice, each producer in order."""

from __future__ import annotations

import fcntl
import os
import random

import pytest
from fuzz.appending_process import Acknowledged, WriterPosition, batch_of, contents_of
from fuzz.batches import a_batch_of, rows_of
from fuzz.partition_findings import findings_of
from fuzz.plain_log import Content
from fuzz.worker_process import LoopingProcess

from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.log_directory import directory as directory_room
from broker_core.log_directory.partition_lock import PartitionLock
from broker_core.model.exceptions import (
    DirectoryLockedError,
    OffsetOutOfRangeError,
    TopicExistsError,
    UnknownPartitionError,
    UnknownTopicError,
)
from broker_core.model.identifiers import TopicPartition
from broker_core.ports import LockMode

SMALL = {"internal.segment.bytes": "4000", "index.interval.bytes": "500", "retention.ms": "-1"}
COMPACTED = {**SMALL, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
GONE = (UnknownTopicError, UnknownPartitionError, OffsetOutOfRangeError)


# -- what the processes do --
def produce(connection, directory, writer, partitions, count, seed):
    """Every so often a batch is sent twice, as after a lost answer."""
    cluster = open_embedded(directory)
    rng = random.Random(seed)
    places = {partition: WriterPosition(cluster.init_producer().producer_id) for partition in partitions}
    connection.recv()
    for _ in range(count):
        partition = rng.choice(partitions)
        place = places[partition]
        result = cluster.append(partition, batch_of(writer, partition, place))
        if rng.random() < 0.2:
            again = cluster.append(partition, batch_of(writer, partition, place))
            assert again.is_duplicate
            assert (again.base_offset, again.last_offset) == (result.base_offset, result.last_offset)
        connection.send(Acknowledged(partition, place, result.base_offset, result.last_offset, result.is_duplicate))
        places[partition] = place.after(writer, partition)
    cluster.close()
    connection.send("done")


def consume(connection, directory, partitions):
    """Reads all the time: offsets ascend without a gap, each writer's numbers ascend, and nothing seen changes."""
    cluster = open_embedded(directory)
    offsets = dict.fromkeys(partitions, 0)
    newest = {}
    connection.recv()
    fetch_count = 0
    while not connection.poll(0):
        for partition in partitions:
            fetched = cluster.fetch(partition, offsets[partition], max_bytes=3000)
            fetch_count += 1
            for row in rows_of(fetched, offsets[partition]):
                assert row.offset == offsets[partition]
                offsets[partition] += 1
                writer, number, slot, _ = row.value.split(b"/")
                order = (int(number), int(slot))
                assert order > newest.get((partition, writer), (-1, -1))
                newest[partition, writer] = order
    connection.recv()
    for partition in partitions:
        assert cluster.bounds(partition).high_watermark >= offsets[partition]
    connection.send(("read", sum(offsets.values()), fetch_count))


def consume_compacted(connection, directory, partition):
    """Reads all there is, again and again, while segments are swapped under it: no key vanishes, none gets older."""
    cluster = open_embedded(directory)
    newest, contents, passes = {}, {}, 0
    connection.recv()
    while not connection.poll(0) or not passes:
        offset, found = 0, {}
        end = cluster.bounds(partition).high_watermark
        while offset < end:
            fetched = cluster.fetch(partition, offset, max_bytes=2000)
            for row in rows_of(fetched, offset):
                assert contents.setdefault(row.offset, (row.key, row.value)) == (row.key, row.value)
                assert row.offset > found.get(row.key, -1)
                found[row.key] = row.offset
            offset = fetched.next_offset
        for key, known_offset in newest.items():
            assert found.get(key, -1) >= known_offset, f"{key!r} was at {known_offset}, now at {found.get(key)}"
        newest, passes = found, passes + 1
    connection.recv()
    connection.send(("read", passes))


def churn(connection, directory, name, names, rounds):
    """Makes, fills, widens, reads and deletes topics that other processes make and delete, too."""
    cluster = open_embedded(directory)
    rng = random.Random(name)
    made = deleted = appended = 0
    connection.recv()
    for number in range(rounds):
        topic = rng.choice(names)
        try:
            cluster.create_topic(topic, partition_count=rng.randrange(1, 3), configs=SMALL)
            made += 1
        except TopicExistsError:
            pass
        partition = TopicPartition(topic, 0)
        try:
            for _ in range(rng.randrange(4)):
                cluster.append(partition, a_batch_of([Content(number, b"k", b"v" * 700)]))
                appended += 1
            fetched = cluster.fetch(partition, 0, max_bytes=100)
            assert all(row.key == b"k" for row in rows_of(fetched, 0))
            cluster.delete_records(partition, -1)
        except GONE:
            pass
        if rng.random() < 0.6:
            try:
                cluster.delete_topic(topic)
                deleted += 1
            except UnknownTopicError:
                pass
    connection.send((made, deleted, appended))


def create_one(connection, directory, topic):
    cluster = open_embedded(directory, create=True)
    connection.recv()
    try:
        described = cluster.create_topic(topic, partition_count=3)
        connection.send(("made", described.topic_id))
    except TopicExistsError:
        connection.send(("was there", cluster.describe_topics([topic])[topic].topic_id))
    connection.send([cluster.init_producer().producer_id for _ in range(20)])


def hold_root_lock(connection, directory, kind):
    path = f"{directory}/.lock"
    if kind == "as our broker":
        lock = PartitionLock(path)
        assert lock.acquire(LockMode.EXCLUSIVE, timeout_seconds=0)
    else:  # as Java's FileChannel.lock does, which a real Kafka uses
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    connection.send("held")
    connection.recv()


# -- tests --
@pytest.mark.parametrize("count", [60, pytest.param(2000, marks=[pytest.mark.long, pytest.mark.timeout(3600)])])
def test_concurrent_writers_readers_and_topic_changes_do_not_interfere(tmp_path, count):
    directory = str(tmp_path / "log")
    cluster = open_embedded(directory, create=True)
    cluster.create_topic("shared", partition_count=2, configs=SMALL)
    cluster.create_topic("compacted", configs=COMPACTED)
    shared = [TopicPartition("shared", 0), TopicPartition("shared", 1)]
    partitions = [*shared, TopicPartition("compacted", 0)]
    writers = {
        name: LoopingProcess(produce, directory, name, partitions, count, seed)
        for seed, name in enumerate(("one", "two", "three"))
    }
    reader = LoopingProcess(consume, directory, shared)
    compacted_reader = LoopingProcess(consume_compacted, directory, partitions[2])
    churners = [LoopingProcess(churn, directory, name, ["x", "y"], count // 2) for name in ("left", "right")]
    everybody = [*writers.values(), reader, compacted_reader, *churners]
    for process in everybody:
        process.send("go")
    acknowledged = {partition: {} for partition in partitions}
    for writer, process in writers.items():
        while (message := process.take()) != "done":
            for slot, content in enumerate(contents_of(writer, message.partition, message.place.number)):
                offset = message.base_offset + slot
                assert offset not in acknowledged[message.partition], "two batches at one offset"
                acknowledged[message.partition][offset] = (content.key, content.value)
    made, deleted, appended = (sum(column) for column in zip(*(c.take() for c in churners), strict=True))
    assert made and deleted and appended
    reader.send("stop")
    compacted_reader.send("stop")
    assert reader.take()[2] > 0
    assert compacted_reader.take()[1] > 1
    for process in everybody:
        process.join()
        process.close()
    for partition in partitions:
        _holds_what_was_acknowledged(cluster, partition, acknowledged[partition])
        assert findings_of(directory, partition) == []
    assert set(cluster.describe_topics()) >= {"shared", "compacted"}
    for topic in ("x", "y"):
        if topic not in cluster.describe_topics():
            cluster.create_topic(topic)
            assert cluster.bounds(TopicPartition(topic, 0)).log_end_offset == 0
    cluster.close()


def _holds_what_was_acknowledged(cluster, partition, acknowledged):
    offset, found = 0, {}
    while offset < cluster.bounds(partition).high_watermark:
        fetched = cluster.fetch(partition, offset, max_bytes=1 << 20)
        found |= {row.offset: (row.key, row.value) for row in rows_of(fetched, offset)}
        offset = fetched.next_offset
    assert cluster.bounds(partition).log_end_offset == len(acknowledged)
    if partition.topic != "compacted":
        assert found == acknowledged
        return
    assert len(found) < len(acknowledged), "nothing was compacted"
    assert found.items() <= acknowledged.items()
    newest = {key: offset for offset, (key, _) in sorted(acknowledged.items())}
    assert set(newest.values()) <= found.keys()


def test_concurrent_processes_create_a_log_and_a_topic_once(tmp_path):
    directory = str(tmp_path / "new" / "log")
    processes = [LoopingProcess(create_one, directory, "t") for _ in range(4)]
    for process in processes:
        process.send("go")
    answers = [process.take() for process in processes]
    assert sorted(kind for kind, _ in answers) == ["made", "was there", "was there", "was there"]
    assert len({topic_id for _, topic_id in answers}) == 1
    producer_ids = [number for process in processes for number in process.take()]
    assert len(set(producer_ids)) == len(producer_ids) == 80
    for process in processes:
        process.join()
        process.close()


def test_a_topic_that_another_process_recreated_is_empty(tmp_path):
    directory = str(tmp_path / "log")
    old, new = open_embedded(directory, create=True), open_embedded(directory, create=True)
    old.create_topic("t", configs=SMALL)
    partition = TopicPartition("t", 0)
    for number in range(20):
        old.append(partition, a_batch_of([Content(number, b"old", b"v" * 900)]))
    assert new.bounds(partition).log_end_offset == 20
    new.delete_topic("t")
    new.create_topic("t", configs=SMALL)
    assert old.bounds(partition).log_end_offset == 0
    assert old.append(partition, a_batch_of([Content(1, b"new", b"v")])).base_offset == 0
    assert [row.key for row in rows_of(new.fetch(partition, 0, max_bytes=1000), 0)] == [b"new"]
    old.close()
    new.close()


@pytest.mark.parametrize("kind", ["as our broker", "as a Java process"])
def test_a_directory_that_a_broker_serves_is_refused(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(directory_room, "_LOCK_WAIT_SECONDS", 0.2)
    directory = str(tmp_path / "log")
    cluster = open_embedded(directory, create=True)
    cluster.create_topic("t")
    cluster.close()
    broker = LoopingProcess(hold_root_lock, directory, kind)
    try:
        assert broker.take() == "held"
        with pytest.raises(DirectoryLockedError, match=r"broker.*kafka\.bootstrap\.servers"):
            open_embedded(directory)
        broker.send("stop")
        broker.join()
    finally:
        broker.close()
    cluster = open_embedded(directory)
    assert "t" in cluster.describe_topics()
    cluster.close()


def test_a_broker_cannot_take_a_directory_that_an_embedded_process_has_open(tmp_path):
    directory = str(tmp_path / "log")
    cluster = open_embedded(directory, create=True)
    cluster.create_topic("t")
    lock = PartitionLock(f"{directory}/.lock")
    assert not lock.acquire(LockMode.EXCLUSIVE, timeout_seconds=0)
    cluster.close()
    assert lock.acquire(LockMode.EXCLUSIVE, timeout_seconds=0)
    lock.close()
