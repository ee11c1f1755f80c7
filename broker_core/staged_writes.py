"""`StagedWrites` and `PlannedReads`: the API of a log on object storage besides `Cluster`, for engines with many tasks.

Exactly-once writing, with one request that commits:

    driver   plan = log.plan_staging(topics, app_id)   a small value to pickle: what tasks would have to look up
             plan.version_of(app_id)                   -> if this version is committed already, tasks need not run
    task     upload = log.stage(plan)              one object, uploaded in parts as rows arrive, bounded memory
             upload.append(partition, batches)     any number of times; batches as for `Cluster.append`
             staged = upload.finish()              a small value to pickle and send to the driver
             upload.abort()                        instead of finish, if the task fails. Nothing becomes visible
    driver   log.commit_staged([staged, ...], app=AppVersion(...), plan=plan)
                 -> CommitOutcome(is_new=True)     readers see all rows of all tasks, in all partitions, from now on
                 -> CommitOutcome(is_new=False)    this version or a later one was committed before; nothing changed
                 raises                            nothing was committed (except ObjectOutcomeUnknownError)

Uncommitted uploads are unreferenced garbage, which maintenance removes. So the driver has nothing to abort or fence,
and the only timeout is the grace time of the maintenance (24 hours).

Reading, without a look-up in any task:

    driver   with log.one_look():                                             one request if nothing is new
                 log.list_offsets(...)
                 plan = log.plan_fetches(partition, from_offset, until_offset)    a small value to pickle
    task     log.fetch_planned(plan, offset, max_bytes=...)                   as `Cluster.fetch`; requests only data
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable
from uuid import UUID

from broker_core.cluster import FetchedBatches, PartitionBounds, TopicDescription
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
class StagingPlan:
    """The part of a log's state that a write needs, as of `commit_number`. Its users read the methods only.

    `apps`: the last versions of all applications, or with `app_id` of this one; None: there are too many.
    """

    log_id: UUID
    commit_number: int
    horizon_ms: int
    topics: tuple[TopicDescription, ...]
    app_id: str | None
    apps: tuple[AppVersion, ...] | None
    last_writer: str = ""

    def topic(self, name: str) -> TopicDescription | None:
        """None: it did not exist, or the plan does not have it."""
        return next((topic for topic in self.topics if topic.name == name), None)

    def knows_version_of(self, app_id: str) -> bool:
        return self.apps is not None and self.app_id in (None, app_id)

    def version_of(self, app_id: str) -> AppVersion | None:
        """The last version that the application had committed. None also if it is not known."""
        return next((app for app in self.apps or () if app.app_id == app_id), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedData:
    """The upload of one task. `ranges` is internal to the log; without ranges there is nothing to commit.

    `plan_number`: the commit number of the plan that it was staged by; no commit up to that one can have its data.
    """

    ranges: tuple[tuple[object, ...], ...]
    record_count: int
    size_bytes: int
    plan_number: int | None = None


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

    `bounds` are those of the partition at the time of planning; `topic_id` is the planned topic; `commit_number` is the
    last commit that the plan takes into account; `size_bytes` is the size of all that is read.
    """

    partition: TopicPartition
    topic_id: UUID
    from_offset: int
    until_offset: int
    bounds: PartitionBounds
    commit_number: int
    size_bytes: int
    reads: bytes


class FetchStep(NamedTuple):
    """One of the fetches of a plan that follow one another. It reads `size_bytes`, and the next one begins at
    `next_offset`; if that is `from_offset`, it is not known before the fetch."""

    from_offset: int
    next_offset: int
    size_bytes: int


class StagedUpload(Protocol):
    """The upload of one task. Not thread-safe, and must not be used in another process."""

    def init_producer(self) -> ProducerIdAndEpoch:
        """Returns a new id, so that `TopicProducer` can write to an upload as to a cluster."""
        ...

    def append(self, partition: TopicPartition, batches: bytearray, *, topic_id: UUID | None = None) -> None:
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

    def plan_staging(self, topics: Collection[str] | None = None, app_id: str | None = None) -> StagingPlan:
        """For tasks that write to these topics (None: to any), and their commit for this application (None: any).

        No request if this process knows the topics and has looked for new commits in the last half minute: an older
        plan does no harm, since the commit decides.
        """
        ...

    def stage(self, plan: StagingPlan | None = None) -> StagedUpload:
        """Begins an upload; sends no request before there is something to write. Topics of the plan are not looked
        up."""
        ...

    def commit_staged(
        self, staged: Sequence[StagedData], *, app: AppVersion | None = None, plan: StagingPlan | None = None
    ) -> CommitOutcome:
        """Makes all staged data readable atomically. With `app` it commits even if nothing was staged.

        `plan`: the one that the data was staged by. Then it is one request if no other writer has committed since,
        also in a process that has not loaded the log.

        The order of `staged` is the order of the rows of a partition. Safe to repeat after any error: committed data
        is not committed again. It is recognized by the version of `app`, or else by the uploads themselves.

        Raises UnknownTopicError and UnknownPartitionError (deleted meanwhile), UploadExpiredError (staged longer ago
        than the grace time), ObjectOutcomeUnknownError (repeat it to find out), other ObjectStoreErrors.
        """
        ...

    def last_version(self, app_id: str) -> AppVersion | None:
        """The last version that this application has committed. One request if there are no new commits."""
        ...


@runtime_checkable
class PlannedReads(Protocol):
    """The reading side."""

    def one_look(self) -> AbstractContextManager[None]:
        """Within it all calls of this thread see the log as of the first call, so they are consistent and cost one
        request together if there are no new commits. Commits of this process are visible nevertheless.
        """
        ...

    def known_state(self) -> AbstractContextManager[None]:
        """Within it all calls of this thread see the log as this process last saw it, without a look for new commits.
        A process that has not seen it yet loads it."""
        ...

    def plan_fetches(self, partition: TopicPartition, from_offset: int, until_offset: int) -> FetchPlan:
        """Plans with the known state of the log: list the offsets first. The plan of very many objects ends before
        `until_offset`, so that it stays small: the task continues with `Cluster.fetch`. Raises OffsetOutOfRangeError,
        UnknownTopicError."""
        ...

    def is_current(self, plan: FetchPlan) -> bool:
        """Whether there is no commit that the plan does not take into account. At most one request."""
        ...

    def fetch_planned(self, plan: FetchPlan, from_offset: int, *, max_bytes: int) -> FetchedBatches:
        """Like `Cluster.fetch` within the plan's range, in any process that has the log open.

        Objects that maintenance has replaced meanwhile stay for the grace time. Raises OffsetOutOfRangeError for data
        removed by retention, CorruptBatchError with object and position.
        """
        ...

    def fetch_steps(
        self, plan: FetchPlan, from_offset: int, until_offset: int, *, max_bytes: int, ahead_bytes: int
    ) -> list[FetchStep]:
        """The calls of `fetch_planned` with `max_bytes` that follow one another from `from_offset` on and read
        `ahead_bytes` together, or the first one alone. They may run at the same time. Sends no request."""
        ...

    def fetch_several_planned(self, plans: Sequence[FetchPlan], *, max_bytes: int) -> list[FetchedBatches | None]:
        """The first batches of each plan, as much as fits `max_bytes` together. Batches that adjoin in an object are
        read by one request, also those of different partitions. None: fetch this plan by itself.

        Raises CorruptBatchError with object and position.
        """
        ...
