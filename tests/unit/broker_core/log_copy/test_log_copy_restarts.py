"""A copy that dies at any step and is run again: nothing is missing, and nothing is there twice."""

import itertools
import shutil
from contextlib import contextmanager

import pytest
from fuzz.dying_file_system import DyingFileSystem
from support.builders.builders import a_batch
from support.builders.committed_rows import committed_rows
from support.builders.copied_topics import copy_topic
from support.builders.copy_places import KEEPS, a_name, bounds_of, opened, some_batches
from support.clients.transacting import begin, write
from support.files.faulty_file_system import Killed
from support.objects.in_memory_objects import InMemoryObjects
from support.objects.object_builders import MemoryLog

from broker_core.broker.settings.broker_config import parse_broker_config
from broker_core.client.cluster_client import open_remote
from broker_core.embedded.embedded_cluster import EmbeddedCluster
from broker_core.log_copy import copy_sinks, log_copy
from broker_core.log_copy.log_copy import LogCopy
from broker_core.model.client_settings import parse_client_settings
from broker_core.model.identifiers import TopicPartition
from broker_core.record.batch_reader import iter_headers
from broker_core.server.broker_thread import BrokerThread
from broker_core.server.development import development_settings
from broker_core.storage import placed_append

CHANGES = ("create_topic", "create_partitions", "alter_topic_configs", "commit_offsets", "init_producer")


class DyingTarget:
    """Its process dies before or behind the change with this number. `changes` are those that were begun."""

    def __init__(self, target, dies_at, *, is_applied):
        self.changes = []
        self._target = target
        self._dies_at, self._is_applied = dies_at, is_applied
        for name in (*CHANGES, "append", "append_placed"):
            if hasattr(target, name):
                setattr(self, name, self._dying(name))

    def _dying(self, name):
        def call(*arguments, **fields):
            self.changes.append(name)
            if len(self.changes) - 1 != self._dies_at:
                return getattr(self._target, name)(*arguments, **fields)
            if self._is_applied:
                getattr(self._target, name)(*arguments, **fields)
            raise Killed(f"at {name}")

        return call

    def __getattr__(self, name):
        return getattr(self._target, name)


class DyingObjects(InMemoryObjects):
    """Its client dies before or behind the writing request with this number."""

    def __init__(self, dies_at=None, *, is_applied=False):
        super().__init__()
        self.writes = 0
        self.dies_at, self.is_applied = dies_at, is_applied

    def _store(self, path, data):
        self.writes += 1
        is_last = self.writes - 1 == self.dies_at
        if is_last and not self.is_applied:
            raise Killed(f"before {path}")
        etag = super()._store(path, data)
        if is_last:
            raise Killed(f"behind {path}")
        return etag


@pytest.fixture(autouse=True)
def small_steps(monkeypatch):
    """Several fetches and several writes for each partition."""
    monkeypatch.setattr(log_copy, "FETCH_BYTES", 150)
    monkeypatch.setattr(copy_sinks, "GATHERED_BYTES", 400)


@pytest.fixture
def source(tmp_path):
    with EmbeddedCluster(tmp_path / "source", create=True) as cluster:
        yield cluster


def fill_small(cluster, topic):
    """One partition that begins above 0, with gaps inside and at its end."""
    partition = TopicPartition(topic, 0)
    cluster.create_topic(topic, configs=KEEPS)
    cluster.append(partition, a_batch(5))
    for number, is_committed in enumerate((False, True, False)):
        producer = begin(cluster, f"{topic}-{number}", partition)
        write(cluster, producer, partition, "one", "two")
        cluster.append(partition, some_batches()[number])
        cluster.end_transaction(producer, commit=is_committed)
    cluster.delete_records(partition, 2)


def without_offsets(rows):
    return [{name: value for name, value in row.items() if name != "offset"} for row in rows]


