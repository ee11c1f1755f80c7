"""The log of a metadata quorum's replica as files, and the snapshots beside it: the folder `__cluster_metadata-0`.

    00000000000000000258.log                     segments, each a run of whole batches
    00000000000000000274-0000000003.checkpoint   snapshots
    leader-epoch-checkpoint, partition.metadata, quorum-state

A snapshot counts from the rename of its file on. When a log is opened that does not reach the end of its newest
snapshot, or has other records there, it starts again at that end: so a crash while a snapshot is put in place leaves
the state before it or after it. A torn batch at the end is cut off.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection
from contextlib import closing
from typing import Final

from broker_core.log.leader_epochs import LeaderEpochs
from broker_core.ports import File, FileSystem
from broker_core.raft.quorum_files import (
    PART,
    QUORUM_STATE_FILE_NAME,
    decode_quorum_state,
    encode_quorum_state,
    parse_snapshot_name,
    snapshot_name,
)
from broker_core.raft.quorum_messages import METADATA_TOPIC_ID
from broker_core.raft.quorum_values import ElectionState, LogReach, SnapshotId
from broker_core.record.batch_reader import scan_batches
from broker_core.storage.checkpoints import (
    LEADER_EPOCH_FILE_NAME,
    read_small_file,
    write_atomically,
    write_partition_metadata,
)
from broker_core.storage.segment_names import LOG, SegmentFileName, parse_name, segment_path

SEGMENT_BYTES: Final = 1024 * 1024 * 1024
"""Kafka's metadata.log.segment.bytes."""


