import os
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from itertools import chain
from pathlib import Path

import pytest
from golden_data import fingerprint, unpack
from support.builders.builders import SOME_TIME_MS, a_batch, a_record
from support.files.read_only_file_system import ReadOnlyFileSystem

from broker_core.cluster import GroupOffset, TransactionalProducer
from broker_core.embedded.embedded_cluster import EmbeddedCluster, open_embedded
from broker_core.model.exceptions import (
    DirectoryFormatError,
    DirectoryReadOnlyError,
    InvalidConfigError,
    InvalidRequestError,
    InvalidTopicNameError,
    OffsetOutOfRangeError,
    PolicyViolationError,
    StorageError,
    StreamlogError,
    TopicExistsError,
    UnknownPartitionError,
    UnknownTopicError,
)
from broker_core.model.identifiers import IsolationLevel, OffsetSpec, TopicPartition
from broker_core.model.limits import MAX_OPEN_PARTITION_COUNT
from broker_core.record.batch_reader import iter_headers, records_of

T0 = TopicPartition("t", 0)
NO_RETENTION = {"retention.ms": "-1"}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log"


@pytest.fixture
def cluster(path):
    with open_embedded(path, create=True) as opened:
        yield opened


def values_in(cluster, partition=T0):
    bounds = cluster.bounds(partition)
    offset, found = bounds.log_start_offset, []
    while offset < bounds.high_watermark:
        fetched = cluster.fetch(partition, offset, max_bytes=10_000)
        for position, _ in iter_headers(fetched.buffer):
            found.extend(record.value for record in records_of(fetched.buffer, position))
        offset = fetched.next_offset
    return found


def append(cluster, *values, partition=T0):
    return cluster.append(partition, a_batch([a_record(value=value) for value in values]))


# -- topics --


def test_a_topic_is_created_described_grown_altered_and_deleted(cluster):
    created = cluster.create_topic("t", partition_count=2, configs=NO_RETENTION)
    assert (created.name, created.partition_count, created.configs) == ("t", 2, NO_RETENTION)
    assert cluster.describe_topics() == {"t": created}
    assert cluster.describe_topics(["t", "u"]) == {"t": created}
    assert cluster.create_partitions("t", 3).partition_count == 3
    assert cluster.alter_topic_configs("t", {"retention.ms": None, "segment.ms": "9"}).configs == {"segment.ms": "9"}
    append(cluster, b"x", partition=TopicPartition("t", 2))
    cluster.delete_topic("t")
    assert cluster.describe_topics() == {}
    assert not any(name.startswith("t-") for name in os.listdir(cluster.path))


def test_settings_are_shown_parsed_and_stored_as_given(cluster):
    """As a broker tells them, so that both doors say the same."""
    created = cluster.create_topic("t", configs={"retention.ms": " 0123 ", "cleanup.policy": "compact, compact"})
    assert created.configs == {"retention.ms": "123", "cleanup.policy": "compact"}
    altered = cluster.alter_topic_configs("t", {"min.cleanable.dirty.ratio": "1"})
    assert altered.configs == {**created.configs, "min.cleanable.dirty.ratio": "1.0"}
    assert cluster.create_partitions("t", 2).configs == altered.configs
    assert cluster.describe_topics()["t"].configs == altered.configs


def test_a_topic_gets_num_partitions_by_default(path):
    with EmbeddedCluster(path, create=True, num_partitions=4) as cluster:
        assert cluster.create_topic("t").partition_count == 4


@pytest.mark.parametrize(
    ("kind", "call"),
    [
        (InvalidTopicNameError, lambda c: c.create_topic("a b")),
        (InvalidTopicNameError, lambda c: c.create_topic("a_b")),
        (TopicExistsError, lambda c: c.create_topic("a.b")),
        (InvalidConfigError, lambda c: c.create_topic("t", configs={"retention": "1"})),
        (UnknownTopicError, lambda c: c.delete_topic("t")),
        (UnknownTopicError, lambda c: c.create_partitions("t", 2)),
        (UnknownTopicError, lambda c: c.alter_topic_configs("t", {})),
        (UnknownTopicError, lambda c: c.bounds(T0)),
        (UnknownTopicError, lambda c: c.fetch(T0, 0, max_bytes=1)),
        (UnknownTopicError, lambda c: c.append(T0, a_batch())),
        (UnknownTopicError, lambda c: c.delete_records(T0, 0)),
        (UnknownTopicError, lambda c: c.list_offsets({T0: OffsetSpec.LATEST})),
        (UnknownTopicError, lambda c: c.maintain(["t"])),
        (UnknownTopicError, lambda c: c.bounds(TopicPartition("__cluster_metadata", 0))),
        (UnknownPartitionError, lambda c: c.bounds(TopicPartition("a.b", 1))),
        (UnknownPartitionError, lambda c: c.append(TopicPartition("a.b", -1), a_batch())),
    ],
)
def test_invalid_changes_are_refused_and_change_nothing(cluster, kind, call):
    cluster.create_topic("a.b")
    before = fingerprint(cluster_path(cluster))
    with pytest.raises(kind):
        call(cluster)
    assert {name: digest for name, (digest, _) in fingerprint(cluster_path(cluster)).items()} == {
        name: digest for name, (digest, _) in before.items()
    }


