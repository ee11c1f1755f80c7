"""Bugs that the simulation must find: each puts a mistake that somebody could make into the real code, by a patch.

with planted("merge_forgets"):
    run_seed(7)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from unittest.mock import patch

from broker_core.model.exceptions import ObjectOutcomeUnknownError, ObjectPreconditionError
from broker_core.object_cluster import (
    batch_fetcher,
    commit_tail,
    group_store,
    log_maintenance,
    range_rewriter,
    shared_log,
    staged_commits,
)
from broker_core.object_cluster.staged_upload import DataUpload
from broker_core.object_log import maintenance_plan, pin_plan
from broker_core.object_log.append_plan import AlreadyCommitted, plan_append
from broker_core.object_log.checkpoint_codec import encode_checkpoint
from broker_core.object_log.commit import AppendRanges
from broker_core.object_log.log_image import LogImage
from broker_core.object_log.maintenance_plan import plan_replacement
from broker_core.object_log.object_names import COMMIT_PREFIX, commit_path, number_of
from broker_core.object_log.partition_image import input_digest
from broker_core.object_log.stored_batches import place
from broker_core.record.batch_reader import iter_headers

_PUT = shared_log.SharedLog._put
_IS_OURS = shared_log.SharedLog._is_ours_after_all
_FINISH = DataUpload.finish
_REMEMBER = staged_commits.StagedCommits._remember


def _lost_answer_is_put_again():
    """An answer that did not come is taken for a refusal, and all of it is committed again under the next number."""

    def put(self, commit, attempt):
        try:
            self._ports.store.put_if_absent(commit_path(commit.number), shared_log.encode_commit(commit))
        except (ObjectPreconditionError, ObjectOutcomeUnknownError):
            attempt.writer = self._ports.entropy.random_bytes(16).hex()
            with self._lock:
                self._fold_tail(self._loaded())
            return False
        with self._lock:
            self._fold_tail(self._loaded())
        return True

    yield patch.object(shared_log.SharedLog, "_put", put)
    yield from _nothing_is_known_of_uploads()


def _nothing_is_known_of_uploads():
    """For bugs that would else be found out by the rule that an object enters the log once."""
    yield patch.object(LogImage, "may_enter", lambda self, name: True)
    yield patch.object(
        staged_commits, "plan_append", lambda image, ranges, app=None: (AppendRanges(ranges=tuple(ranges)),)
    )


def _version_is_not_looked_at():
    """Every writer commits, whatever version was committed before."""

    def plan(image, ranges, app=None):
        found = plan_append(image, ranges)
        return found if isinstance(found, AlreadyCommitted) else (AppendRanges(ranges=tuple(ranges)),)

    yield patch.object(staged_commits, "plan_append", plan)
    yield patch.object(LogImage, "_set_app", lambda self, app: self._apps.update({app.app_id: app}))


def _merge_forgets():
    """A merge takes the place of all that is there when it is committed, also of what was appended meanwhile."""

    def plan(image, job, outputs, *, clean_until=None):
        changes = plan_replacement(image, job, outputs, clean_until=clean_until)
        if changes is None or not outputs:
            return changes
        partition = image.partition(job.topic_id, job.partition)
        first, _ = partition.rows_between(job.from_offset, job.until_offset)
        rows = [partition.ranges[row] for row in range(first, len(partition.ranges))]
        until = rows[-1].end_offset
        last = outputs[-1]
        stretched = last._replace(data=last.data._replace(offset_count=until - last.base_offset))
        return (
            replace(
                changes[0],
                until_offset=until,
                input_digest=input_digest(rows),
                outputs=(*outputs[:-1], stretched),
            ),
        )

    yield patch.object(log_maintenance, "plan_replacement", plan)


def _garbage_without_horizon():
    """Old unreferenced objects are removed, although a writer may be about to commit them."""

    def remove(self, report, grace_ms, checkpoints):
        horizon_ms = self._ports.clock.now_ms() - grace_ms
        image = self._log.read(lambda image: image)
        self._ports.store.delete(
            [entry.path for entry in self._begun_before(horizon_ms) if entry.path not in image.references]
        )

    yield patch.object(log_maintenance.LogMaintenance, "_remove_garbage", remove)


def _checkpoint_off_by_one():
    """A checkpoint says that it holds one commit more than it does."""

    def encode(image):
        image.number += 1
        try:
            return encode_checkpoint(image)
        finally:
            image.number -= 1

    yield patch.object(log_maintenance, "encode_checkpoint", encode)
    yield patch.object(log_maintenance, "checkpoint_path", lambda number: f"checkpoints/{number + 1:020d}")
    real = log_maintenance.encode_latest
    yield patch.object(log_maintenance, "encode_latest", lambda log_id, number: real(log_id, number + 1))


def _image_by_listing_order():
    """Commits are folded as a listing gives them, by the time when they were written, whatever their numbers."""

    def fold_tail(self, image, window=1):
        listed = list(self._ports.store.list_after(COMMIT_PREFIX, commit_path(image.number)))
        for entry in sorted(listed, key=lambda entry: (entry.modified_ms, -(number_of(entry.path) or 0))):
            commit = commit_tail.decode_commit(
                self._ports.store.get(entry.path).data, log_id=image.log_id, number=number_of(entry.path)
            )
            self._fold(image, replace(commit, number=image.number + 1))

    yield patch.object(shared_log.SharedLog, "_fold_tail", fold_tail)


def _retention_under_a_pin():
    """Retention does not ask who still needs the records."""
    yield patch.object(LogImage, "pinned_offset", lambda self, topic_id, partition, now_ms: None)


def _pins_stay_in_the_group():
    """A pin is written into the group's object and not into the log, where retention would race it."""
    yield patch.object(group_store, "plan_pins", lambda *arguments, **named: None)


