import errno

import pytest
from support.builders.builders import a_batch
from support.clients.transacting import SetClock
from support.files.queued_jobs import QueuedJobs
from support.nodes.whole_node import a_node, produce, stop

from broker_core.broker.topic_store import TopicStore
from broker_core.coordinator.contract import CoordinatorResult
from broker_core.log_directory.directory import LogDirectory
from broker_core.log_directory.metadata_log import MetadataLog
from broker_core.log_directory.partition_folders import PartitionFolders
from broker_core.log_directory.system_ports import SystemEntropy
from broker_core.model.exceptions import (
    InvalidPartitionsError,
    InvalidTopicNameError,
    StorageError,
    TopicExistsError,
    UnknownTopicError,
)
from broker_core.model.topic_defaults import TopicDefaults
from broker_core.storage.os_file_system import OsFileSystem


class OnceFullDisk(OsFileSystem):
    """Refuses the next write of the metadata log once `is_full`, then has room again."""

    def __init__(self):
        self.is_full, self.hits = False, 0

    def open(self, path, *, writable, create=False):
        file = super().open(path, writable=writable, create=create)
        return OnceFullFile(self, file) if writable and path.endswith(".log") else file


class OnceFullFile:
    def __init__(self, disk, file):
        self._disk, self._file = disk, file

    def __getattr__(self, name):
        return getattr(self._file, name)

    def write_at(self, position, data):
        if self._disk.is_full:
            self._disk.is_full = False
            self._disk.hits += 1
            raise OSError(errno.ENOSPC, "No space left on device")
        return self._file.write_at(position, data)


class TopicStoreWorld:
    """A topic store over a disk that can fail, and what its callers were told, in order."""

    def __init__(self, path, *, topic_defaults=()):
        self.path = str(path)
        self.fs = OnceFullDisk()
        self.entropy = SystemEntropy()
        directory = LogDirectory(self.fs, self.path, create=True, entropy=self.entropy)
        directory.make()
        self.log = MetadataLog(self.fs, directory, SetClock())
        self.log.make()
        self.log.refresh()
        reading = MetadataLog(self.fs, directory, SetClock())
        reading.refresh()
        self.folders = PartitionFolders(self.fs, self.path, self.log, self.entropy)
        self.jobs = QueuedJobs()
        defaults = TopicDefaults(configs=dict(topic_defaults))
        self.topics = TopicStore(
            reading.image, self.log, self.folders, self.jobs, self.entropy, topic_defaults=lambda: defaults
        )
        self.told = []

    def create(self, name, count=1, **configs):
        self.topics.create_topic(
            name, partition_count=count, configs=configs, on_reply=self.told.append, on_error=self.told.append
        )

    def delete(self, name):
        self.topics.delete_topic(name, on_reply=self.told.append, on_error=self.told.append)

    def durable_names(self):
        directory = LogDirectory(self.fs, self.path, create=False, entropy=self.entropy)
        log = MetadataLog(self.fs, directory, SetClock())
        log.refresh()
        return sorted(log.image.topics)

    @property
    def names(self):
        return sorted(self.topics.image.topics)


@pytest.fixture
def world(tmp_path):
    return TopicStoreWorld(tmp_path / "log")


def test_the_image_shows_a_change_only_once_it_is_durable(world):
    world.create("t", 2)
    assert (world.names, world.told) == ([], [])
    world.jobs.do_next()
    assert (world.names, world.told, world.durable_names()) == ([], [], ["t"])
    world.jobs.finish()
    assert world.names == ["t"]
    ((topic,)) = world.told
    assert topic == world.topics.topic("t")
    assert (topic.name, topic.partition_count) == ("t", 2)


def test_folders_exist_when_the_change_is_answered(world):
    world.create("t", 2)
    world.jobs.run_all()
    names = world.fs.list_directory(world.path)
    assert {"t-0", "t-1"} <= set(names)


def test_changes_are_applied_in_the_order_of_the_calls(world):
    world.create("t")
    world.delete("t")
    world.create("t", 3)
    world.create("t")
    assert world.jobs.count == 1
    world.jobs.run_all()
    assert [type(each).__name__ for each in world.told] == ["TopicDescription"] * 3 + ["TopicExistsError"]
    assert world.topics.topic("t").partition_count == 3


def test_a_plan_sees_what_was_appended_before_it(world):
    seen = []

    def look(controller):
        seen.append(sorted(controller.image.topics))
        return CoordinatorResult(reply=None)

    world.create("t")
    world.topics.change(look, world.told.append, world.told.append)
    world.jobs.run_all()
    assert seen == [["t"]]


@pytest.mark.parametrize(
    ("name", "count", "expected"),
    [("a b", 1, InvalidTopicNameError), ("t", 1, TopicExistsError), ("t_t", 1, InvalidTopicNameError),
     ("u", 0, InvalidPartitionsError)],
)  # fmt: skip
def test_a_check_fails_like_the_change_and_changes_nothing(world, name, count, expected):
    world.create("t")
    world.create("t.t")
    world.jobs.run_all()
    world.told.clear()
    with pytest.raises(expected):
        world.topics.check_create_topic(name, partition_count=count, configs={})
    world.create(name, count)
    world.jobs.run_all()
    assert [type(each) for each in world.told] == [expected]
    assert world.names == world.durable_names() == ["t", "t.t"]


