"""`StagedWrites` and `PlannedReads`: the API of a log on object storage besides `Cluster`, for engines with many tasks.

Exactly-once writing, with one request that commits:

    driver   last_version(app_id)                  -> if this version is committed already, its tasks need not run
    task     upload = log.stage()                  one object, uploaded in parts as rows arrive, bounded memory
             upload.append(partition, batches)     any number of times; batches as for `Cluster.append`
             staged = upload.finish()              a small value to pickle and send to the driver
             upload.abort()                        instead of finish, if the task fails. Nothing becomes visible
    driver   log.commit_staged([staged, ...], app=AppVersion(...))
                 -> CommitOutcome(is_new=True)     readers see all rows of all tasks, in all partitions, from now on
                 -> CommitOutcome(is_new=False)    this version or a later one was committed before; nothing changed
                 raises                            nothing was committed (except ObjectOutcomeUnknownError)

Uncommitted uploads are unreferenced garbage, which maintenance removes. So the driver has nothing to abort or fence,
and the only timeout is the grace time of the maintenance (24 hours).

Reading, without a look-up in any task:

    driver   plan = log.plan_fetches(partition, from_offset, until_offset)    a small value to pickle
    task     log.fetch_planned(plan, offset, max_bytes=...)                   as `Cluster.fetch`; requests only data
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable
from uuid import UUID

from broker_core.cluster import FetchedBatches, PartitionBounds
from broker_core.model.identifiers import ProducerIdAndEpoch, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class AppVersion:
    """The application and the version of an exactly-once commit. Versions of an application ascend; gaps are allowed.

    `note` is a text of the application, stored with its last version: for example a fingerprint of the input.
    """

    app_id: str
    version: int
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedData:
    """The upload of one task. `ranges` is internal to the log; without ranges there is nothing to commit."""

    ranges: tuple[tuple[object, ...], ...]
    record_count: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOutcome:
    """`is_new`: this call has made the data readable. Otherwise it was committed before, by this driver or another one.

    `last`: the application's last version in the log now, None without an application. If it is above the requested
    one, or has another note, the history of the application has forked, and the caller has to report it.
    `commit_number`: of the new commit, or else the last one of the log.
    """

    is_new: bool
    commit_number: int
    last: AppVersion | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchPlan:
    """The locations of the batches of an offset range. `reads` is internal to the log.

    `bounds` are those of the partition at the time of planning; `topic_id` is the planned topic.
    """

    partition: TopicPartition
    topic_id: UUID
    from_offset: int
    until_offset: int
    bounds: PartitionBounds
    reads: tuple[tuple[object, ...], ...]


class StagedUpload(Protocol):
    """The upload of one task. Not thread-safe, and must not be used in another process."""

    def init_producer(self) -> ProducerIdAndEpoch:
        """Returns a new id, so that `TopicProducer` can write to an upload as to a cluster."""
        ...

    def append(self, partition: TopicPartition, batches: bytearray) -> None:
        """Appends one or more v2 batches to this upload's data for the partition; `batches` are checked and changed in
        place as in `Cluster.append`. Returns before they are durable: `finish` makes them durable.

        Raises like `Cluster.append` for invalid batches, and ObjectStoreError.
        """
        ...

    def finish(self) -> StagedData:
        """All appended batches are durable when it returns. Without any append no object is created."""
        ...

    def abort(self) -> None:
        """Drops the upload. Never raises; harmless after `finish`."""
        ...


@runtime_checkable
class StagedWrites(Protocol):
    """The writing side. Clusters on object storage implement it."""

    def stage(self) -> StagedUpload:
        """Begins an upload; sends no request before there is something to write."""
        ...

    def commit_staged(self, staged: Sequence[StagedData], *, app: AppVersion | None = None) -> CommitOutcome:
        """Makes all staged data readable atomically. With `app` it commits even if nothing was staged.

        The order of `staged` is the order of the rows of a partition. Safe to repeat after any error: committed data
        is not committed again. It is recognized by the version of `app`, or else by the uploads themselves.

        Raises UnknownTopicError and UnknownPartitionError (deleted meanwhile), UploadExpiredError (staged longer ago
        than the grace time), ObjectOutcomeUnknownError (repeat it to find out), other ObjectStoreErrors.
        """
        ...

    def last_version(self, app_id: str) -> AppVersion | None:
        """The last version that this application has committed. One request if there are no new commits."""
        ...


class PlannedReads(Protocol):
    """The reading side."""

    def one_look(self) -> AbstractContextManager[None]:
        """Within it all calls of this thread see the log as of the first call, so they are consistent and cost one
        request together if there are no new commits. Commits of this process are visible nevertheless.
        """
        ...

    def plan_fetches(self, partition: TopicPartition, from_offset: int, until_offset: int) -> FetchPlan:
        """Plans with the known state of the log: list the offsets first. Raises OffsetOutOfRangeError,
        UnknownTopicError."""
        ...

    def fetch_planned(self, plan: FetchPlan, from_offset: int, *, max_bytes: int) -> FetchedBatches:
        """Like `Cluster.fetch` within the plan's range, in any process that has the log open.

        Objects that maintenance has replaced meanwhile stay for the grace time. Raises OffsetOutOfRangeError for data
        removed by retention, CorruptBatchError with object and position.
        """
        ...