@pytest.mark.parametrize(
    ("to_kind", "is_applied"),
    [
        ("directory", False),
        ("objects", True),
        ("broker", True),
        pytest.param("directory", True, marks=pytest.mark.long),
        pytest.param("objects", False, marks=pytest.mark.long),
        pytest.param("broker", False, marks=pytest.mark.long),
    ],
)
def test_a_copy_goes_on_after_it_died_at_any_change_of_the_target(places, source, to_kind, is_applied):
    is_broker = to_kind == "broker"
    died_at = set()
    for dies_at in itertools.count():
        topic = a_name()
        fill_small(source, topic)
        with opened(places.place(to_kind)) as (target,):
            dying = DyingTarget(target, dies_at, is_applied=is_applied)
            try:
                copy_topic(source, dying, topic, renumbers=is_broker)
                break
            except Killed:
                died_at.add(dying.changes[-1])
            copy_topic(source, target, topic, renumbers=is_broker)
            rows, expected = committed_rows(target, topic), committed_rows(source, topic)
            if is_broker:
                assert without_offsets(rows) == without_offsets(expected), f"died at change {dies_at}"
                assert [row["offset"] for row in rows] == list(range(len(rows)))
            else:
                assert rows == expected, f"died at change {dies_at}"
                assert bounds_of(target, topic) == bounds_of(source, topic)
    wanted = {"append", "init_producer"} if is_broker else {"append_placed"}
    assert died_at >= wanted | {"create_topic", "commit_offsets"}
    assert dies_at > 4


def die_in_a_directory(source, folder, steps):
    """Runs a copy that dies at each of these operations on files, and then again."""
    topic = a_name()
    fill_small(source, topic)
    deaths = 0
    for dies_at in steps:
        shutil.rmtree(folder, ignore_errors=True)
        fs = DyingFileSystem(dies_at)
        target = EmbeddedCluster(folder, create=True, file_system=fs)
        try:
            copy_topic(source, target, topic)
        except Killed:
            deaths += 1
        target.close()
        if not fs.is_dead:
            break
        with EmbeddedCluster(folder, create=True) as again:
            copy_topic(source, again, topic)
            assert committed_rows(again, topic) == committed_rows(source, topic), f"died at operation {dies_at}"
            assert bounds_of(again, topic) == bounds_of(source, topic), f"died at operation {dies_at}"
    return deaths


def test_a_copy_goes_on_after_it_died_in_the_middle_of_changing_files(source, tmp_path):
    assert die_in_a_directory(source, tmp_path / "target", range(3, 10**6, 17)) > 5


@pytest.mark.long
def test_a_copy_goes_on_after_it_died_at_any_operation_on_files(source, tmp_path):
    assert die_in_a_directory(source, tmp_path / "target", itertools.count()) > 100


def test_a_copy_that_died_between_the_last_record_and_the_log_start_sets_the_log_start(source, tmp_path, monkeypatch):
    topic = a_name()
    partition = TopicPartition(topic, 0)
    source.create_topic(topic, configs=KEEPS)
    source.append(partition, a_batch(3))
    source.delete_records(partition, 2)
    deaths = []

    def die(writer, offset):
        deaths.append(offset)
        raise Killed("before the log start")

    with EmbeddedCluster(tmp_path / "target", create=True) as target:
        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(placed_append, "delete_records", die)
            copy_topic(source, target, topic)
        assert deaths == [2] and bounds_of(target, topic) == [(0, 3)]
        copy_topic(source, target, topic)
        assert bounds_of(target, topic) == [(2, 3)]


@pytest.mark.parametrize("is_applied", [False, True], ids=["before", "behind"])
def test_a_copy_goes_on_after_it_died_at_any_request_that_writes_an_object(source, is_applied):
    topic = a_name()
    fill_small(source, topic)
    for dies_at in itertools.count():
        log = MemoryLog()
        log.store = DyingObjects(dies_at, is_applied=is_applied)
        try:
            copy_topic(source, log.open(), topic)
            break
        except Killed:
            pass
        with log.open() as again:
            copy_topic(source, again, topic)
            assert committed_rows(again, topic) == committed_rows(source, topic), f"died at write {dies_at}"
            assert bounds_of(again, topic) == bounds_of(source, topic)
    assert dies_at > 4