def test_a_check_that_succeeds_changes_nothing(world):
    assert world.topics.check_create_topic("t", partition_count=4, configs={}).partition_count == 4
    assert (world.names, world.jobs.count) == ([], 0)


def test_partitions_are_added_with_their_folders(world):
    world.create("t")
    world.topics.create_partitions("t", 3, on_reply=world.told.append, on_error=world.told.append)
    world.topics.create_partitions("t", 3, on_reply=world.told.append, on_error=world.told.append)
    world.jobs.run_all()
    assert isinstance(world.told[2], InvalidPartitionsError)
    assert world.topics.topic("t").partition_count == 3
    assert "t-2" in world.fs.list_directory(world.path)


def test_a_missing_topic_is_unknown(world):
    with pytest.raises(UnknownTopicError):
        world.topics.topic("t")
    world.delete("t")
    world.jobs.run_all()
    assert isinstance(world.told[0], UnknownTopicError)


def test_topic_settings_override_broker_settings(tmp_path):
    world = TopicStoreWorld(tmp_path / "log", topic_defaults={"retention.ms": "5", "segment.bytes": "2000000"})
    world.create("t", **{"retention.ms": "7"})
    world.jobs.run_all()
    config = world.topics.config_of(world.topics.topic("t"))
    assert (config.retention_ms, config.segment_bytes) == (7, 2_000_000)
    assert world.topics.config_of(world.topics.topic("t")) is config


def test_settings_are_reread_after_a_topic_change(world):
    world.create("t")
    world.jobs.run_all()
    assert world.topics.config_of(world.topics.topic("t")).retention_ms == 604_800_000
    world.topics.change(
        lambda controller: controller.plan_alter_topic_configs("t", {"retention.ms": "9"}),
        world.told.append,
        world.told.append,
    )
    world.jobs.run_all()
    assert world.topics.config_of(world.topics.topic("t")).retention_ms == 9


def test_listeners_are_notified_of_changes_before_the_caller_but_not_of_refusals(world):
    world.topics.on_change(lambda: world.told.append(world.names))
    world.create("t")
    world.create("t")
    world.jobs.run_all()
    assert [each if isinstance(each, list) else type(each).__name__ for each in world.told] == [
        ["t"],
        "TopicDescription",
        "TopicExistsError",
    ]


def test_a_listener_or_a_reply_may_request_a_change(world):
    world.topics.create_topic(
        "a", partition_count=1, configs={}, on_reply=lambda topic: world.create("b"), on_error=world.told.append
    )
    world.jobs.run_all()
    assert world.names == ["a", "b"]


def test_a_disk_error_is_reported_and_the_next_change_is_tried(world):
    world.fs.is_full = True
    world.create("t")
    world.create("u")
    world.jobs.run_all()
    assert world.fs.hits == 1
    assert isinstance(world.told[0], StorageError)
    assert world.topics.topic("u") == world.told[1]
    assert world.names == world.durable_names()


def test_an_unknown_error_is_reported_as_a_storage_error(world):
    def plan(controller):
        raise OSError(errno.EIO, "broken")

    world.topics.change(plan, world.told.append, world.told.append)
    world.create("t")
    world.jobs.run_all()
    assert isinstance(world.told[0], StorageError)
    assert world.names == ["t"]


def test_an_error_after_the_append_keeps_the_change(world, caplog):
    def after(reply):
        raise OSError(errno.ENOSPC, "no space for the folder")

    world.topics.change(
        lambda controller: controller.plan_create_topic("t", partition_count=1, configs={}, entropy=world.entropy),
        world.told.append,
        world.told.append,
        after=after,
    )
    world.jobs.run_all()
    assert world.told == [world.topics.topic("t")]
    assert "its first use will retry" in caplog.text


def test_folders_missing_after_a_crash_are_created_at_first_use(tmp_path):
    node = a_node(tmp_path / "log")
    node.topics.change(
        lambda controller: controller.plan_create_topic("t", partition_count=1, configs={}, entropy=node.entropy),
        lambda reply: None,
        lambda error: None,
    )
    node.jobs.run_all()
    assert not (tmp_path / "log" / "t-0").exists()
    answer = produce(node, "t", a_batch(2))
    assert (answer.error_code.name, answer.base_offset) == ("none", 0)
    assert (tmp_path / "log" / "t-0").exists()
    stop(node)


def test_a_failing_reply_callback_delays_no_other_change(world, caplog):
    def broken(_):
        raise RuntimeError("a handler's fault")

    world.topics.on_change(lambda: broken(None))
    world.topics.create_topic("a", partition_count=1, configs={}, on_reply=broken, on_error=broken)
    world.create("b")
    world.jobs.run_all()
    assert world.names == ["a", "b"]
    assert [topic.name for topic in world.told] == ["b"]
    assert caplog.text.count("a handler's fault") >= 3
