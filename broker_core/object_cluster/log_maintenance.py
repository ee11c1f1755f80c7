"""Keeps an object log small and fast: retention, merging, compaction, checkpoints, and removal of garbage.

Any number of processes may do it concurrently and may be killed at any point. Each step is one commit, validated
against the newest image, or removes objects that no commit can ever refer to again (`garbage_plan`). The uploads of a
failed step are garbage.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Final, TypeVar

from broker_core.model.exceptions import StreamlogError, UnknownTopicError
from broker_core.model.identifiers import TopicPartition
from broker_core.object_cluster.batch_fetcher import BatchFetcher
from broker_core.object_cluster.image_loader import require_all_commits
from broker_core.object_cluster.log_ports import LogPorts
from broker_core.object_cluster.range_rewriter import RangeRewriter, RewrittenRanges
from broker_core.object_cluster.shared_log import Proposal, SharedLog
from broker_core.object_log.checkpoint_codec import encode_checkpoint
from broker_core.object_log.commit import AdvanceHorizon, Change
from broker_core.object_log.garbage_plan import garbage_horizon_ms, garbage_of
from broker_core.object_log.log_identity import encode_latest
from broker_core.object_log.log_image import LogImage
from broker_core.object_log.maintenance_plan import (
    RewriteJob,
    plan_compactions,
    plan_expired_pins,
    plan_log_starts,
    plan_merges,
    plan_replacement,
)
from broker_core.object_log.object_names import (
    CHECKPOINT_PREFIX,
    COMMIT_PREFIX,
    DATA_PREFIX,
    LATEST_CHECKPOINT,
    begun_ms_of,
    checkpoint_path,
    commit_path,
    number_of,
)
from broker_core.ports import ObjectEntry

Answer = TypeVar("Answer")

logger: Final = logging.getLogger(__name__)

DEFAULT_GRACE_MS: Final = 24 * 3600 * 1000
COMMITS_BETWEEN_CHECKPOINTS: Final = 100
KEPT_CHECKPOINT_COUNT: Final = 5
MAX_REWRITTEN_BYTES_BEHIND_COMMIT: Final = 512 * 1024 * 1024
"""The bytes that one turn after a commit merges or compacts at most; the command has no such limit."""
MAX_REWRITE_COUNT: Final = 10_000
"""The limit of one call, so that it ends even if others write faster than it merges."""
DELETED_AT_ONCE: Final = 1000
"""The objects that one request may delete: the limit of S3."""


@dataclass(slots=True, kw_only=True)
class LogMaintenanceReport:
    """The result of one call. `errors`: the errors of single partitions or steps."""

    removed_offset_count: int = 0
    merged_range_count: int = 0
    compacted_range_count: int = 0
    rewritten_bytes: int = 0
    checkpoint_number: int | None = None
    removed_object_count: int = 0
    removed_bytes: int = 0
    errors: list[str] = field(default_factory=list)


class LogMaintenance:
    """Thread-safe."""

    def __init__(self, ports: LogPorts, log: SharedLog, fetcher: BatchFetcher) -> None:
        self._ports = ports
        self._log = log
        self._rewriter = RangeRewriter(ports, fetcher)
        self._checkpoint_number = 0
        self._swept_ms = 0

    def maintain(self, topics: Collection[str] | None = None, *, grace_ms: int | None = None) -> LogMaintenanceReport:
        """Does everything that is due. Raises UnknownTopicError, ObjectLogFormatError, and CorruptObjectError if a
        commit was removed."""
        known, number, log_id = self._log.read(lambda image: (image.topics, image.number, image.log_id))
        for name in topics or ():
            if name not in known:
                raise UnknownTopicError(f"Topic '{name}' does not exist.", topic=name)
        require_all_commits(self._ports, number, log_id)
        report = LogMaintenanceReport()
        wanted = None if topics is None else frozenset(topics)
        self._guarded(report, lambda: self._retain(report, wanted))
        self._rewrite(report, wanted, max_bytes=None)
        listed = self._guarded(report, lambda: self._checkpoint(report, least_behind=1))
        if topics is None:
            self._guarded(report, lambda: self._remove_garbage(report, grace_ms or DEFAULT_GRACE_MS, listed))
        return report

    def maintain_behind_commit(self) -> LogMaintenanceReport:
        """Does a bounded part of it. Looks for garbage once per quarter of the grace time."""
        report = LogMaintenanceReport()
        listed = self._guarded(report, lambda: self._checkpoint(report, least_behind=COMMITS_BETWEEN_CHECKPOINTS))
        self._guarded(report, lambda: self._retain(report, None))
        self._rewrite(report, None, max_bytes=MAX_REWRITTEN_BYTES_BEHIND_COMMIT)
        now_ms = self._ports.clock.now_ms()
        if now_ms - self._swept_ms > DEFAULT_GRACE_MS // 4:
            self._swept_ms = now_ms
            self._guarded(report, lambda: self._remove_garbage(report, DEFAULT_GRACE_MS, listed))
        for error in report.errors:
            logger.warning("maintenance of %s: %s", self._ports.store.url, error)
        return report

    def _guarded(self, report: LogMaintenanceReport, step: Callable[[], Answer]) -> Answer | None:
        """None after an error."""
        try:
            return step()
        except StreamlogError as error:
            report.errors.append(f"{type(error).__name__}: {error}")
            return None

    # -- retention --

    def _retain(self, report: LogMaintenanceReport, topics: frozenset[str] | None) -> None:
        removed: list[int] = []

        def plan(image: LogImage) -> Proposal | None:
            now_ms = self._ports.clock.now_ms()
            names = {topic.topic_id: topic.name for topic in image.topics.values()}
            planned = plan_log_starts(image, now_ms)
            moves = [move for move in planned if topics is None or names[move.topic_id] in topics]
            removed.append(0)
            for move in moves:
                partition = image.partition(move.topic_id, move.partition)
                assert partition is not None, "a plan for a partition that does not exist"
                removed[-1] += move.offset - partition.log_start_offset
            changes: list[Change] = [*moves, *plan_expired_pins(image, now_ms - DEFAULT_GRACE_MS)]
            return Proposal(changes=changes) if changes else None

        if self._log.commit(plan) is not None:
            report.removed_offset_count += removed[-1]

    # -- merging and compaction --

    def _rewrite(self, report: LogMaintenanceReport, topics: frozenset[str] | None, *, max_bytes: int | None) -> None:
        """Compaction first, so that records it removes are not merged."""
        failed: set[TopicPartition] = set()
        for jobs_of, rewrite in ((self._compactions, self._compact), (self._merges, self._merge)):
            for _ in range(MAX_REWRITE_COUNT):
                job = self._log.read(partial(_first_job, jobs_of, topics, failed))
                if job is None or (max_bytes is not None and report.rewritten_bytes + job.size_bytes > max_bytes):
                    break
                try:
                    if not rewrite(report, job):
                        failed.add(TopicPartition(job.topic, job.partition))
                except StreamlogError as error:
                    report.errors.append(f"{job.topic}-{job.partition}: {type(error).__name__}: {error}")
                    failed.add(TopicPartition(job.topic, job.partition))

    def _compactions(self, image: LogImage) -> Iterator[RewriteJob]:
        return plan_compactions(image, self._ports.clock.now_ms())

    def _merges(self, image: LogImage) -> Iterator[RewriteJob]:
        return plan_merges(image)

    def _merge(self, report: LogMaintenanceReport, job: RewriteJob) -> bool:
        rewritten = self._rewriter.merge(job)
        if not self._replace(report, rewritten):
            return False
        report.merged_range_count += len(job.inputs)
        return True

    def _compact(self, report: LogMaintenanceReport, job: RewriteJob) -> bool:
        """One pass. If the keys do not fit into memory, the partition is due again."""
        rewritten, _ = self._rewriter.compact(job)
        if not self._replace(report, rewritten):
            return False
        report.compacted_range_count += len(rewritten.job.inputs)
        return True

    def _replace(self, report: LogMaintenanceReport, rewritten: RewrittenRanges) -> bool:
        """Whether the inputs still existed."""

        def plan(image: LogImage) -> Proposal | None:
            changes = plan_replacement(image, rewritten.job, rewritten.outputs, clean_until=rewritten.clean_until)
            return None if changes is None else Proposal(changes=changes)

        report.rewritten_bytes += rewritten.job.size_bytes
        return self._log.commit(plan) is not None

    # -- checkpoints --

    def _checkpoint(self, report: LogMaintenanceReport, *, least_behind: int) -> list[ObjectEntry] | None:
        """Returns the checkpoints as they were listed; None if one was written since."""
        entries = list(self._ports.store.list_after(CHECKPOINT_PREFIX))
        listed = [number for entry in entries if (number := number_of(entry.path)) is not None]

        def encode(image: LogImage) -> tuple[int, bytes, bytes] | None:
            # One that was listed before the end of the log was looked up, and is above it, is another program's object.
            newest = max((number for number in listed if number <= image.number), default=0)
            if image.number < max(newest, self._checkpoint_number) + least_behind:
                return None
            return image.number, encode_checkpoint(image), encode_latest(image.log_id, image.number)

        encoded = self._log.read(encode)
        if encoded is None:
            return entries
        number, checkpoint, latest = encoded
        self._ports.store.put(checkpoint_path(number), checkpoint)
        self._ports.store.put(LATEST_CHECKPOINT, latest)
        self._checkpoint_number = report.checkpoint_number = number
        old = sorted({number, *(each for each in listed if each < number)})[:-KEPT_CHECKPOINT_COUNT]
        self._ports.store.delete([checkpoint_path(each) for each in old])
        return None

    # -- garbage --

    def _remove_garbage(
        self, report: LogMaintenanceReport, grace_ms: int, checkpoints: Sequence[ObjectEntry] | None
    ) -> None:
        """`checkpoints` if they were just listed."""
        now_ms = self._ports.clock.now_ms()
        number = self._log.read(lambda image: image.number)
        store_now_ms = self._store_now_ms(number, checkpoints)
        horizon_ms = garbage_horizon_ms(now_ms=now_ms, store_now_ms=store_now_ms, grace_ms=grace_ms)
        self._ports.store.remove_abandoned(horizon_ms)
        listed = list(self._begun_before(horizon_ms))
        candidates = self._log.read(
            lambda image: [one for one in listed if _may_be_garbage(image, one.path, horizon_ms)]
        )
        if not candidates:
            return
        self._log.commit(
            lambda image: (
                Proposal(changes=(AdvanceHorizon(horizon_ms=horizon_ms),)) if image.horizon_ms < horizon_ms else None
            )
        )
        garbage = self._log.read(lambda image: list(garbage_of(image, candidates)))
        sizes = {entry.path: entry.size_bytes for entry in candidates}
        for start in range(0, len(garbage), DELETED_AT_ONCE):
            paths = garbage[start : start + DELETED_AT_ONCE]
            self._ports.store.delete(paths)
            report.removed_object_count += len(paths)
            report.removed_bytes += sum(sizes[path] for path in paths)

    def _begun_before(self, horizon_ms: int) -> Iterator[ObjectEntry]:
        """Data objects, ordered by time."""
        for entry in self._ports.store.list_after(DATA_PREFIX):
            begun_ms = begun_ms_of(entry.path)
            if begun_ms is None:
                continue  # another program's object
            if begun_ms >= horizon_ms:
                return
            yield entry

    def _store_now_ms(self, number: int, checkpoints: Sequence[ObjectEntry] | None) -> int | None:
        """When the newest commit or checkpoint was written, by the store's clock."""
        commits = self._ports.store.list_after(COMMIT_PREFIX, commit_path(max(0, number - 1)))
        if checkpoints is None:
            checkpoints = list(islice(self._ports.store.list_after(CHECKPOINT_PREFIX), DELETED_AT_ONCE))
        entries = [*islice(commits, DELETED_AT_ONCE), *checkpoints]
        return max((entry.modified_ms for entry in entries), default=None)


def _first_job(
    jobs_of: Callable[[LogImage], Iterator[RewriteJob]],
    topics: frozenset[str] | None,
    failed: set[TopicPartition],
    image: LogImage,
) -> RewriteJob | None:
    return next(
        (
            job
            for job in jobs_of(image)
            if (topics is None or job.topic in topics) and TopicPartition(job.topic, job.partition) not in failed
        ),
        None,
    )


def _may_be_garbage(image: LogImage, path: str, horizon_ms: int) -> bool:
    """Whether the object is unreferenced, and was not dropped since the horizon."""
    dropped_ms = image.dropped.get(path)
    return path not in image.references and (dropped_ms is None or dropped_ms < horizon_ms)
