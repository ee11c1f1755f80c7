"""One partition on the node's loop: appends go through a queue, see `append_queue`; reads return published records.

Reads run on the loop and never go beyond `bounds`, those of the last finished group. The bounds never decrease, in
whatever order jobs end. Slow questions, which open every segment or decompress batches, are returned as functions for a
job (`asked_of_store`).

A job that finds the topic deleted answers with UnknownTopicError. A job that cannot open the partition (its folder, or
damage in the published log) takes it offline: `error` has the reason, until a job succeeds again. A failed append does
not: the store rolled it back, and the next one may succeed. Neither does a process with too many open files: the
partition may be intact.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from kio.schema.errors import ErrorCode

from broker_core.broker.callback_errors import OnError, log_callback_errors
from broker_core.broker.partition.append_queue import AppendQueue
from broker_core.broker.partition.partition_target import Changed, PartitionTarget, QueuedChange
from broker_core.broker.partition.replica_services import ReplicaServices
from broker_core.cluster import (
    AppendResult,
    FetchedBatches,
    OffsetAndTimestamp,
    PartitionBounds,
    TopicDescription,
)
from broker_core.log.append_request import AppendRequest
from broker_core.log.producer_entry import ProducerEntry
from broker_core.model.exceptions import (
    CorruptDataError,
    DirectoryFormatError,
    DiskFullError,
    InvalidRequestError,
    StorageError,
    StreamlogError,
    TooManyOpenFilesError,
    UnknownPartitionError,
)
from broker_core.model.identifiers import NO_TIMESTAMP, IsolationLevel, OffsetSpec, TopicPartition
from broker_core.replication.replication_values import FetchVerdict, PartitionFetch
from broker_core.storage.readable_partition import ReadablePartition
from broker_core.storage.writable_partition import WritablePartition

Answer = TypeVar("Answer")

_log: Final = logging.getLogger(__name__)
_NOTHING: Final = PartitionBounds(log_start_offset=0, last_stable_offset=0, high_watermark=0, log_end_offset=0)


class Replica:
    """Created by the manager. Methods are called on the loop and call back on the loop.

    The constructor reads the bounds: one small read. Without a folder (missing after a crash) the partition is empty,
    and the first append creates the folder. Raises TooManyOpenFilesError: then try again later."""

    def __init__(self, topic_partition: TopicPartition, topic: TopicDescription, services: ReplicaServices) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic.topic_id
        self.config = services.config_of(topic)
        self.bounds = _NOTHING
        self.error: StorageError | None = None
        self._logged_damage = ""
        """Why it is offline."""
        self.is_dirty = False
        """There were appends since the last flush."""
        self.appended_bytes = 0
        """Bytes of all batches appended since this object was created."""
        self._topic = topic
        self._services = services
        self._target = PartitionTarget(access=services.access, topic_partition=topic_partition, topic_id=topic.topic_id)
        self._queue = AppendQueue(self, self._target, services)
        self._producers: dict[int, ProducerEntry] | None = None
        self._listeners: list[Callable[[], None]] = []
        self._call = partial(log_callback_errors, f"partition={topic_partition}")
        self._look_at_bounds()

    @property
    def leader_epoch(self) -> int:
        """A single node never elects another leader."""
        return 0

    @property
    def is_end_known(self) -> bool:
        """False: a new leader may know of fewer committed records than its predecessor told of."""
        return True

    @property
    def is_unwritten(self) -> bool:
        """True: nothing was ever written to it, and it has no folder yet."""
        return False

    @property
    def knows_producers(self) -> bool:
        return self._producers is not None

    @property
    def is_idle(self) -> bool:
        return self._queue.is_idle

    def on_advance(self, callback: Callable[[], None]) -> None:
        """Called on the loop whenever the bounds have changed, and when the topic was deleted."""
        self._listeners.append(callback)

    # -- changes --

    def append(self, request: AppendRequest) -> None:
        """Appends all of the batches or none, in the order of the calls. Calls `on_done` when they are published:
        durable, unless the topic's flush.policy leaves that to the operating system.

        `on_error` gets an error of `WritablePartition.append`, UnknownTopicError, or StorageError.
        """
        self._services.budget.hold(request.size_bytes)
        self._queue.add(request)

    def when_committed(self, until_offset: int, on_done: Callable[[], None], on_error: OnError) -> None:
        """Calls back, now or later, when all in-sync replicas have everything below the offset."""
        on_done()

    def change(
        self, work: Callable[[WritablePartition], Answer], on_done: Callable[[Answer], None], on_error: OnError
    ) -> None:
        """Runs `work(store)` in a job under the partition's lock, after everything in the queue."""
        self._queue.add(QueuedChange(work=work, on_done=on_done, on_error=on_error))

    @property
    def low_watermark(self) -> int:
        """All living replicas have deleted the records before it."""
        return self.bounds.log_start_offset

    @property
    def awaits_followers(self) -> bool:
        """Records are deleted here, and not yet on all living replicas."""
        return False

    def delete_records(
        self,
        before_offset: int,
        on_done: Callable[[int], None],
        on_error: OnError,
        *,
        on_here: Callable[[], None] = lambda: None,
    ) -> None:
        """Increases the log start offset; -1 is the high watermark. `on_done` gets the new log start offset. `on_here`:
        it is increased here, and followers are waited for; a single node has none."""
        self.change(lambda store: store.delete_records(before_offset), on_done, on_error)

    def flush(self, on_done: Callable[[None], None], on_error: OnError) -> None:
        """Flushes everything to the device, with any flush.policy."""

        def flushed(_: None) -> None:
            self.is_dirty = False
            on_done(None)

        self.change(WritablePartition.flush, flushed, on_error)

    def learn_bounds(self, bounds: PartitionBounds) -> None:
        """Applies the bounds after maintenance."""
        if self._advance(bounds):
            self._notify_listeners()

    def set_topic(self, topic: TopicDescription) -> None:
        """Applies changed settings of the topic, or changed defaults."""
        self._topic = topic
        self.config = self._services.config_of(topic)
        self._services.readers.drop(self.topic_partition)

    def drop(self) -> None:
        """The topic was deleted: refuses everything in the queue. A job under way detects the deletion itself."""
        self._services.readers.drop(self.topic_partition)
        for queued in self._queue.take_all():
            self._refuse(queued, self._target.unknown_topic())
        self._notify_listeners()

    def abandon(self) -> None:
        """No job will call back any more: releases the partition as it is."""
        self._queue.abandon()

    def go_offline(self, error: StreamlogError) -> None:
        if self.error is None:
            _log.error("partition=%s offline: %s", self.topic_partition, error)
        self.error = StorageError(f"{self.topic_partition} is offline: {error}")

    # -- reads --

    def read(
        self, from_offset: int, *, max_bytes: int, isolation: IsolationLevel, until_offset: int | None = None
    ) -> FetchedBatches:
        """See `ReadablePartition.read`; ends at `bounds`. Raises OffsetOutOfRangeError, CorruptBatchError and
        StorageError."""
        bounds = self.bounds
        bounds.require(from_offset, self.topic_partition)
        end = bounds.readable_end(isolation)
        stop = end if until_offset is None else min(end, until_offset)
        return self._read_until(from_offset, stop, max_bytes=max_bytes, isolation=isolation)

    def _read_until(self, from_offset: int, stop: int, *, max_bytes: int, isolation: IsolationLevel) -> FetchedBatches:
        """What is published below `stop`."""
        bounds = self.bounds
        if from_offset >= stop:
            return FetchedBatches(buffer=memoryview(b""), next_offset=from_offset, bounds=bounds)
        try:
            fetched = self._reader().read(from_offset, max_bytes=max_bytes, until_offset=stop, isolation=isolation)
        except CorruptDataError as damage:
            self._log_damage(damage)
            raise
        return FetchedBatches(
            buffer=fetched.buffer,
            next_offset=fetched.next_offset,
            bounds=bounds,
            aborted_transactions=fetched.aborted_transactions,
        )

    def _log_damage(self, damage: CorruptDataError) -> None:
        """Once: the answer to a client does not name the file, and a consumer asks for the same batch again and
        again."""
        if damage.message != self._logged_damage:
            self._logged_damage = damage.message
            _log.error("a damaged batch is not served: %s", damage.message)

    def read_log(self, from_offset: int, *, max_bytes: int, until_offset: int) -> FetchedBatches:
        """The same up to the log's end, for the partition's coordinator."""
        return self.read(
            from_offset, max_bytes=max_bytes, isolation=IsolationLevel.READ_UNCOMMITTED, until_offset=until_offset
        )

    def find_offset(self, spec: OffsetSpec | int, isolation: IsolationLevel) -> Callable[[], OffsetAndTimestamp | None]:
        """Finds the offset of a spec, or the first visible record at or after a time in ms; None: none. Returns a
        function for a job, which searches up to the current bounds; for the log's ends it may also run on the loop."""
        bounds = self.bounds
        readable_end = bounds.readable_end(isolation)
        if spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST):
            end = bounds.log_start_offset if spec == OffsetSpec.EARLIEST else readable_end
            found = OffsetAndTimestamp(offset=end, timestamp_ms=NO_TIMESTAMP)
            return lambda: found
        if bounds.log_start_offset == bounds.log_end_offset:
            return lambda: None
        if spec == OffsetSpec.MAX_TIMESTAMP:
            find_newest = self.asked_of_store(ReadablePartition.find_max_timestamp)

            def newest() -> OffsetAndTimestamp | None:
                found = find_newest()
                return found if found is not None and found.offset < readable_end else None

            return newest
        return self.asked_of_store(lambda store: store.find_offset_by_timestamp(spec, until_offset=readable_end))

    def asked_of_store(self, question: Callable[[ReadablePartition], Answer]) -> Callable[[], Answer]:
        """Returns a function that answers the question on the partition's store, in a job. It raises the question's
        errors, and UnknownTopicError if the topic was deleted or recreated by then."""
        target = self._target
        return lambda: target.ask(question)

    def on_fetch(self, fetch: PartitionFetch) -> FetchVerdict:
        """What a follower may have, whose log ends where it fetches from. A single node has no followers."""
        return FetchVerdict(error=ErrorCode.not_leader_or_follower)

    def preferred_reader(self, fetch_offset: int, is_near: Callable[[int], bool]) -> int | None:
        """The broker that a consumer may rather fetch from, since it is near; None: here."""
        return None

    def on_watermark_told(self, replica_id: int, high_watermark: int) -> None:
        """In the answer to a follower's fetch."""

    def is_watermark_news(self, replica_id: int) -> bool:
        """The follower knows of fewer committed records than this leader."""
        return False

    def when_producers_known(self, on_known: Callable[[], None], on_error: OnError) -> None:
        """Calls back, now or later, when `producer_entries` may be called. Until the first append or change since the
        start, the entries must be read from the log."""
        if self._producers is not None:
            on_known()
        else:
            self.change(_nothing, lambda _: on_known(), on_error)

    def producer_entries(self) -> Mapping[int, ProducerEntry]:
        """All producer entries of the partition, as of the last job. See `when_producers_known`."""
        assert self._producers is not None, f"{self.topic_partition}: its producer state is not loaded yet"
        return self._producers

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """Returns the newest leader epoch at or below `leader_epoch`, and its end offset; (-1, -1): unknown."""
        end = self._reader().leader_epochs().end_of(leader_epoch, log_end_offset=self.bounds.log_end_offset)
        return end.leader_epoch, end.end_offset

    def _reader(self) -> ReadablePartition:
        return self._services.readers.get(self.topic_partition, topic_id=self.topic_id, config=self.config)

    def _look_at_bounds(self) -> None:
        try:
            self.bounds = self._reader().bounds()
        except (UnknownPartitionError, DirectoryFormatError):
            return  # no folder yet, or one of an older topic of this name: the first append creates or replaces it
        except TooManyOpenFilesError:
            raise
        except StreamlogError as error:
            self.go_offline(error)

    # -- callbacks of the queue --

    def on_changed(self, group: Sequence[AppendRequest | QueuedChange], changed: Changed) -> None:
        if self.error is not None:
            _log.warning("partition=%s is online again", self.topic_partition)
            self.error = None
        if isinstance(group[0], AppendRequest):
            self.is_dirty = True
        self._learn_producers(changed)
        has_advanced = self._advance(changed.bounds)
        for answer in changed.answers:
            if isinstance(answer, StorageError):
                self._log_disk_refusal(answer)
                break
        for queued, answer in zip(group, changed.answers, strict=True):
            self._answer(queued, answer)
        if has_advanced:
            self._notify_listeners()
        if changed.has_rolled:
            self._services.on_rolled(self.topic_partition)

    def on_disk_refusal(self, group: Sequence[AppendRequest], error: Exception) -> None:
        """Everything was rolled back; the next append may succeed."""
        self._log_disk_refusal(error)
        known = error if isinstance(error, StreamlogError) else StreamlogError(f"{self.topic_partition}: {error}")
        for queued in group:
            self._refuse(queued, known)

    def _log_disk_refusal(self, error: Exception) -> None:
        _log.error("partition=%s: a disk operation failed: %s", self.topic_partition, error)

    def on_failed(self, group: Sequence[AppendRequest | QueuedChange], error: Exception) -> None:
        """The job wrote nothing: the topic was deleted, or the partition could not be opened."""
        if isinstance(error, InvalidRequestError | TooManyOpenFilesError | DiskFullError):
            known: StreamlogError = error
            if isinstance(error, DiskFullError):
                self._log_disk_refusal(error)
        elif isinstance(error, StreamlogError):
            self.go_offline(error)
            known = self.error or error
        else:
            _log.error("partition=%s: a job failed", self.topic_partition, exc_info=error)
            known = StreamlogError(f"{self.topic_partition}: {type(error).__name__}: {error}")
        for queued in group:
            self._refuse(queued, known)

    def _answer(self, queued: AppendRequest | QueuedChange, answer: Any) -> None:
        if isinstance(answer, StreamlogError):
            self._refuse(queued, answer)
        elif isinstance(queued, AppendRequest):
            self._services.budget.release(queued.size_bytes)
            self.appended_bytes += queued.size_bytes
            self._on_appended(queued, answer.result)
        else:
            self._call(queued.on_done, answer)

    def _on_appended(self, request: AppendRequest, result: AppendResult) -> None:
        self._call(request.on_done, result)

    def _refuse(self, queued: AppendRequest | QueuedChange, error: StreamlogError) -> None:
        if isinstance(queued, AppendRequest):
            self._services.budget.release(queued.size_bytes)
        self._call(queued.on_error, error)

    def _learn_producers(self, changed: Changed) -> None:
        if changed.has_all_producers:
            self._producers = {number: entry for number, entry in changed.producers.items() if entry is not None}
        elif self._producers is not None:
            for producer_id, entry in changed.producers.items():
                if entry is not None:
                    self._producers[producer_id] = entry

    def _advance(self, bounds: PartitionBounds) -> bool:
        """Applies newer bounds; returns whether they changed. A job with older bounds may end later: none decrease."""
        now = self.bounds
        if bounds.is_nowhere_behind(now):
            self.bounds = bounds
            return bounds != now
        self.bounds = PartitionBounds(
            log_start_offset=max(now.log_start_offset, bounds.log_start_offset),
            last_stable_offset=max(now.last_stable_offset, bounds.last_stable_offset),
            high_watermark=max(now.high_watermark, bounds.high_watermark),
            log_end_offset=max(now.log_end_offset, bounds.log_end_offset),
        )
        return self.bounds != now

    def _notify_listeners(self) -> None:
        for listener in self._listeners:
            self._call(listener)
        self._call(self._services.on_advanced, self.topic_partition)


def _nothing(store: WritablePartition) -> None:
    """A change without effect: its job returns the bounds and all producers."""