def cluster_path(cluster):
    from pathlib import Path

    return Path(cluster.path)


def test_topic_names_are_case_sensitive(cluster):
    cluster.create_topic("t")
    cluster.create_topic("T")
    append(cluster, b"small")
    append(cluster, b"large", partition=TopicPartition("T", 0))
    assert (values_in(cluster), values_in(cluster, TopicPartition("T", 0))) == ([b"small"], [b"large"])


# -- the directory --


def test_reading_a_missing_path_creates_nothing(path):
    with open_embedded(path, create=True) as cluster:
        assert cluster.describe_topics() == {}
        with pytest.raises(UnknownTopicError):
            cluster.fetch(T0, 0, max_bytes=1)
        with pytest.raises(StreamlogError):
            cluster.create_topic("no such name")
        with pytest.raises(StreamlogError):
            cluster.delete_topic("t")
        assert not path.exists()
        cluster.create_topic("t")
        assert path.exists()


def test_an_unsupported_url_is_refused_and_a_file_url_is_its_path(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    for location in ("s3://bucket/log", Path("s3://bucket/log"), "file://host/log"):
        with pytest.raises(InvalidConfigError, match=r"local (directory|path)"):
            open_embedded(location, create=True)
    assert not list(path.parent.iterdir())
    with open_embedded(f"file://{path}", create=True) as cluster:
        cluster.create_topic("t")
        assert cluster.path == str(path)


def test_without_create_the_directory_must_be_a_log_directory(path):
    with pytest.raises(DirectoryFormatError, match="does not exist"):
        open_embedded(path)


def test_a_directory_removed_under_an_open_cluster_starts_empty(cluster, path):
    cluster.create_topic("t")
    append(cluster, b"old")
    first_id = cluster.init_producer().producer_id
    shutil.rmtree(path)
    assert cluster.describe_topics() == {}
    cluster.create_topic("t")
    assert values_in(cluster) == []
    append(cluster, b"new")
    assert values_in(cluster) == [b"new"]
    assert cluster.init_producer().producer_id == first_id


def test_a_directory_recreated_by_another_process_is_detected(cluster, path):
    cluster.create_topic("t")
    append(cluster, b"old")
    shutil.rmtree(path)
    with open_embedded(path, create=True) as other:
        other.create_topic("t")
        append(other, b"new")
    assert values_in(cluster) == [b"new"]


def test_a_log_on_a_read_only_mount_can_only_be_read(cluster, path):
    cluster.create_topic("t", configs=NO_RETENTION)
    append(cluster, b"x")
    cluster.close()
    before = fingerprint(path)
    fs = ReadOnlyFileSystem()
    with EmbeddedCluster(path, file_system=fs) as reader:
        assert values_in(reader) == [b"x"]
        assert reader.list_offsets({T0: 0})[T0].offset == 0
        for call in writes():
            with pytest.raises(DirectoryReadOnlyError, match="No write access"):
                call(reader)
    assert {path.rpartition("/")[2] for _, path in fs.refused} == {".lock"}
    assert fingerprint(path) == before


def writes(name="t"):
    partition = TopicPartition(name, 0)
    return [
        lambda c: c.create_topic("another"),
        lambda c: c.delete_topic(name),
        lambda c: c.create_partitions(name, 9),
        lambda c: c.alter_topic_configs(name, {"retention.ms": "1"}),
        lambda c: c.append(partition, a_batch()),
        lambda c: c.delete_records(partition, -1),
        lambda c: c.init_producer(),
        lambda c: c.maintain(),
    ]


@pytest.mark.parametrize("file_system", [None, ReadOnlyFileSystem()])
def test_a_real_kafkas_directory_is_read_without_changes(tmp_path, file_system):
    log = unpack(tmp_path) / "log"
    before = fingerprint(log)
    with EmbeddedCluster(log, create=True, file_system=file_system) as cluster:
        for name, topic in cluster.describe_topics().items():
            for number in range(topic.partition_count):
                values_in(cluster, TopicPartition(name, number))
        assert cluster.bounds(TopicPartition("trimmed", 0)).log_start_offset == 17
        for call in writes("codecs"):
            with pytest.raises(DirectoryReadOnlyError, match="written by Apache Kafka"):
                call(cluster)
    assert fingerprint(log) == before
    assert file_system is None or file_system.refused == []


def test_a_closed_cluster_raises(cluster):
    cluster.create_topic("t")
    cluster.close()
    cluster.close()
    with pytest.raises(StorageError, match="was closed"):
        cluster.describe_topics()


# -- offsets --


def test_offsets_are_listed_by_spec_and_by_timestamp(cluster):
    cluster.create_topic("t", configs=NO_RETENTION)
    assert cluster.list_offsets({T0: OffsetSpec.MAX_TIMESTAMP})[T0] is None
    times = [0, 5, 3]
    cluster.append(T0, a_batch([a_record(timestamp_ms=SOME_TIME_MS + time) for time in times]))

    def offset_of(spec, isolation=IsolationLevel.READ_UNCOMMITTED):
        answer = cluster.list_offsets({T0: spec}, isolation)[T0]
        return None if answer is None else (answer.offset, answer.timestamp_ms)

    assert offset_of(OffsetSpec.EARLIEST) == (0, -1)
    assert offset_of(OffsetSpec.LATEST) == (3, -1)
    assert offset_of(OffsetSpec.MAX_TIMESTAMP) == (1, SOME_TIME_MS + 5)
    assert offset_of(-1) == (3, -1)
    assert offset_of(0) == (0, SOME_TIME_MS)
    assert offset_of(SOME_TIME_MS + 1) == (1, SOME_TIME_MS + 5)
    assert offset_of(SOME_TIME_MS + 6) is None
    with pytest.raises(InvalidRequestError, match="-4 is neither a timestamp in ms nor an offset spec"):
        offset_of(-4)


def test_read_committed_ends_below_an_open_transaction(cluster):
    cluster.create_topic("t", configs=NO_RETENTION)
    append(cluster, b"x")
    given = cluster.init_producer("id")
    producer = TransactionalProducer(transactional_id="id", producer_id=given.producer_id, producer_epoch=0)
    cluster.add_partitions_to_transaction(producer, [T0])
    cluster.append(T0, a_batch(2, producer=(given.producer_id, 0, 0), is_transactional=True))
    latest = {
        isolation: cluster.list_offsets({T0: OffsetSpec.LATEST}, isolation)[T0].offset for isolation in IsolationLevel
    }
    assert latest == {IsolationLevel.READ_UNCOMMITTED: 3, IsolationLevel.READ_COMMITTED: 1}
    assert cluster.list_offsets({T0: SOME_TIME_MS + 1}, IsolationLevel.READ_COMMITTED)[T0] is None


def test_a_request_by_topic_id_does_not_match_a_recreated_topic(cluster):
    first = cluster.create_topic("t").topic_id
    append(cluster, b"a")
    assert len(cluster.fetch(T0, 0, max_bytes=100, topic_id=first).buffer)
    cluster.delete_topic("t")
    second = cluster.create_topic("t").topic_id
    append(cluster, b"b")
    with pytest.raises(UnknownTopicError, match=f"deleted and created again: its id is no longer {first}"):
        cluster.fetch(T0, 0, max_bytes=100, topic_id=first)
    assert len(cluster.fetch(T0, 0, max_bytes=100, topic_id=second).buffer)


def test_records_are_deleted_up_to_an_offset(cluster):
    cluster.create_topic("t", configs=NO_RETENTION)
    append(cluster, b"a", b"b", b"c")
    assert cluster.delete_records(T0, 2) == 2
    assert cluster.bounds(T0).log_start_offset == 2
    with pytest.raises(OffsetOutOfRangeError):
        cluster.fetch(T0, 1, max_bytes=100)
    assert cluster.delete_records(T0, -1) == 3
    with pytest.raises(OffsetOutOfRangeError):
        cluster.delete_records(T0, 4)


def test_delete_records_is_refused_for_compacted_and_internal_topics(cluster):
    cluster.create_topic("t", configs={"cleanup.policy": "compact"})
    with pytest.raises(PolicyViolationError, match=r"cleanup\.policy is compact without delete"):
        cluster.delete_records(T0, 0)
    cluster.alter_topic_configs("t", {"cleanup.policy": "compact,delete"})
    assert cluster.delete_records(T0, 0) == 0
    cluster.commit_offsets("group", {T0: GroupOffset(offset=0)})
    with pytest.raises(InvalidTopicNameError, match="Cannot delete records of internal topic"):
        cluster.delete_records(TopicPartition("__consumer_offsets", 0), 0)


def test_a_retry_after_reopening_gets_its_original_offset(cluster, path):
    cluster.create_topic("t", configs=NO_RETENTION)
    batch = a_batch(2, producer=(cluster.init_producer().producer_id, 0, 0))
    first = cluster.append(T0, bytearray(batch))
    with open_embedded(path) as other:
        again = other.append(T0, bytearray(batch))
    assert (again.base_offset, again.is_duplicate) == (first.base_offset, True)
    assert cluster.bounds(T0).log_end_offset == 2


# -- maintenance --


def test_a_segment_roll_starts_retention(cluster):
    cluster.create_topic("t", configs={"internal.segment.bytes": "300", "retention.bytes": "300"})
    for _ in range(20):
        append(cluster, b"v" * 100)
    cluster._maintenance.stop()
    assert cluster.bounds(T0).log_start_offset > 10


def test_an_error_in_maintenance_fails_no_append(cluster, caplog, monkeypatch):
    from broker_core.storage.writable_partition import WritablePartition

    hits = []

    def refuse(store, now_ms, **more):
        hits.append(now_ms)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(WritablePartition, "apply_retention", refuse)
    cluster.create_topic("t", configs={"internal.segment.bytes": "300"})
    assert [append(cluster, b"v" * 200).base_offset for _ in range(5)] == [0, 1, 2, 3, 4]
    cluster._maintenance.stop()
    assert hits
    assert "maintenance of t-0 failed" in caplog.text


def test_maintain_reports_progress(cluster):
    cluster.create_topic("t", partition_count=2)
    cluster.create_topic("s")
    seen = []
    reports = cluster.maintain(progress=lambda partition, done, total: seen.append((str(partition), done, total)))
    assert seen == [("s-0", 0, 3), ("t-0", 1, 3), ("t-1", 2, 3)]
    assert [str(report.partition) for report in reports] == ["s-0", "t-0", "t-1"]
    assert [report.partition.topic for report in cluster.maintain(["s"])] == ["s"]


# -- threads and processes --


def test_threads_share_a_cluster(cluster):
    cluster.create_topic("t", partition_count=2, configs=NO_RETENTION)
    failures = []

    def work(number):
        partition = TopicPartition("t", number % 2)
        try:
            for turn in range(20):
                append(cluster, b"%d/%d" % (number, turn), partition=partition)
                values_in(cluster, partition)
                cluster.init_producer()
        except Exception as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    for number in range(2):
        values = values_in(cluster, TopicPartition("t", number))
        for writer in (number, number + 2):
            assert [v for v in values if v.startswith(b"%d/" % writer)] == [b"%d/%d" % (writer, n) for n in range(20)]
        assert len(values) == 40


APPENDER = """
import sys
from support.builders.builders import a_batch, a_record
from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.model.identifiers import TopicPartition
cluster = open_embedded(sys.argv[1])
sys.stdin.readline()
for number in range(int(sys.argv[3])):
    value = f"{sys.argv[2]}/{number}".encode()
    result = cluster.append(TopicPartition("t", 0), a_batch([a_record(value=value)]))
    print(result.base_offset, flush=True)
"""

TOPIC_MAKER = """
import sys
from broker_core.embedded.embedded_cluster import open_embedded
cluster = open_embedded(sys.argv[1])
number = 0
while True:
    name = f"n{number % 3}"
    cluster.create_topic(name, partition_count=2)
    print("made", name, flush=True)
    cluster.delete_topic(name)
    print("deleted", name, flush=True)
    number += 1
"""


@pytest.fixture
def start_process(path):
    started = []

    def start(script, *arguments):
        tests = os.path.join(os.path.dirname(__file__), *[os.pardir] * 3)
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([tests, os.path.join(tests, os.pardir)])}
        process = subprocess.Popen(
            [sys.executable, "-c", script, str(path), *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_concurrent_processes_append_to_one_partition_without_loss(cluster, start_process):
    cluster.create_topic("t", configs={**NO_RETENTION, "internal.segment.bytes": "2000"})
    processes = [start_process(APPENDER, name, "60") for name in ("a", "b")]
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    own = [append(cluster, b"c/%d" % number).base_offset for number in range(60)]
    offsets = {"c": own}
    for name, process in zip("ab", processes, strict=True):
        output, _ = process.communicate(timeout=60)
        offsets[name] = [int(line) for line in output.split()]
    assert sorted(chain.from_iterable(offsets.values())) == list(range(180))
    values = values_in(cluster)
    for name, places in offsets.items():
        assert [values[offset] for offset in places] == [f"{name}/{n}".encode() for n in range(60)]


@pytest.mark.parametrize("line_count", [1, 2, 5, 8])
def test_a_process_killed_while_creating_topics_leaves_complete_ones(cluster, start_process, line_count):
    process = start_process(TOPIC_MAKER)
    cluster.create_topic("t")
    for _ in range(line_count):
        assert process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.wait()
    for name in ("n0", "n1", "n2"):
        if name not in cluster.describe_topics():
            cluster.create_topic(name, partition_count=2)
        for number in range(2):
            partition = TopicPartition(name, number)
            assert values_in(cluster, partition) == []
            assert append(cluster, b"x", partition=partition).base_offset == 0
    cluster.maintain()
    assert sorted(name for name in os.listdir(cluster.path) if name[0] in "nt") == [
        f"{name}-{number}" for name in ("n0", "n1", "n2") for number in (0, 1)
    ] + ["t-0"]


def test_a_forked_child_can_use_its_inherited_cluster(cluster):
    cluster.create_topic("t", configs=NO_RETENTION)
    append(cluster, b"parent")
    own_id = cluster.init_producer().producer_id
    children = []
    for number in range(3):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                append(cluster, b"child %d" % number)
                other_id = cluster.init_producer().producer_id
                status = 0 if b"parent" in values_in(cluster) and other_id // 1000 != own_id // 1000 else 2
            finally:
                os._exit(status)
        children.append(child)
    append(cluster, b"parent again")
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0, 0]
    assert sorted(values_in(cluster)) == [b"child 0", b"child 1", b"child 2", b"parent", b"parent again"]
    assert cluster.init_producer().producer_id == own_id + 1


def test_a_fork_during_work_of_other_threads_leaves_no_lock_held_in_the_child(cluster):
    cluster.create_topic("t", configs=NO_RETENTION)
    is_over = threading.Event()

    def work():
        while not is_over.is_set():
            append(cluster, b"thread")

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    signal.alarm(20)
                    append(cluster, b"child")
                    status = 0
                finally:
                    os._exit(status)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    assert values_in(cluster).count(b"child") == 10


def open_files_in(folder):
    links = []
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the one that lists
            links.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return [link for link in links if link.startswith(str(folder))]


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="open files are counted in Linux's /proc")
def test_deleting_a_topic_closes_its_files(path):
    # They kept its disk space until many other partitions had been used.
    with open_embedded(path, create=True) as cluster:
        cluster.create_topic("t")
        cluster.append(T0, a_batch(3))
        cluster.fetch(T0, 0, max_bytes=100)
        assert open_files_in(path / "t-0")
        cluster.delete_topic("t")
        assert open_files_in(path / "t-0") == []


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="open files are counted in Linux's /proc")
def test_the_maximum_of_open_partitions_fits_a_usual_file_limit(path):
    # 128 partitions of eight segments each, written and read by one process, ran into "Too many open files" at 1,024.
    with open_embedded(path, create=True) as cluster:
        cluster.create_topic("t", configs=NO_RETENTION)
        access = cluster._opened().access
        for _ in range(12):
            cluster.append(T0, a_batch(3))
            access.write(T0, lambda store: store.roll(SOME_TIME_MS))
        cluster.append(T0, a_batch(3))
        offset = 0
        while offset < 39:
            offset = cluster.fetch(T0, offset, max_bytes=1).next_offset
        found = open_files_in(path / "t-0")
        of_a_transaction = 1
        assert MAX_OPEN_PARTITION_COUNT * (len(found) + of_a_transaction) <= 1_000, found
