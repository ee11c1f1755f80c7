"""Producer state and transaction index of a part of the log, from the newest usable snapshot and batch headers.

A snapshot `<offset>.snapshot` holds the producers before that offset. If it is broken or missing, the replay takes
longer, from the snapshot before or from the log's first batch; nothing is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from broker_core.log.producer_snapshot import decode_snapshot
from broker_core.log.producer_state import ProducerState
from broker_core.log.transaction_index import AbortedTransactionEntry, encode_transaction_entry
from broker_core.model.exceptions import CorruptDataError
from broker_core.model.limits import MAX_OFFSET
from broker_core.ports import File, FileSystem
from broker_core.record.batch_header import BatchHeader
from broker_core.storage.batch_walk import marker_at, walk_headers
from broker_core.storage.checkpoints import read_small_file
from broker_core.storage.segment_names import LOG, SNAPSHOT, segment_path


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentPart:
    """One segment's bytes [0, end_position) to replay; None: the whole file. `end_offset`: the end of its last batch,
    if known. See `partition_bounds` for `dense_from`."""

    base_offset: int
    end_position: int | None
    dense_from: int = MAX_OFFSET
    end_offset: int | None = None


def producers_before(
    fs: FileSystem, directory: str, name: str, offset: int, *, snapshots: Sequence[int], parts: Sequence[SegmentPart]
) -> ProducerState:
    """Producer state right before the segment that begins at `offset`. `parts`: all segments below it, in order."""
    producers = _newest_snapshot(fs, directory, name, [s for s in snapshots if s <= offset])
    first = _first_part(parts, producers.end_offset)
    for part in parts[first:] if producers.end_offset < offset else ():
        file = fs.open(segment_path(directory, part.base_offset, LOG), writable=False)
        try:
            replay_segment(file, part, producers, min_offset=producers.end_offset)
        finally:
            file.close()
    producers.on_high_watermark(offset)
    return producers


def replay_segment(
    file: File,
    part: SegmentPart,
    producers: ProducerState,
    *,
    min_offset: int = 0,
    on_batch: Callable[[BatchHeader], None] | None = None,
) -> bytearray:
    """Replays the headers of a segment from `min_offset` on. Returns the bytes of its transaction index."""
    entries = bytearray()
    end_position = file.size_bytes() if part.end_position is None else part.end_position
    walk = walk_headers(
        file,
        position=0,
        until_position=end_position,
        min_offset=part.base_offset,
        dense_from=part.dense_from,
        end_offset=part.end_offset,
    )
    for position, header in walk:
        if on_batch is not None:
            on_batch(header)
        if header.base_offset < min_offset:
            continue
        completed = producers.replay(header, marker=marker_at(file, position, header))
        if completed is not None and completed.is_aborted:
            entries += encode_transaction_entry(
                AbortedTransactionEntry(
                    producer_id=completed.producer_id,
                    first_offset=completed.first_offset,
                    last_offset=completed.last_offset,
                    last_stable_offset=completed.last_stable_offset,
                )
            )
    return entries


def _newest_snapshot(fs: FileSystem, directory: str, name: str, snapshots: Sequence[int]) -> ProducerState:
    for offset in sorted(snapshots, reverse=True):
        data = read_small_file(fs, segment_path(directory, offset, SNAPSHOT))
        if data is None:
            continue
        try:
            return ProducerState(name, decode_snapshot(data), end_offset=offset)
        except CorruptDataError:
            continue
    return ProducerState(name)


def _first_part(parts: Sequence[SegmentPart], offset: int) -> int:
    """Index of the part that holds `offset`."""
    below = sum(1 for part in parts if part.base_offset <= offset)
    return max(below - 1, 0)
