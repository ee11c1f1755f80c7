"""`Cluster` on a directory, in this process: without a server, and for any number of processes at once.

    cluster = open_embedded("/data/log", create=True)
    cluster.create_topic("events", partition_count=4)
    cluster.append(TopicPartition("events", 0), batches)

Every operation first reads the changes of other processes, which takes microseconds if there are none. Threads may
share a cluster. A forked child may use the one it inherited: it restarts there, with its own files, locks and producer
ids. If the directory was removed and recreated under an open cluster, the cluster notices it and reopens the directory.

Transactions and committed offsets need no server either: `transactions` describes which process decides, and which one
finishes the decided transactions of a dead process.

A directory that a real Kafka wrote is read-only: a call that would change it raises DirectoryReadOnlyError.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Mapping
from functools import partial
from types import TracebackType
from typing import Final
from uuid import UUID

from broker_core.cluster import (
    AppendResult,
    FetchedBatches,
    OffsetAndTimestamp,
    PartitionBounds,
    TopicDescription,
)
from broker_core.coordinator.contract import CoordinatorResult
from broker_core.embedded.coordinated_methods import CoordinatedMethods
from broker_core.embedded.lookup_methods import LookupMethods, find_offset
from broker_core.embedded.maintenance_thread import MaintenanceThread
from broker_core.embedded.open_log import OpenerServices, OpenLog, OwnLog, open_log
from broker_core.embedded.placed_methods import PlacedMethods
from broker_core.embedded.transactions import transactional_writer
from broker_core.log_directory.directory import DirectoryKind, LogDirectory
from broker_core.log_directory.fork_guard import watch_for_fork
from broker_core.log_directory.internal_topics import require_no_internal_topic
from broker_core.log_directory.partition_maintenance import MaintenanceProgress, MaintenanceReport
from broker_core.log_directory.system_ports import SystemClock, SystemEntropy
from broker_core.metadata.controller import MetadataController
from broker_core.metadata.metadata_image import MetadataImage
from broker_core.metadata.metadata_records import MetadataRecord
from broker_core.model.exceptions import (
    InvalidRequestError,
    InvalidTopicNameError,
    PolicyViolationError,
    StorageError,
    TopicRecreatedError,
    UnknownTopicError,
)
from broker_core.model.identifiers import IsolationLevel, OffsetSpec, TopicPartition
from broker_core.model.limits import KEY_FILTER_MAINTENANCE_BYTES
from broker_core.model.log_location import local_directory
from broker_core.model.topic_name import TRANSACTION_STATE_TOPIC, is_internal_topic
from broker_core.ports import Clock, Entropy, FileSystem
from broker_core.storage.append_group import AppendOutcome
from broker_core.storage.os_file_system import OsFileSystem
from broker_core.storage.readable_partition import ReadablePartition
from broker_core.storage.writable_partition import WritablePartition

TopicPlan = Callable[[MetadataController], CoordinatorResult[MetadataRecord, TopicDescription]]

_NO_DIRECTORY: Final = UUID(int=0)


def open_embedded(path: str | os.PathLike[str], *, create: bool = False) -> EmbeddedCluster:
    """Opens the log in a directory. With `create`, a path that does not exist, or an empty directory, becomes a log at
    the first write; without it, it raises DirectoryFormatError.

    `path` may be a URL: `file:///data/log`. Raises InvalidConfigError for any other URL, and DirectoryFormatError,
    DirectoryLockedError, DirectoryReadOnlyError; each message says what to do.
    """
    return EmbeddedCluster(path, create=create)


class EmbeddedCluster(CoordinatedMethods, LookupMethods, PlacedMethods):
    """An implementation of `broker_core.cluster.Cluster`, which documents the methods, and of `PlacedWrites`.

    A new topic has `num_partitions` partitions unless `partition_count` is set. `close()` waits for running
    maintenance.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        create: bool = False,
        num_partitions: int = 1,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
        file_system: FileSystem | None = None,
    ) -> None:
        self._fs = file_system or OsFileSystem()
        self._clock = clock or SystemClock()
        self._entropy = entropy or SystemEntropy()
        self._num_partitions = num_partitions
        path = os.path.abspath(local_directory(os.fspath(directory)))
        self._directory = LogDirectory(self._fs, path, create=create, entropy=self._entropy)
        self._maintenance = MaintenanceThread(self._maintain)
        self._mutex = threading.Lock()
        self._services = OpenerServices(
            fs=self._fs,
            clock=self._clock,
            entropy=self._entropy,
            on_rolled=self._maintenance.ask_for,
            make_directory=self._make_directory,
        )
        self._open_log: OpenLog | None = None
        self._is_closed = False
        watch_for_fork(self)

    @property
    def path(self) -> str:
        """The directory's absolute path."""
        return self._directory.path

    @property
    def log_id(self) -> str:
        """Identifies the log that is at the path now: cluster id and directory id of its meta.properties.

        Empty if there is no log yet, and in the directory of a Kafka that wrote neither. Raises DirectoryFormatError if
        the directory was removed.
        """
        self._opened()
        return self._directory.log_id

    def ensure_log(self) -> str:
        """Creates the log in the directory if there is none yet, durably. Returns its `log_id`."""
        self._own()
        return self.log_id

    # -- topics --

    def describe_topics(self, names: Collection[str] | None = None) -> dict[str, TopicDescription]:
        catalog = self._opened().catalog
        catalog.refresh()
        topics = catalog.topics()
        chosen = topics if names is None else [name for name in names if name in topics]
        return {name: topics[name].with_shown_configs() for name in chosen}

    def create_topic(
        self, name: str, *, partition_count: int | None = None, configs: Mapping[str, str] | None = None
    ) -> TopicDescription:
        require_no_internal_topic(name, "create")
        count = self._num_partitions if partition_count is None else partition_count

        def plan(controller: MetadataController) -> CoordinatorResult[MetadataRecord, TopicDescription]:
            return controller.plan_create_topic(
                name, partition_count=count, configs=configs or {}, entropy=self._entropy
            )

        self._refuse_before_making(plan)
        own = self._own()
        topic = own.metadata_log.change(plan)
        own.folders.make_all(topic)
        return topic.with_shown_configs()

    def auto_creates_topics(self) -> bool:
        return True

    def delete_topic(self, name: str) -> None:
        def plan(controller: MetadataController) -> CoordinatorResult[MetadataRecord, TopicDescription]:
            return controller.plan_delete_topic(name)

        self._refuse_before_making(plan)
        own = self._own()
        is_of_transactions = name == TRANSACTION_STATE_TOPIC
        topic = own.transactions.delete_log(plan) if is_of_transactions else own.metadata_log.change(plan)
        own.folders.remove(topic)
        self._opened().access.drop_topic(name)
        own.offsets.forget_topic(topic)

    def create_partitions(self, name: str, total_count: int) -> TopicDescription:
        require_no_internal_topic(name, "widen")

        def plan(controller: MetadataController) -> CoordinatorResult[MetadataRecord, TopicDescription]:
            return controller.plan_create_partitions(name, total_count)

        self._refuse_before_making(plan)
        own = self._own()
        topic = own.metadata_log.change(plan)
        own.folders.make_missing(topic)
        return topic.with_shown_configs()

    def alter_topic_configs(self, name: str, changes: Mapping[str, str | None]) -> TopicDescription:
        def plan(controller: MetadataController) -> CoordinatorResult[MetadataRecord, TopicDescription]:
            return controller.plan_alter_topic_configs(name, changes)

        self._refuse_before_making(plan)
        return self._own().metadata_log.change(plan).with_shown_configs()

    # -- partitions --

    def list_offsets(
        self,
        partitions: Mapping[TopicPartition, OffsetSpec | int],
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        for partition, spec in partitions.items():
            if spec < OffsetSpec.MAX_TIMESTAMP:
                raise InvalidRequestError(f"{partition}: {spec} is neither a timestamp in ms nor an offset spec")
        opened = self._opened()
        bounds: list[PartitionBounds] = []

        def find_all() -> dict[TopicPartition, OffsetAndTimestamp | None]:
            find = partial(find_offset, isolation=isolation, on_bounds=bounds.append)
            return {tp: opened.access.read(tp, partial(find, spec=spec)) for tp, spec in partitions.items()}

        found = find_all()
        is_settled = (
            isolation is IsolationLevel.READ_COMMITTED
            and opened.own is not None
            and any(opened.own.blocked.maybe_settle(each) for each in tuple(bounds))
        )
        return find_all() if is_settled else found

    def bounds(self, partition: TopicPartition) -> PartitionBounds:
        opened = self._opened()
        bounds = opened.access.read(partition, ReadablePartition.bounds)
        if opened.own is not None and opened.own.blocked.maybe_settle(bounds):
            return opened.access.read(partition, ReadablePartition.bounds)
        return bounds

    def fetch(
        self,
        partition: TopicPartition,
        from_offset: int,
        *,
        max_bytes: int,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        topic_id: UUID | None = None,
    ) -> FetchedBatches:
        def read(store: ReadablePartition) -> FetchedBatches:
            return store.read(from_offset, max_bytes=max_bytes, isolation=isolation)

        opened = self._opened()
        fetched = opened.access.read(partition, read)
        is_blocked = isolation is IsolationLevel.READ_COMMITTED and not fetched.buffer
        if is_blocked and opened.own is not None and opened.own.blocked.maybe_settle(fetched.bounds):
            fetched = opened.access.read(partition, read)
        # After the read, so that a topic recreated meanwhile is noticed before its records are returned.
        if topic_id is not None and opened.access.topic_id_of(partition) != topic_id:
            raise TopicRecreatedError.of(partition.topic, topic_id)
        return fetched

    def append(self, partition: TopicPartition, batches: bytearray, *, topic_id: UUID | None = None) -> AppendResult:
        require_no_internal_topic(partition.topic, "append to")
        own = self._own()

        def append(store: WritablePartition) -> AppendOutcome:
            if topic_id is not None and store.topic_id != topic_id:
                raise TopicRecreatedError.of(partition.topic, topic_id)
            return store.append(batches, now_ms=self._clock.now_ms())

        writer = transactional_writer(batches)
        if writer is None:
            outcome = self._opened().access.write(partition, append)
        else:
            outcome = own.transactions.write_verified(partition, writer, append)
        if outcome.rolled:
            self._maintenance.ask_for(partition)
        return outcome.result

    def delete_records(self, partition: TopicPartition, before_offset: int) -> int:
        self._own()
        access = self._opened().access
        if is_internal_topic(partition.topic):
            raise InvalidTopicNameError(f"Cannot delete records of internal topic {partition.topic}.")
        config = access.config_of(partition)
        if config.is_compacted and not config.is_deleted_by_retention:
            raise PolicyViolationError(
                f"Records of partition {partition} can not be deleted: its cleanup.policy is compact without delete.",
                topic=partition.topic,
            )
        return access.write(partition, lambda store: store.delete_records(before_offset))

    # -- maintenance --

    def maintain(
        self, topics: Collection[str] | None = None, *, progress: MaintenanceProgress | None = None
    ) -> tuple[MaintenanceReport, ...]:
        """Runs retention, compaction and key filters now, on these topics or on all. For all topics, also removes the
        remains of deleted topics after crashes.

        `progress(partition, done_count, total_count)` is called before each partition. An error of one partition is in
        its report and does not stop the others. Raises UnknownTopicError before anything is done.
        """
        own = self._own()
        known = self.describe_topics()
        for name in topics or ():
            if name not in known:
                raise UnknownTopicError(f"Topic '{name}' does not exist.", topic=name)
        chosen = sorted(known if topics is None else set(topics))
        partitions = [partition for name in chosen for partition in known[name].partitions()]
        if topics is None:
            own.folders.sweep()
        reports = []
        for done_count, partition in enumerate(partitions):
            if progress is not None:
                progress(partition, done_count, len(partitions))
            reports.append(own.maintenance.maintain(partition))
        return tuple(reports)

    def release(self) -> bool:
        """Closes the files and releases the directory's lock, so that a broker can take it; the next call takes it
        again.

        Call it only while no other call is in progress. While maintenance runs, it returns False and releases nothing.
        """
        if self._maintenance.is_busy:
            return False
        with self._mutex:
            opened, self._open_log = self._open_log, None
            if opened is not None:
                opened.close()
            self._directory.release()
        return True

    def close(self) -> None:
        """Closes files and releases locks. Closing twice is harmless; any other call afterwards raises StorageError."""
        self._maintenance.stop()
        with self._mutex:
            self._is_closed = True
            opened, self._open_log = self._open_log, None
            if opened is not None:
                opened.close()
            self._directory.close()

    def __enter__(self) -> EmbeddedCluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def reset_after_fork(self) -> None:
        """In a forked child: does not touch the parent's open files; the first use reopens them."""
        self._mutex = threading.Lock()
        self._open_log = None
        self._directory.reset_after_fork()

    # -- the directory --

    def _opened(self) -> OpenLog:
        """The open log of the directory; reopened if the path has another directory now."""
        opened = self._open_log
        if opened is not None and not self._directory.has_changed():
            return opened
        with self._mutex:
            if self._is_closed:
                raise StorageError(f"The log in {self._directory.path} was closed.", directory=self._directory.path)
            if self._directory.has_changed():
                stale, self._open_log = self._open_log, None
                if stale is not None:
                    stale.close()
                self._directory.look_again()
            if self._open_log is None:
                self._open_log = open_log(self._directory, self._services)
            return self._open_log

    def _changing(self) -> OwnLog:
        """What is needed to change the log; the log itself is created at the first write. Raises DirectoryReadOnlyError
        with the reason."""
        opened = self._opened()
        self._directory.require_writable()
        assert opened.own is not None, f"{self._directory.path} is writable but was not created by streamlog"
        return opened.own

    def _own(self) -> OwnLog:
        """As `_changing`, and creates the log if there is none."""
        own = self._changing()
        self._make_directory()
        return own

    def _make_directory(self) -> None:
        if self._directory.kind is DirectoryKind.ABSENT:
            with self._mutex:
                self._directory.make()

    def _refuse_before_making(self, plan: TopicPlan) -> None:
        """A plan that an empty log refuses does not create the log."""
        self._opened()
        self._directory.require_writable()
        if self._directory.kind is DirectoryKind.ABSENT:
            plan(MetadataController(MetadataImage(), broker_id=0, directory_id=_NO_DIRECTORY))

    def _maintain(self, partition: TopicPartition) -> None:
        report = self._own().maintenance.maintain(partition, max_filter_bytes=KEY_FILTER_MAINTENANCE_BYTES)
        if report.error is not None:
            raise StorageError(report.error)
