"""Our directory's `__cluster_metadata-0`: the topics, stored as KRaft records in a log like any other.

A reader follows the log: one small read shows whether it grew, and only new records are replayed. A change takes the
log's lock, replays what others appended, plans on that state, appends the plan's records as one batch and replays them.
So if two processes create the same topic, one comes after the other, and a crash leaves a change whole or absent.

A published change is final. Other processes append to a topic, and are acknowledged, because this log has it; they do
not lock this log for that. An unpublished change never happened: the next writer cuts it. A change is acknowledged only
when its bounds are on the device, so after a power failure no acknowledged change is unpublished.

The same lock guards the names of partition folders (see `partition_folders`). Order of locks: this one before any
partition's; the holder of a partition's lock reads this log but does not lock it.

The log is not compacted, and retention does not apply: a topic's life takes some hundred bytes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypeVar

from broker_core.cluster import TopicDescription
from broker_core.coordinator.contract import CoordinatorResult
from broker_core.log_directory.directory_in_use import DirectoryInUse
from broker_core.log_directory.partition_lock import LOCK_FILE_NAME, PartitionLock
from broker_core.metadata.controller import CLUSTER_METADATA_TOPIC_ID, MetadataController
from broker_core.metadata.metadata_image import MetadataImage
from broker_core.metadata.metadata_records import MetadataRecord
from broker_core.metadata.metadata_replay import build_metadata_batch, replay_batches
from broker_core.model.exceptions import StorageError, UnknownPartitionError
from broker_core.model.identifiers import TopicPartition
from broker_core.model.topic_config import TopicConfig
from broker_core.model.topic_defaults import KAFKAS_DEFAULTS, TopicDefaults, dynamic_topic_defaults
from broker_core.model.topic_name import CLUSTER_METADATA_TOPIC, partition_folder
from broker_core.ports import Clock, FileSystem, Locks
from broker_core.storage.readable_partition import ReadablePartition
from broker_core.storage.storage_errors import translated
from broker_core.storage.writable_partition import WritablePartition

Reply = TypeVar("Reply")

METADATA_PARTITION: Final = TopicPartition(CLUSTER_METADATA_TOPIC, 0)
METADATA_CONFIG: Final = TopicConfig(cleanup_policy=frozenset(), max_message_bytes=2**31 - 1)

_READ_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class _Writer:
    lock: PartitionLock
    store: WritablePartition


class MetadataLog:
    """The topics of a directory that is OURS. Nothing is created before `make()`; until then there are no topics."""

    def __init__(self, fs: FileSystem, directory: DirectoryInUse, clock: Clock) -> None:
        self._fs = fs
        self._directory = directory
        self._clock = clock
        self._folder = f"{directory.path}/{partition_folder(METADATA_PARTITION)}"
        self._mutex = threading.Lock()
        self._making = threading.Lock()
        self._changing = threading.Lock()
        """Held by the thread that has the log's lock; `close` waits for it."""
        self._is_closed = False
        self._image = MetadataImage()
        self._defaults = self._image.broker_configs, KAFKAS_DEFAULTS
        self._next_offset = 0
        self._reader: ReadablePartition | None = None
        self._writer: _Writer | None = None
        self._durable_end_offset = -1
        """The end offset of the newest published bounds that are known to be on the device."""

    @property
    def locks(self) -> Locks:
        """The lock files that the directory uses."""
        return self._directory.locks

    @property
    def image(self) -> MetadataImage:
        """The topics as of the last refresh. Inside `locked()` no other process changes them."""
        return self._image

    def refresh(self, *, is_thorough: bool = False) -> None:
        with self._mutex, translated("reading the metadata log", self._directory.path):
            self._require_open()
            if self._reader is None and not self._open_reader():
                return
            assert self._reader is not None
            end_offset = self._reader.bounds().log_end_offset
            while self._next_offset < end_offset:
                fetched = self._reader.read(self._next_offset, max_bytes=_READ_BYTES, until_offset=end_offset)
                self._next_offset = replay_batches(self._image, fetched.buffer, from_offset=self._next_offset)

    def topic(self, name: str) -> TopicDescription | None:
        return self._image.topics.get(name)

    def topic_defaults(self) -> TopicDefaults:
        """The dynamic broker settings that apply to all topics, as of the last refresh; the same object until they
        change. Settings of a broker's properties file are not included."""
        broker_configs, defaults = self._defaults
        if self._image.broker_configs is not broker_configs:
            broker_configs = self._image.broker_configs
            defaults = dynamic_topic_defaults(broker_configs, self._directory.properties.node_id)
            self._defaults = broker_configs, defaults
        return defaults

    def topics(self) -> dict[str, TopicDescription]:
        with self._mutex:
            return dict(self._image.topics)

    def make(self) -> None:
        """Creates the log's folder if it is missing; the directory must be OURS."""
        with self._making, translated("creating the metadata log", self._directory.path):
            self._require_open()
            if self._writer is None:
                if not self._fs.exists(self._folder):
                    self._make_folder()
                self._writer = self._open_writer()

    def change(
        self,
        plan: Callable[[MetadataController], CoordinatorResult[MetadataRecord, Reply]],
        *,
        on_appended: Callable[[tuple[MetadataRecord, ...]], object] | None = None,
    ) -> Reply:
        """Plans under the lock, appends and replays. Returns the plan's reply, durable. Raises what the plan raises.

        `on_appended` receives all appended records, also if the plan then raises. Also raises StorageError when the
        sync of the bounds fails after other processes can see the change: that change stays.
        """
        with self.locked():
            writer = self._held_writer()
            controller = self.controller_for(self._image)
            self._append(writer, controller.plan_bootstrap().records, on_appended)
            result = plan(controller)
            self._append(writer, result.records, on_appended)
            return result.reply

    def controller_for(self, image: MetadataImage) -> MetadataController:
        """Plans on an image, for the directory's node."""
        properties = self._directory.properties
        return MetadataController(image, broker_id=properties.node_id, directory_id=properties.directory_id)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the log's lock, with the image at the log's end and that end synced. Not reentrant."""
        with self._changing:
            self.make()
            writer = self._held_writer()
            with writer.lock.exclusive():
                with translated("opening the metadata log", self._directory.path):
                    writer.store.refresh()
                self._make_durable(writer)
                self.refresh()
                yield

    def close(self) -> None:
        """Waits for a running change. Every later call raises StorageError."""
        with self._changing, self._making, self._mutex:
            self._is_closed = True
            reader, self._reader = self._reader, None
            writer, self._writer = self._writer, None
        if reader is not None:
            reader.close()
        if writer is not None:
            writer.store.close()
            writer.lock.close()

    def _require_open(self) -> None:
        if self._is_closed:
            raise StorageError(f"The log in {self._directory.path} was closed.", directory=self._directory.path)

    def _held_writer(self) -> _Writer:
        assert self._writer is not None, "make() comes first"
        return self._writer

    def _append(
        self,
        writer: _Writer,
        records: tuple[MetadataRecord, ...],
        on_appended: Callable[[tuple[MetadataRecord, ...]], object] | None,
    ) -> None:
        if not records:
            return
        now_ms = self._clock.now_ms()
        appended = writer.store.append(build_metadata_batch(records, now_ms=now_ms), now_ms=now_ms)
        with self._mutex:
            # Under the log's lock the image was at the log's end.
            assert appended.result.base_offset == self._next_offset
            for record in records:
                self._image.replay(record)
            self._next_offset += len(records)
        if on_appended is not None:
            on_appended(records)
        self._make_durable(writer)

    def _make_durable(self, writer: _Writer) -> None:
        """Syncs the bounds, also for a change that another process published before it died: others now rely on it."""
        end_offset = writer.store.written_bounds().log_end_offset
        if end_offset != self._durable_end_offset:
            writer.store.flush()
            self._durable_end_offset = end_offset

    def _open_reader(self) -> bool:
        try:
            self._reader = ReadablePartition.open(
                self._fs,
                self._folder,
                METADATA_PARTITION,
                config=METADATA_CONFIG,
                topic_id=CLUSTER_METADATA_TOPIC_ID,
            )
        except UnknownPartitionError:
            return False
        return True

    def _make_folder(self) -> None:
        try:
            self._fs.make_directory(self._folder)
        except FileExistsError:
            return  # another process creates the same log
        self._fs.sync_directory(self._directory.path)

    def _open_writer(self) -> _Writer:
        lock = PartitionLock(f"{self._folder}/{LOCK_FILE_NAME}", locks=self.locks)
        with lock.exclusive():
            WritablePartition.create(
                self._fs, self._folder, METADATA_PARTITION, CLUSTER_METADATA_TOPIC_ID, keeps_unpublished=False
            )
        store = WritablePartition.open(
            self._fs,
            self._folder,
            METADATA_PARTITION,
            config=METADATA_CONFIG,
            topic_id=CLUSTER_METADATA_TOPIC_ID,
            keeps_unpublished=False,
        )
        return _Writer(lock=lock, store=store)