def _a_pin_replaces_others():
    """Who pins knows the group as it was some time ago, and puts its own pin in the place of a newer one."""
    yield patch.object(
        pin_plan, "_held", lambda pin, offset, until_ms, now_ms, own_offset: (max(offset, own_offset or 0), until_ms)
    )


def _base_offset_patched_twice():
    """Batches that were placed already are placed again when ranges are joined."""

    def placed(self, read, data):
        for _ in range(2):
            place(data, base_offset=read.base_offset, offset_count=read.offset_count, file="", file_position=0)
        return data

    yield patch.object(batch_fetcher.BatchFetcher, "_placed", placed)


def _stale_image_used_for_a_plan():
    """A writer that lost the race takes the next free number, and what it planned before."""

    def put(self, commit, attempt):
        for number in range(commit.number, commit.number + 100):
            try:
                self._ports.store.put_if_absent(
                    commit_path(number), shared_log.encode_commit(replace(commit, number=number))
                )
            except ObjectPreconditionError:
                continue
            return True
        return False

    yield patch.object(shared_log.SharedLog, "_put", put)


def _group_overwritten():
    """A group's object is replaced without the condition that it is still the one that was read."""

    def change(self, group_id, asked):
        path = group_store.group_path(group_id)
        known, _ = self._get(path, group_id)
        writer = self._ports.entropy.random_bytes(16).hex()
        stored = group_store.GroupObject(group_id=group_id, writer=writer, offsets={**known.offsets, **(asked or {})})
        self._ports.store.put(path, group_store.encode_group(stored))

    yield patch.object(group_store.GroupStore, "_change", change)


def _success_without_an_answer():
    """An answer that did not come is taken for a success."""

    def put(self, commit, attempt):
        try:
            return _PUT(self, commit, attempt)
        except ObjectOutcomeUnknownError:
            return True

    def is_ours(self, commit, attempt):
        return attempt.last_error is not None or _IS_OURS(self, commit, attempt)

    yield patch.object(shared_log.SharedLog, "_put", put)
    yield patch.object(shared_log.SharedLog, "_is_ours_after_all", is_ours)


def _own_success_is_a_loss():
    """A commit that is there already is taken for somebody else's, though it is the one whose answer was lost."""

    def fold(self, image, commit):
        image.apply(commit)

    yield patch.object(shared_log.SharedLog, "_fold", fold)
    yield from _nothing_is_known_of_uploads()