class QuorumLog:
    """One owner at a time, one thread."""

    def __init__(self, fs: FileSystem, folder: str, *, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._fs = fs
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._files: dict[int, File] = {}
        self._sizes: dict[int, int] = {}
        self._segments: list[int] = []
        """Base offsets, ascending; the last segment is appended to."""
        self._bases, self._positions = array("q"), array("q")
        """Of each batch: its base offset, and its position in its segment. 16 bytes a batch."""
        self._unsynced: set[int] = set()
        self._epochs = LeaderEpochs()
        self.start_offset = self.end_offset = 0
        self.snapshot_id: SnapshotId | None = None
        self._part: File | None = None
        self._open()

    def reach(self) -> LogReach:
        """A value of its own."""
        start_epoch = 0 if self.snapshot_id is None else self.snapshot_id.epoch
        return LogReach(
            log_start_offset=self.start_offset,
            log_end_offset=self.end_offset,
            epochs=LeaderEpochs(self._epochs.entries),
            start_epoch=start_epoch,
        )

    def election(self) -> ElectionState:
        """As saved; epoch 0 without a leader if nothing was. Raises CorruptDataError."""
        data = read_small_file(self._fs, f"{self._folder}/{QUORUM_STATE_FILE_NAME}")
        return ElectionState() if data is None else decode_quorum_state(data)

    def save_election(self, election: ElectionState, *, static_voters: Collection[int] | None = None) -> None:
        """Durable when it returns. `static_voters`: see `encode_quorum_state`."""
        data = encode_quorum_state(election, static_voters=static_voters)
        write_atomically(self._fs, f"{self._folder}/{QUORUM_STATE_FILE_NAME}", data)

    def sync(self) -> None:
        """What was found when the log was opened is on the device, the name of `quorum-state` included. After a crash
        of the process alone it may be in the page cache only, and a voter must not lose what it tells others of."""
        for file in self._files.values():
            file.sync()
        self._fs.sync_directory(self._folder)
        self._unsynced.clear()

    def take_unsynced(self) -> tuple[File, ...]:
        """Files with appends that were not synced; the caller syncs them, also in another thread. Each is returned
        once."""
        files = tuple(self._files[segment] for segment in sorted(self._unsynced))
        self._unsynced.clear()
        return files

    def append(self, records: bytes, *, is_synced: bool) -> None:
        """Whole, valid batches that follow the log's end."""
        segment = self._segments[-1]
        if self._sizes[segment] and self._sizes[segment] + len(records) > self._segment_bytes:
            segment = self.end_offset
            self._add_segment(segment)
        self._files[segment].write_at(self._sizes[segment], records)
        if is_synced:
            self._files[segment].sync()
        else:
            self._unsynced.add(segment)
        entries = self._epochs.entries
        taken = self._take(records, segment)
        assert taken == len(records), f"{len(records) - taken} bytes do not follow the log's end {self.end_offset}"
        if self._epochs.entries != entries:
            self._write_epochs()

    def truncate(self, end_offset: int) -> None:
        """Removes every batch that reaches beyond the offset."""
        keep = bisect_left(self._bases, end_offset)
        if keep and self._next_of(keep - 1) > end_offset:
            keep -= 1
        if keep == len(self._bases):
            return
        base_offset, position = self._bases[keep], self._positions[keep]
        del self._bases[keep:], self._positions[keep:]
        self.end_offset = base_offset
        self._epochs.truncate_from_end(base_offset)
        while self._segments[-1] > base_offset or (self._segments[-1] == base_offset and len(self._segments) > 1):
            self._remove_segment(self._segments[-1])
        segment = self._segments[-1]
        if position or segment == base_offset:
            self._files[segment].truncate(position)
            self._files[segment].sync()
            self._sizes[segment] = position
        self._fs.sync_directory(self._folder)
        self._write_epochs()

    def read(self, from_offset: int, *, until_offset: int, max_bytes: int) -> bytes:
        """Whole batches from the one with `from_offset` on that end at or before `until_offset`; the first whatever
        its size."""
        found = bytearray()
        for number in range(max(bisect_right(self._bases, from_offset) - 1, 0), len(self._bases)):
            if self._next_of(number) > until_offset or (found and len(found) >= max_bytes):
                break
            found += self._read_batch(number)
        return bytes(found)

    def write_snapshot_chunk(self, snapshot_id: SnapshotId, position: int, chunk: bytes) -> None:
        """Position 0 starts the file again."""
        if position == 0 or self._part is None:
            self._close_part()
            self._part = self._fs.open(self._part_path(snapshot_id), writable=True, create=True)
            self._part.truncate(position)
        self._part.write_at(position, chunk)

    def read_part(self, snapshot_id: SnapshotId) -> bytes:
        """The snapshot that was fetched, before it is put in place."""
        return read_small_file(self._fs, self._part_path(snapshot_id)) or b""

    def read_snapshot(self) -> bytes:
        """The newest snapshot; nothing without one."""
        if self.snapshot_id is None:
            return b""
        return read_small_file(self._fs, f"{self._folder}/{snapshot_name(self.snapshot_id)}") or b""

    def read_snapshot_chunk(self, position: int, max_bytes: int) -> tuple[int, bytes]:
        """The size of the newest snapshot, and a piece of it: nothing outside of the file. Size 0: there is none."""
        if self.snapshot_id is None:
            return 0, b""
        try:
            file = self._fs.open(f"{self._folder}/{snapshot_name(self.snapshot_id)}", writable=False)
        except FileNotFoundError:
            return 0, b""
        with closing(file):
            size_bytes = file.size_bytes()
            is_inside = 0 <= position < size_bytes and max_bytes > 0
            return size_bytes, file.read_at(position, min(max_bytes, size_bytes - position)) if is_inside else b""

    def install_snapshot(self, snapshot_id: SnapshotId) -> None:
        """Puts the fetched snapshot in place of older ones; the log begins at its end, empty."""
        assert self._part is not None, "no snapshot was fetched"
        self._part.sync()
        self._close_part()
        self._put_in_place(snapshot_id)
        self._begin_at(snapshot_id.end_offset)

    def keep_snapshot(self, snapshot_id: SnapshotId, content: bytes) -> None:
        """A snapshot of this log's own committed records takes the place of older ones; durable when it returns.

        Segments that have nothing behind its end are removed, and a new one begins: so the next snapshot can remove
        the rest. Everything below the end is on the device.
        """
        self._close_part()
        part = self._fs.open(self._part_path(snapshot_id), writable=True, create=True)
        part.truncate(0)
        part.write_at(0, content)
        part.sync()
        part.close()
        self._put_in_place(snapshot_id)
        if self._sizes[self._segments[-1]]:
            self._add_segment(self.end_offset)
        older = self._segments[:-1]
        removed = [segment for segment in older if self._segment_end(segment) <= snapshot_id.end_offset]
        for segment in removed:
            # One after the other, the oldest first: a gap would make what is behind it unreadable.
            self._remove_segment(segment)
            self._fs.sync_directory(self._folder)
        if removed:
            self._begin_later(self._segments[0])

    def epoch_of(self, offset: int) -> int:
        """The epoch that wrote the record; that of the snapshot for one that is only there."""
        if self.snapshot_id is not None and offset < self.start_offset:
            return self.snapshot_id.epoch
        return self._epochs.epoch_of(offset)

    def close(self) -> None:
        self._close_part()
        for file in self._files.values():
            file.close()
        self._files = {}

    def _open(self) -> None:
        if not self._fs.exists(self._folder):
            self._fs.make_directory(self._folder)
            self._fs.sync_directory(self._folder.rpartition("/")[0])
            write_partition_metadata(self._fs, self._folder, METADATA_TOPIC_ID)
        names = self._fs.list_directory(self._folder)
        for name in names:
            if name.endswith(PART):
                self._fs.remove(f"{self._folder}/{name}")
        snapshots = [found for name in names if (found := parse_snapshot_name(name)) is not None]
        self.snapshot_id = max(snapshots, key=lambda found: (found.end_offset, found.epoch), default=None)
        segments = sorted(segment.base_offset for name in names if (segment := _segment(name)) is not None)
        self.start_offset = self.end_offset = segments[0] if segments else 0
        for base_offset in segments:
            self._load_segment(base_offset)
        if not segments:
            self._add_segment(0)
        if self.snapshot_id is not None and not self._continues(self.snapshot_id):
            self._begin_at(self.snapshot_id.end_offset)

    def _continues(self, snapshot_id: SnapshotId) -> bool:
        """Whether the log goes on from the snapshot, or has the records that are in it."""
        end_offset = snapshot_id.end_offset
        if not self.start_offset <= end_offset <= self.end_offset:
            return False
        return self.start_offset == end_offset or self._epochs.epoch_of(end_offset - 1) == snapshot_id.epoch

    def _load_segment(self, segment: int) -> None:
        if segment != self.end_offset:
            self._fs.remove(segment_path(self._folder, segment, LOG))  # behind a torn one
            return
        file = self._fs.open(segment_path(self._folder, segment, LOG), writable=True)
        content = file.read_at(0, file.size_bytes())
        self._files[segment], self._sizes[segment] = file, 0
        self._segments.append(segment)
        valid_bytes = self._take(content, segment)
        if valid_bytes < len(content):
            file.truncate(valid_bytes)

    def _take(self, content: bytes, segment: int) -> int:
        """Notes the whole, valid batches that follow the log's end; returns how many bytes they take."""
        scanned = scan_batches(content)
        taken = 0
        for row in range(len(scanned.table)):
            header = scanned.table.header(row)
            if header.base_offset != self.end_offset:
                break
            self._bases.append(header.base_offset)
            self._positions.append(self._sizes[segment] + taken)
            self._epochs.assign(header.partition_leader_epoch, header.base_offset)
            self.end_offset = header.next_offset
            taken += header.size_bytes
        self._sizes[segment] += taken
        return taken

    def _next_of(self, number: int) -> int:
        return self._bases[number + 1] if number + 1 < len(self._bases) else self.end_offset

    def _read_batch(self, number: int) -> bytes:
        position = self._positions[number]
        segment = self._segments[bisect_right(self._segments, self._bases[number]) - 1]
        is_last = number + 1 == len(self._bases) or self._positions[number + 1] == 0
        end = self._sizes[segment] if is_last else self._positions[number + 1]
        return self._files[segment].read_at(position, end - position)

    def _put_in_place(self, snapshot_id: SnapshotId) -> None:
        self._fs.rename(self._part_path(snapshot_id), f"{self._folder}/{snapshot_name(snapshot_id)}")
        self._fs.sync_directory(self._folder)
        self.snapshot_id = snapshot_id
        for name in self._fs.list_directory(self._folder):
            if parse_snapshot_name(name) not in (None, snapshot_id):
                self._fs.remove(f"{self._folder}/{name}")

    def _segment_end(self, segment: int) -> int:
        place = self._segments.index(segment) + 1
        return self._segments[place] if place < len(self._segments) else self.end_offset

    def _begin_later(self, offset: int) -> None:
        """The segments before it are gone."""
        count = bisect_left(self._bases, offset)
        del self._bases[:count], self._positions[:count]
        self.start_offset = offset
        self._epochs.truncate_from_start(offset)
        self._write_epochs()

    def _begin_at(self, offset: int) -> None:
        for segment in list(self._segments):
            self._remove_segment(segment)
        self._bases, self._positions, self._epochs = array("q"), array("q"), LeaderEpochs()
        self.start_offset = self.end_offset = offset
        self._add_segment(offset)
        self._write_epochs()

    def _add_segment(self, base_offset: int) -> None:
        file = self._fs.open(segment_path(self._folder, base_offset, LOG), writable=True, create=True)
        self._files[base_offset], self._sizes[base_offset] = file, 0
        self._segments.append(base_offset)
        self._fs.sync_directory(self._folder)

    def _remove_segment(self, segment: int) -> None:
        self._files.pop(segment).close()
        self._unsynced.discard(segment)
        self._sizes.pop(segment)
        self._segments.remove(segment)
        self._fs.remove(segment_path(self._folder, segment, LOG))

    def _write_epochs(self) -> None:
        write_atomically(self._fs, f"{self._folder}/{LEADER_EPOCH_FILE_NAME}", self._epochs.encode().encode())

    def _part_path(self, snapshot_id: SnapshotId) -> str:
        return f"{self._folder}/{snapshot_name(snapshot_id)}{PART}"

    def _close_part(self) -> None:
        if self._part is not None:
            self._part.close()
            self._part = None


def _segment(name: str) -> SegmentFileName | None:
    found = parse_name(name)
    return found if found is not None and found.kind == LOG and not found.suffix else None
