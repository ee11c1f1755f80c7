"""Appends that become durable and visible together: each is checked on its own, then one sync and one publish for all.

    append 1   plan, write        a refused one (bad records, a sequence out of order) fails alone and writes nothing;
    append 2   refused            the next one is checked against the log without it
    append 3   plan, roll, write  a new segment may begin anywhere
               fdatasync          one, of the last active segment: a roll syncs the segments that it closes
               publish            readers see all of them, or none

If the disk fails at any step, everything since the first write is undone and the writer drops its cache: the next
append reads the folder again. If the process dies, the next writer keeps the whole batches after the published end.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from broker_core.cluster import AppendResult
from broker_core.log.append_plan import AppendPlan
from broker_core.log.append_request import AppendRequest
from broker_core.log.leader_epochs import LeaderEpochs
from broker_core.log.partition_log import RollPlan
from broker_core.log.producer_snapshot import encode_snapshot
from broker_core.log.producer_state import ProducerState
from broker_core.log.sparse_index import TimestampOffset
from broker_core.model.exceptions import StorageError, StreamlogError
from broker_core.storage.checkpoints import LEADER_EPOCH_FILE_NAME, write_atomically
from broker_core.storage.partition_writer import PartitionWriter
from broker_core.storage.segment_appender import SegmentAppender
from broker_core.storage.segment_leftovers import delete_segments
from broker_core.storage.segment_names import SNAPSHOT, segment_path
from broker_core.storage.storage_errors import storage_error, translated

_DOING = "appending"


class AppendOutcome(NamedTuple):
    """The result of an append: its offsets, and whether a new segment began (time for maintenance).

    `producer_ids`: the producers whose state it changed.
    """

    result: AppendResult
    rolled: bool
    producer_ids: frozenset[int] = frozenset()

    @classmethod
    def of(cls, plan: AppendPlan) -> AppendOutcome:
        producer_ids = [header.producer_id for run in plan.runs for header in run.headers if header.producer_id >= 0]
        return cls(plan.result, plan.has_roll, frozenset(producer_ids))


class UnpublishedTail:
    """The bytes after the published end, and how to undo them. Created before the first write."""

    def __init__(self, writer: PartitionWriter) -> None:
        self._writer = writer
        self._before = writer.published
        self._first = writer.appender
        self._mark = self._first.mark(writer.log.feed.size_bytes)
        self._begun: list[int] = []
        self._opened: list[SegmentAppender] = []

    def write(self, plan: AppendPlan) -> None:
        """Writes the batches and index entries of one append and updates the log machine. Syncs nothing."""
        buffer = memoryview(plan.buffer)
        log = self._writer.log
        for slot, run in enumerate(plan.runs):
            if run.is_roll:
                if slot == 0:
                    log.producers.expire(plan.now_ms, producer_id_expiration_ms=log.config.producer_id_expiration_ms)
                    producers = log.producers
                else:
                    producers = _after_runs(log.producers, plan, slot, log.name)
                self.begin_segment(run.base_offset, run.closing_time_entry, producers)
            self.active.write(run, buffer)
        if plan.is_new_leader_epoch:
            self._write_leader_epochs(plan)
        log.on_appended(plan)

    def begin_segment(
        self, base_offset: int, closing_time_entry: TimestampOffset | None, producers: ProducerState
    ) -> None:
        """Closes the active segment and opens the next one. `producers`: their state at `base_offset`.

        The files of the next segment come first. If this process dies in between, they show other processes, which may
        have the old state of the log in their cache, that the closed segment's time index has one more entry.
        """
        fs, directory = self._writer.fs, self._writer.directory
        closed = self.active
        self._begun.append(base_offset)
        self._opened.append(SegmentAppender(fs, directory, base_offset, is_new=True))
        closed.finish(closing_time_entry)
        snapshot_path = segment_path(directory, base_offset, SNAPSHOT)
        write_atomically(fs, snapshot_path, encode_snapshot(producers.entries.values()))
        fs.sync_directory(directory)

    def publish(self, now_ms: int, *, is_synced: bool) -> None:
        """Publishes the tail to readers. `is_synced`: its active segment is on the device."""
        writer = self._writer
        if is_synced:
            writer.on_synced(now_ms)
        writer.use_appender(self.active)
        writer.publish(is_synced=is_synced, is_new_generation=bool(self._opened), is_growth=True)

    def release(self) -> None:
        """Call this after publishing: closes the segments that are no longer active."""
        for replaced in [self._first, *self._opened[:-1]] if self._opened else []:
            replaced.close()

    def rollback(self) -> None:
        """Undoes as much as the disk allows; the next refresh reads the folder and does the rest. The signs that make
        it do so are removed last: the first segment that begins at the published end, and the bytes after that end.

        What is published stays, since readers may have seen it: then only an interrupt can have come after it."""
        writer = self._writer
        for new in self._opened:
            new.close()
        if not writer.is_visible_after(self._before):
            with suppress(OSError, StorageError):
                self._first.cut_back_indexes(self._mark)
                delete_segments(writer.fs, writer.directory, reversed(self._begun))
                self._first.cut_back_log(self._mark)
        writer.use_appender(self._first)
        writer.forget()

    @property
    def active(self) -> SegmentAppender:
        return self._opened[-1] if self._opened else self._first

    def _write_leader_epochs(self, plan: AppendPlan) -> None:
        epochs = LeaderEpochs(self._writer.log.leader_epochs.entries)
        for run in plan.runs:
            for header in run.headers:
                if header.partition_leader_epoch > epochs.latest_epoch:
                    epochs.assign(header.partition_leader_epoch, header.base_offset)
        path = f"{self._writer.directory}/{LEADER_EPOCH_FILE_NAME}"
        write_atomically(self._writer.fs, path, epochs.encode().encode())


class PendingAppends:
    """Appends that are written after the published end and wait for the sync and the answer. The caller then calls
    `sync` if it `needs_sync`, in any thread, and `publish`; or `rollback`. Until then the writer may not be used
    otherwise."""

    def __init__(self, writer: PartitionWriter, *, now_ms: int, is_synced: bool) -> None:
        self.outcomes: list[AppendOutcome | StreamlogError] = []
        """The outcome of each append, in order."""
        self.needs_sync = False
        self._writer = writer
        self._now_ms = now_ms
        self._is_synced = is_synced
        self._tail: UnpublishedTail | None = None
        self._translated = translated(_DOING, writer.directory)

    def write(self, requests: Sequence[AppendRequest], *, may_roll: bool) -> None:
        """Checks and writes the appends in order. Without `may_roll`, stops before the first that begins a segment."""
        with self._translated:
            try:
                for request in requests:
                    if not self._write_one(request, may_roll=may_roll):
                        break
            except BaseException:
                self.rollback()
                raise
        if self._tail is not None and self._is_synced:
            self.needs_sync = self._writer.is_sync_due(self._now_ms)

    @property
    def descriptor(self) -> int | None:
        """The file descriptor of the file that `sync` syncs."""
        assert self._tail is not None, "nothing was written"
        return self._tail.active.descriptor

    def refusal_of(self, error: Exception) -> Exception:
        """The error that `sync` would have raised, for a caller that synced the file itself."""
        return storage_error(_DOING, self._writer.directory, error) if isinstance(error, OSError) else error

    def sync(self) -> None:
        assert self._tail is not None, "nothing was written"
        with self._translated:
            self._tail.active.sync()

    def publish(self) -> None:
        """Publishes the appends to readers. They must be synced, if that is needed."""
        if self._tail is None:
            return
        with self._translated:
            try:
                self._tail.publish(self._now_ms, is_synced=self.needs_sync)
            except BaseException:
                self.rollback()
                raise
            self._tail.release()

    def rollback(self) -> None:
        if self._tail is not None:
            self._tail.rollback()

    def _write_one(self, request: AppendRequest, *, may_roll: bool) -> bool:
        writer = self._writer
        as_it_came = None if may_roll else bytes(request.batches)
        try:
            request.require_no_claimed_offset(writer.log.name)
            plan = writer.log.plan_append(
                request.batches,
                now_ms=self._now_ms,
                leader_epoch=request.leader_epoch,
                origin=request.origin,
                header=request.header,
            )
        except StreamlogError as refusal:
            self.outcomes.append(refusal)
            return True
        if as_it_came is not None and (plan.has_roll or plan.is_new_leader_epoch):
            # It will be checked once more, and a plan has put offsets, times and a checksum in place.
            request.batches[:] = as_it_came
            return False
        if plan.runs:
            self._tail = self._tail or UnpublishedTail(writer)
            self._tail.write(plan)
        self.outcomes.append(AppendOutcome.of(plan))
        return True


def append_group(
    writer: PartitionWriter, requests: Sequence[AppendRequest], *, now_ms: int, is_synced: bool
) -> list[AppendOutcome | StreamlogError]:
    """Returns the outcome of each append, in order: its result or its error. Raises StorageError when the disk fails:
    then no part of any append is in the log."""
    pending = begin_append(writer, requests, now_ms=now_ms, is_synced=is_synced, may_roll=True)
    if pending.needs_sync:
        try:
            pending.sync()
        except BaseException:
            pending.rollback()
            raise
    pending.publish()
    return pending.outcomes


def begin_append(
    writer: PartitionWriter, requests: Sequence[AppendRequest], *, now_ms: int, is_synced: bool, may_roll: bool
) -> PendingAppends:
    """Does everything except sync and publish, for as many appends as there are outcomes. Raises StorageError when the
    disk fails: then no part of any append is in the log."""
    pending = PendingAppends(writer, now_ms=now_ms, is_synced=is_synced)
    pending.write(requests, may_roll=may_roll)
    return pending


def roll_segment(writer: PartitionWriter, now_ms: int) -> bool:
    """Closes the active segment and begins a new one; False when it is empty."""
    plan = writer.log.plan_roll()
    if plan is None:
        return False
    _begin_segment(writer, plan, now_ms)
    return True


def begin_segment_at(writer: PartitionWriter, base_offset: int, now_ms: int) -> None:
    """Begins a new, empty segment there: the log then ends at `base_offset`, which may be above its end now. The gap
    must be allowed already: see `PartitionWriter.publish_gaps`."""
    plan = writer.log.plan_roll()
    closing_time_entry = None if plan is None else plan.closing_time_entry
    _begin_segment(writer, RollPlan(base_offset=base_offset, closing_time_entry=closing_time_entry), now_ms)


def _begin_segment(writer: PartitionWriter, plan: RollPlan, now_ms: int) -> None:
    log = writer.log
    with translated("rolling", writer.directory):
        tail = UnpublishedTail(writer)
        try:
            log.producers.expire(now_ms, producer_id_expiration_ms=log.config.producer_id_expiration_ms)
            tail.begin_segment(plan.base_offset, plan.closing_time_entry, log.producers)
            log.on_rolled(plan.base_offset, now_ms=now_ms)
            writer.use_appender(tail.active)
            writer.publish(is_synced=True, is_new_generation=True, is_growth=True)
        except BaseException:
            tail.rollback()
            raise
        tail.release()


def _after_runs(producers: ProducerState, plan: AppendPlan, slot: int, name: str) -> ProducerState:
    """The producers after the first `slot` runs of an append that is not in the log yet."""
    ahead = ProducerState(name, producers.entries.values(), end_offset=producers.end_offset)
    for run in plan.runs[:slot]:
        for header, marker in zip(run.headers, run.markers, strict=True):
            ahead.replay(header, marker=marker)
    return ahead