def _commit_before_the_upload():
    """A task tells its ranges before the store has its object."""

    def finish(self):
        self._drain()
        self._upload = None
        return _FINISH(self)

    yield patch.object(DataUpload, "finish", finish)


def _merges_what_is_gone():
    """A merge is committed though one of its inputs was taken by retention or another merge meanwhile."""

    def plan(image, job, outputs, *, clean_until=None):
        partition = image.partition(job.topic_id, job.partition)
        first, last = partition.rows_between(job.from_offset, job.until_offset)
        rows = [partition.ranges[row] for row in range(first, last)]
        if not rows or not outputs:
            return None
        begin = rows[0].base_offset
        kept = [one for one in outputs if one.base_offset >= begin]
        if not kept:
            return None
        return (
            maintenance_plan.ReplaceRanges(
                topic_id=job.topic_id,
                partition=job.partition,
                from_offset=begin,
                until_offset=rows[-1].end_offset,
                input_digest=input_digest(rows),
                outputs=tuple(outputs),
                clean_until=clean_until,
            ),
        )

    yield patch.object(log_maintenance, "plan_replacement", plan)


def _plan_forgets_versions():
    """A commit by a plan does not know which versions were committed before it."""
    real = staged_commits.outline_of

    def outline(plan, ranges, app):
        return real(replace(plan, apps=()), ranges, app)

    yield patch.object(staged_commits, "outline_of", outline)


def _own_objects_are_forgotten():
    """A process that repeats its own commit begins behind it, and does not remember what it has committed."""

    def remember(self, known, app, writer, objects):
        _REMEMBER(self, known, app, writer, set())

    yield patch.object(staged_commits.StagedCommits, "_remember", remember)


def _filter_misses_batches():
    """The key filter of a rewritten range knows the keys of its first batch only."""
    real = range_rewriter.build_range_filter

    def build(batches, *, least_bytes):
        first = next(header.size_bytes for _, header in iter_headers(batches))
        return real(batches[:first], least_bytes=least_bytes)

    yield patch.object(range_rewriter, "build_range_filter", build)


def _plan_keeps_the_old_writer():
    """What a process remembers behind its own commit names the commit before it as the last one."""
    real = staged_commits.after_commit
    yield patch.object(staged_commits, "after_commit", lambda plan, app, writer: real(plan, app, plan.last_writer))


BUGS: dict[str, Callable[[], Iterator]] = {
    "lost_answer_is_put_again": _lost_answer_is_put_again,
    "own_success_is_a_loss": _own_success_is_a_loss,
    "success_without_an_answer": _success_without_an_answer,
    "version_is_not_looked_at": _version_is_not_looked_at,
    "stale_image_used_for_a_plan": _stale_image_used_for_a_plan,
    "merge_forgets": _merge_forgets,
    "merges_what_is_gone": _merges_what_is_gone,
    "garbage_without_horizon": _garbage_without_horizon,
    "checkpoint_off_by_one": _checkpoint_off_by_one,
    "image_by_listing_order": _image_by_listing_order,
    "retention_under_a_pin": _retention_under_a_pin,
    "pins_stay_in_the_group": _pins_stay_in_the_group,
    "a_pin_replaces_others": _a_pin_replaces_others,
    "base_offset_patched_twice": _base_offset_patched_twice,
    "plan_forgets_versions": _plan_forgets_versions,
    "own_objects_are_forgotten": _own_objects_are_forgotten,
    "plan_keeps_the_old_writer": _plan_keeps_the_old_writer,
    "filter_misses_batches": _filter_misses_batches,
    "group_overwritten": _group_overwritten,
    "commit_before_the_upload": _commit_before_the_upload,
}
"""By name; the docstring of each says what is wrong."""


@contextmanager
def planted(name: str | None) -> Iterator[None]:
    with ExitStack() as stack:
        for one in () if name is None else BUGS[name]():
            stack.enter_context(one)
        yield
