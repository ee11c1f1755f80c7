"""Shortens a log: deleting records, retention, truncation. Each runs under the partition's lock, after `refresh`.

Order: first the new bounds are published and synced, then files are removed. After a crash in between, files below the
log start are left; the next retention removes them.

The log start is also written to a checkpoint, for a folder that loses its bounds: before files are removed, or, on a
full disk, after that, because removing them must not need space.
"""

from __future__ import annotations

from itertools import pairwise

from broker_core.log.leader_epochs import LeaderEpochs
from broker_core.log.partition_log import TruncatePlan
from broker_core.log.retention import plan_retention
from broker_core.log.segment_table import Segment
from broker_core.model.exceptions import DiskFullError
from broker_core.storage.append_group import roll_segment
from broker_core.storage.checkpoints import (
    LEADER_EPOCH_FILE_NAME,
    LOG_START_OFFSET_FILE_NAME,
    write_atomically,
    write_offset_checkpoint,
)
from broker_core.storage.partition_writer import PartitionWriter
from broker_core.storage.segment_files import SegmentFiles
from broker_core.storage.segment_indexes import SegmentExtent
from broker_core.storage.segment_leftovers import delete_segments
from broker_core.storage.segment_names import LOG, segment_path
from broker_core.storage.storage_errors import NO_SPACE, translated


def delete_records(writer: PartitionWriter, before_offset: int) -> int:
    """Moves the log start offset up to `before_offset`, -1 for the log end. Returns the log start offset.

    Raises OffsetOutOfRangeError above the high watermark, and below -1.
    """
    log = writer.log
    offset = log.high_watermark if before_offset == -1 else before_offset
    with translated("deleting records", writer.directory), writer.changing():
        if log.advance_log_start_offset(offset):
            _put_log_start(writer, _below_log_start(list(log.segments), log.log_start_offset))
        return log.log_start_offset


def apply_retention(writer: PartitionWriter, now_ms: int, *, pinned_offset: int | None = None) -> int:
    """Drops segments by retention.ms, retention.bytes and the log start. Returns their number."""
    log = writer.log
    plan = plan_retention(
        log.segments,
        config=writer.config,
        now_ms=now_ms,
        log_start_offset=log.log_start_offset,
        high_watermark=log.high_watermark,
        pinned_offset=pinned_offset,
    )
    if plan is None:
        return 0
    removed = plan.removed
    if plan.must_roll:
        # A new segment needs space, which the closed ones give on a full disk.
        *closed, active = removed
        _drop_oldest(writer, tuple(closed), active)
        _roll_expired(writer, now_ms)
        removed = (active,)
    _drop_oldest(writer, removed, plan.log_start_offset)
    return len(plan.removed)


def _roll_expired(writer: PartitionWriter, now_ms: int) -> None:
    """Begins a new segment after an active one that is removed next. On a full disk its indexes give the space: without
    them it is read more slowly, but not otherwise, and after a crash they are written again."""
    try:
        roll_segment(writer, now_ms)
    except DiskFullError:
        with translated("applying retention", writer.directory), writer.loaded().changing():
            writer.appender.clear_lookup_indexes()
        roll_segment(writer, now_ms)


def _drop_oldest(writer: PartitionWriter, removed: tuple[int, ...], log_start_offset: int) -> None:
    if removed:
        with translated("applying retention", writer.directory), writer.changing():
            writer.log.advance_log_start_offset(log_start_offset)
            _put_log_start(writer, removed)


def truncate_to(writer: PartitionWriter, offset: int) -> None:
    """Removes every batch that reaches `offset` or begins after it."""
    plan = writer.log.plan_truncate(offset)
    if plan is None:
        return
    with translated("truncating", writer.directory), writer.changing():
        position, end_offset = _cut_point(writer, plan)
        active_base_offset = offset if plan.cut_base_offset is None else plan.cut_base_offset
        if writer.log.log_start_offset > end_offset:
            _write_log_start(writer, end_offset)
        writer.publish_cut(log_end_offset=end_offset, active_base_offset=active_base_offset, active_size_bytes=position)
        delete_segments(writer.fs, writer.directory, plan.removed)
        if plan.cut_base_offset is not None:
            file = writer.fs.open(segment_path(writer.directory, plan.cut_base_offset, LOG), writable=True)
            try:
                file.truncate(position)
                file.sync()
            finally:
                file.close()
        _forget_epochs_from(writer, end_offset)
        writer.forget()
        writer.refresh()


def _forget_epochs_from(writer: PartitionWriter, end_offset: int) -> None:
    """An epoch of removed records would, after a restart, be told to a leader that never had it."""
    epochs = LeaderEpochs(writer.log.leader_epochs.entries)
    if epochs.truncate_from_end(end_offset):
        write_atomically(writer.fs, f"{writer.directory}/{LEADER_EPOCH_FILE_NAME}", epochs.encode().encode())


def _put_log_start(writer: PartitionWriter, removed: tuple[int, ...]) -> None:
    """Makes the machine's log start known to all, and removes these segments below it.

    On a full disk the checkpoint waits for the space of the segments. It is never needed for a log start where a
    segment begins: the names of the files say it too.
    """
    log = writer.log
    try:
        _write_log_start(writer, log.log_start_offset)
        is_written = True
    except OSError as error:
        if error.errno not in NO_SPACE or not removed:
            raise
        is_written = False
    writer.publish(is_synced=writer.is_synced, is_new_generation=True)
    writer.drop_segments(removed)
    if not is_written and log.log_start_offset not in (segment.base_offset for segment in log.segments):
        _write_log_start(writer, log.log_start_offset)


def _write_log_start(writer: PartitionWriter, log_start_offset: int) -> None:
    path = f"{writer.directory}/{LOG_START_OFFSET_FILE_NAME}"
    write_offset_checkpoint(writer.fs, path, {writer.topic_partition: log_start_offset})


def _below_log_start(segments: list[Segment], log_start_offset: int) -> tuple[int, ...]:
    return tuple(
        segment.base_offset for segment, following in pairwise(segments) if following.base_offset <= log_start_offset
    )


def _cut_point(writer: PartitionWriter, plan: TruncatePlan) -> tuple[int, int]:
    """(size in bytes of the segment that is cut, log end offset after it)."""
    if plan.cut_base_offset is None:
        return 0, plan.until_offset
    segment = writer.log.segments.floor(plan.cut_base_offset)
    assert segment is not None, f"{writer.topic_partition}: no segment at {plan.cut_base_offset}"
    files = SegmentFiles(
        writer.fs,
        writer.directory,
        plan.cut_base_offset,
        index_interval_bytes=writer.config.index_interval_bytes,
    )
    try:
        extent = SegmentExtent(end_position=segment.size_bytes, next_offset=segment.next_offset)
        position, end_offset = 0, plan.cut_base_offset
        for at, header in files.walk(extent):
            if header.last_offset >= plan.until_offset:
                break
            position, end_offset = at + header.size_bytes, header.next_offset
        return position, end_offset
    finally:
        files.close()
