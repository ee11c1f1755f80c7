import itertools
import threading
from pathlib import Path

import pytest

from broker_core.log_directory.directory import LogDirectory
from broker_core.log_directory.metadata_log import MetadataLog
from broker_core.log_directory.partition_lock import PartitionLock
from broker_core.log_directory.system_ports import SystemClock, SystemEntropy
from broker_core.model.exceptions import DiskFullError, StorageError, TopicExistsError
from broker_core.storage.os_file_system import OsFileSystem

ENTROPY = SystemEntropy()


class FullFileSystem(OsFileSystem):
    """A disk whose logs cannot grow while `is_full`."""

    def __init__(self):
        self.is_full = False
        self.hits = 0

    def open(self, path, *, writable, create=False):
        file = super().open(path, writable=writable, create=create)
        return _FullFile(self, file) if writable and path.endswith(".log") else file


class _FullFile:
    def __init__(self, fs, file):
        self._fs, self._file = fs, file

    def __getattr__(self, name):
        return getattr(self._file, name)

    def write_at(self, position, data):
        if self._fs.is_full:
            self._fs.hits += 1
            self._file.write_at(position, bytes(data)[:10])
            raise OSError(28, "No space left on device", self._file.path)
        self._file.write_at(position, data)


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "log")


def open_log(path, fs=None):
    fs = fs or OsFileSystem()
    directory = LogDirectory(fs, path, create=True, entropy=ENTROPY)
    directory.make()
    return MetadataLog(fs, directory, SystemClock())


def create(log, name):
    return log.change(lambda c: c.plan_create_topic(name, partition_count=2, configs={}, entropy=ENTROPY))


def test_reading_creates_nothing(tmp_path):
    fs = OsFileSystem()
    directory = LogDirectory(fs, str(tmp_path / "log"), create=True, entropy=ENTROPY)
    log = MetadataLog(fs, directory, SystemClock())
    log.refresh()
    assert log.topics() == {}
    assert not (tmp_path / "log").exists()


def test_a_change_is_visible_to_its_process_immediately_and_to_others_after_a_refresh(path):
    one, two = open_log(path), open_log(path)
    topic = create(one, "t")
    assert one.topic("t") == topic
    assert two.topic("t") is None
    two.refresh()
    assert two.topic("t") == topic
    assert two.topics() == {"t": topic}


def test_a_change_is_planned_on_records_of_other_processes(path):
    one, two = open_log(path), open_log(path)
    create(one, "t")
    with pytest.raises(TopicExistsError):
        create(two, "t")


def test_a_log_opened_later_has_every_change(path):
    one = open_log(path)
    for number in range(20):
        create(one, f"t{number}")
    one.change(lambda c: c.plan_delete_topic("t3"))
    one.close()
    later = open_log(path)
    later.refresh()
    assert set(later.topics()) == {f"t{n}" for n in range(20) if n != 3}
    assert later.image.metadata_version == 30


def test_threads_that_create_the_same_topics_make_each_once(path):
    logs = [open_log(path) for _ in range(2)]
    outcomes = []

    def work(log):
        for number in range(10):
            try:
                create(log, f"t{number}")
                outcomes.append("made")
            except TopicExistsError:
                outcomes.append("was there")

    threads = [threading.Thread(target=work, args=(logs[n % 2],)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["made"] * 10 + ["was there"] * 30


def test_a_change_whose_write_failed_has_no_effect(path):
    fs = FullFileSystem()
    log, other = open_log(path, fs), open_log(path)
    create(log, "t")
    fs.is_full = True
    with pytest.raises(DiskFullError):
        create(log, "u")
    assert fs.hits
    for reader in (log, other):
        reader.refresh()
        assert set(reader.topics()) == {"t"}
    fs.is_full = False
    create(log, "u")
    other.refresh()
    assert set(other.topics()) == {"t", "u"}


def dies_before_publishing(path):
    """A process that wrote a change behind the published end, and was killed."""
    log = open_log(path)
    create(log, "t")
    bounds = Path(path) / "__cluster_metadata-0" / "partition.bounds"
    before = bounds.read_bytes()
    create(log, "u")
    log.close()
    bounds.write_bytes(before)


@pytest.mark.parametrize("is_fresh", [False, True])
def test_an_unpublished_change_has_no_effect(path, is_fresh):
    neighbour = open_log(path)
    create(neighbour, "s")
    dies_before_publishing(path)
    if is_fresh:
        neighbour = open_log(path)
    neighbour.refresh()
    told = neighbour.topics()
    assert set(told) == {"s", "t"}
    made = create(neighbour, "v")
    assert neighbour.topics() == told | {"v": made}
    later = open_log(path)
    later.refresh()
    assert later.topics() == told | {"v": made}


def test_a_change_during_a_close_completes_or_raises(path):
    errors, made = [], []

    def change(log, number):
        try:
            for count in itertools.count():  # until the log is closed
                made.append(create(log, f"t{number}-{count}"))
        except Exception as error:
            errors.append(error)

    for number in range(5):
        log = open_log(path)
        threads = [threading.Thread(target=change, args=(log, f"{number}-{n}")) for n in range(2)]
        for thread in threads:
            thread.start()
        seen = len(made)
        while len(made) < seen + 2:
            threads[0].join(0.001)
        log.close()
        for thread in threads:
            thread.join()
        for call in (log.refresh, log.make, lambda log=log: create(log, "late")):
            with pytest.raises(StorageError, match="was closed"):
                call()
    assert [(type(error), "was closed" in str(error)) for error in errors] == [(StorageError, True)] * 10
    later = open_log(path)
    later.refresh()
    assert set(later.topics()) == {topic.name for topic in made}


class CountedSyncs(OsFileSystem):
    def __init__(self):
        self.synced = []

    def open(self, path, *, writable, create=False):
        return _CountedFile(self.synced, super().open(path, writable=writable, create=create))


class _CountedFile:
    def __init__(self, synced, file):
        self._synced, self._file = synced, file

    def __getattr__(self, name):
        return getattr(self._file, name)

    def sync(self):
        self._synced.append(self._file.path.rpartition("/")[2])
        self._file.sync()


def test_a_change_is_acknowledged_once_records_and_then_bounds_are_synced(path):
    fs = CountedSyncs()
    log = open_log(path, fs)
    create(log, "t")
    fs.synced.clear()
    create(log, "u")
    assert fs.synced == ["00000000000000000000.log", "partition.bounds"]


def test_a_process_syncs_records_of_others_before_it_acts_on_them(path):
    fs = CountedSyncs()
    log, other = open_log(path, fs), open_log(path)
    create(log, "t")
    create(other, "u")
    fs.synced.clear()
    with log.locked():
        assert fs.synced == ["partition.bounds"]
    with log.locked():
        assert fs.synced == ["partition.bounds"]


def test_a_reader_does_not_wait_for_a_writer(path):
    dies_before_publishing(path)
    lock = PartitionLock(f"{path}/__cluster_metadata-0/.lock")
    reader = open_log_for_reading(path)
    with lock.exclusive():
        reader.refresh()
        assert set(reader.topics()) == {"t"}
    create(open_log(path), "v")
    reader.refresh()
    assert set(reader.topics()) == {"t", "v"}


def open_log_for_reading(path):
    fs = OsFileSystem()
    return MetadataLog(fs, LogDirectory(fs, path, create=False, entropy=ENTROPY), SystemClock())