def die_before_second_append(target, partition, sent):
    """A target whose client dies after the first append, with the next request on its way."""

    class Unsent(DyingTarget):
        def _dying(self, name):
            def call(*arguments, **fields):
                if name == "append" and any(change == "append" for change in self.changes):
                    sent.append(bytearray(arguments[1]))
                    raise Killed("the request is still on its way")
                self.changes.append(name)
                return getattr(target, name)(*arguments, **fields)

            return call

    return Unsent(target, None, is_applied=False)


@contextmanager
def served(folder):
    """A client of a broker that serves the directory."""
    with (
        BrokerThread(parse_broker_config(development_settings(str(folder), port=0))) as thread,
        open_remote(parse_client_settings({"bootstrap.servers": thread.bootstrap_servers})) as client,
    ):
        yield client


def test_a_copy_changes_between_a_directory_and_the_broker_that_serves_it(source, tmp_path):
    """Each time a request of a killed run arrives late; the broker recognises it."""
    topic = a_name()
    partition = TopicPartition(topic, 0)
    source.create_topic(topic, configs=KEEPS)
    folder = tmp_path / "target"
    with EmbeddedCluster(folder, create=True):
        pass

    def append(count):
        for number in range(count):
            source.append(partition, a_batch(number + 1))

    def by_directory():
        with EmbeddedCluster(folder, create=True) as target:
            copy_topic(source, target, topic)

    def by_broker():
        with served(folder) as target:
            sent = []
            with pytest.raises(Killed):
                copy_topic(source, die_before_second_append(target, partition, sent), topic)
            job = LogCopy(source, target)
            plan = job.plan([source.describe_topics([topic])[topic]])
            target.append(partition, sent.pop())
            assert not job.run(plan, lambda partition, done, total: None).failures
            assert committed_rows(target, topic) == committed_rows(source, topic)
            fetched = target.fetch(partition, 0, max_bytes=10**6)
            return {header.producer_id for _, header in iter_headers(fetched.buffer)}

    append(4)
    by_directory()
    append(4)
    first = by_broker()
    assert len(first) == 2 and -1 in first
    append(4)
    by_directory()
    append(4)
    assert len(by_broker() - first) == 1


def test_a_copy_that_died_in_a_directory_with_gaps_goes_on_at_its_broker(source, tmp_path):
    """The marker is behind the records, and the offsets between them are not records."""
    topic = a_name()
    partition = TopicPartition(topic, 0)
    folder = tmp_path / "target"
    fill_small(source, topic)
    copied = []
    with EmbeddedCluster(folder, create=True) as target:
        commit_offsets = target.commit_offsets

        def die_behind_records(group, offsets):
            if copied:
                raise Killed("before the marker")
            commit_offsets(group, offsets)
            copied.append(group)

        target.commit_offsets = die_behind_records
        with pytest.raises(Killed):
            copy_topic(source, target, topic)
        assert bounds_of(target, topic) == bounds_of(source, topic)
    source.append(partition, a_batch(2))
    with served(folder) as target:
        copy_topic(source, target, topic)
        assert committed_rows(target, topic) == committed_rows(source, topic)


def test_what_a_killed_copy_has_sent_to_a_broker_is_recognised_when_it_arrives_late(places, source):
    """The killed run's request arrives after the next run has looked at the target, and before its first append."""
    topic = a_name()
    partition = TopicPartition(topic, 0)
    source.create_topic(topic, configs=KEEPS)
    for number in range(4):
        source.append(partition, a_batch(number + 1))
    with opened(places.place("broker")) as (target,):
        sent = []
        with pytest.raises(Killed):
            copy_topic(source, die_before_second_append(target, partition, sent), topic)
        assert sent
        job = LogCopy(source, target)
        plan = job.plan([source.describe_topics([topic])[topic]])
        target.append(partition, sent.pop())
        job.run(plan, lambda partition, done, total: None)
        assert committed_rows(target, topic) == committed_rows(source, topic)
        fetched = target.fetch(partition, 0, max_bytes=10**6)
        assert [header.base_sequence for _, header in iter_headers(fetched.buffer)] == [0, 1, 3, 6]
