"""`StagedWrites` and `PlannedReads`: what a log on object storage offers beside `Cluster`, for engines with many tasks.

Writing, exactly-once, with one request that decides:

    driver   last_version(app_id)                  -> is this version decided already? then its tasks need not run
    task     upload = log.stage()                  one object, uploaded in parts while rows come, bounded memory
             upload.append(partition, batches)     as often as it likes; batches as `Cluster.append` takes them
             staged = upload.finish()              a small value, to be pickled and sent to the driver
             upload.abort()                        instead of finish, when the task fails. Nothing is visible either way
    driver   log.commit_staged([staged, ...], app=AppVersion(...))
                 -> CommitOutcome(is_new=True)     readers see all rows of all tasks from this instant, in all
                 partitions -> CommitOutcome(is_new=False)    this version, or a later one, was committed before;
                 nothing was changed raises                            nothing was committed (but see
                 ObjectOutcomeUnknownError)

What a driver does not commit is garbage that nobody references; maintenance removes it. So there is nothing to abort
on the driver, nothing to fence, and no timeout but the grace time of the maintenance (24 hours).

Reading, without a look-up in any task:

    driver   plan = log.plan_fetches(partition, from_offset, until_offset)    a small value, to be pickled
    task     log.fetch_planned(plan, offset, max_bytes=...)                   as `Cluster.fetch`; asks for data only
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
    """Whose exactly-once commit it is, and which one. Versions of an application ascend, with gaps as it likes.

    `note` is the application's own text, kept with its last version: a fingerprint of the input, say.
    """

    app_id: str
    version: int
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedData:
    """What one task has uploaded. `ranges` is the log's own; an empty one commits nothing."""

    ranges: tuple[tuple[object, ...], ...]
    record_count: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOutcome:
    """`is_new`: this call has made the data readable. Else it was committed before, by this driver or another one.

    `last`: the application's last version as the log has it now, None without an application: where it is above what
    was asked, or its note is another one, the application's own history has forked, and whoever asked has to say so.
    `commit_number`: of the commit that was made, or that the log was at.
    """

    is_new: bool
    commit_number: int
    last: AppVersion | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchPlan:
    """Where the batches of a range of offsets lie. `reads` is the log's own.

    `bounds` are those of the partition when the plan was made; `topic_id` is the topic that it was made for.
    """

    partition: TopicPartition
    topic_id: UUID
    from_offset: int
    until_offset: int
    bounds: PartitionBounds
    reads: tuple[tuple[object, ...], ...]


class StagedUpload(Protocol):
    """Of one task. Not thread-safe. Not for use in another process."""

    def init_producer(self) -> ProducerIdAndEpoch:
        """A fresh id, so that `TopicProducer` can write to an upload as to a cluster."""
        ...

    def append(self, partition: TopicPartition, batches: bytearray) -> None:
        """Takes one or more v2 batches to the end of what this upload has for the partition; `batches` are checked and
        changed in place as `Cluster.append` does. Returns before they are durable: `finish` makes them so.

        Raises as `Cluster.append` does for what may not be appended, and ObjectStoreError.
        """
        ...

    def finish(self) -> StagedData:
        """All that was appended is durable when it returns. Without any append no object is made."""
        ...

    def abort(self) -> None:
        """Gives it up. Never raises; harmless after `finish`."""
        ...


@runtime_checkable
class StagedWrites(Protocol):
    """The writing side. `Cluster`s that have it: those on object storage."""

    def stage(self) -> StagedUpload:
        """Begins an upload; makes no request before there is something to write."""
        ...

    def commit_staged(self, staged: Sequence[StagedData], *, app: AppVersion | None = None) -> CommitOutcome:
        """Makes everything that was staged readable, at one instant. With `app` also if nothing was staged.

        The order of `staged` is the order of the rows of a partition. Safe to repeat after any error: what was
        committed already is not committed again, with `app` by its version, without one by the uploads themselves.

        Raises UnknownTopicError and UnknownPartitionError (deleted meanwhile), UploadExpiredError (staged longer ago
        than the grace time), ObjectOutcomeUnknownError (repeat it to find out), other ObjectStoreErrors.
        """
        ...

    def last_version(self, app_id: str) -> AppVersion | None:
        """The last version that this application has committed. One request when nothing is new."""
        ...


class PlannedReads(Protocol):
    """The reading side."""

    def one_look(self) -> AbstractContextManager[None]:
        """Within it this thread's questions speak of the log as the first of them found it: they cost one request
        together when nothing is new, and agree with each other. What this process commits meanwhile is seen all the
        same.
        """
        ...

    def plan_fetches(self, partition: TopicPartition, from_offset: int, until_offset: int) -> FetchPlan:
        """By what is known of the log here: list the offsets first. Raises OffsetOutOfRangeError, UnknownTopicError."""
        ...

    def fetch_planned(self, plan: FetchPlan, from_offset: int, *, max_bytes: int) -> FetchedBatches:
        """As `Cluster.fetch` within the plan's range, in any process that has the log open.

        Objects that maintenance has replaced meanwhile stay for the grace time. Raises OffsetOutOfRangeError for data
        that retention has removed, CorruptBatchError with object and position.
        """
        ...
