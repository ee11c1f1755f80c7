"""Appends batches at given offsets, gaps included, to a log on object storage: one object and one commit a call.

The ranges of a partition adjoin, as maintenance needs it to merge them: each includes the missing offsets behind its
batches, the first one those before them too. A change of its own skips offsets below the log start, and those of a
partition without any batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from uuid import UUID

from broker_core.model.identifiers import TopicPartition
from broker_core.object_cluster.log_ports import LogPorts
from broker_core.object_cluster.object_lookups import partition_of
from broker_core.object_cluster.shared_log import Proposal, SharedLog
from broker_core.object_cluster.staged_upload import MAX_RANGE_BYTES
from broker_core.object_log.append_plan import AlreadyCommitted, plan_append
from broker_core.object_log.commit import Change, MoveLogStart, SkipOffsets
from broker_core.object_log.data_range import AppendedRange, DataRange, PlacedRange
from broker_core.object_log.log_image import LogImage
from broker_core.object_log.object_names import data_path
from broker_core.object_log.range_filter import MIN_FILTERED_UPLOAD_BYTES, build_range_filter
from broker_core.object_log.stored_batches import seal_placed
from broker_core.placed_writes import PlacedAppend
from broker_core.record.batch_reader import iter_headers


class PlacedAppends:
    """Thread-safe."""

    def __init__(self, ports: LogPorts, log: SharedLog) -> None:
        self._ports = ports
        self._log = log

    def append(self, appends: Sequence[PlacedAppend]) -> None:
        """As `PlacedWrites.append_placed`."""
        groups = [_Group(partition, tuple(group)) for partition, group in groupby(appends, lambda one: one.partition)]
        placed = self._upload(groups)

        def plan(image: LogImage) -> Proposal | None:
            changes: list[Change] = []
            starts: list[Change] = []
            ranges: list[AppendedRange] = []
            for group, group_ranges in zip(groups, placed, strict=True):
                topic_id, found = partition_of(image, group.partition)
                group.first.require_log_end(found.log_end_offset)
                changes += group.skips(topic_id, group_ranges)
                ranges += [AppendedRange(topic_id, group.partition.partition, one.data) for one in group_ranges]
                starts += group.log_starts(topic_id, found.log_start_offset)
            appended = plan_append(image, ranges)
            assert not isinstance(appended, AlreadyCommitted), "an object of this call was committed before it"
            changes += [*appended, *starts]
            return Proposal(changes=changes) if changes else None

        self._log.commit(plan)

    def _upload(self, groups: Sequence[_Group]) -> list[list[PlacedRange]]:
        """Writes one object with all batches. Returns the ranges of each group."""
        path = data_path(self._ports.clock.now_ms(), self._ports.entropy.random_bytes(16))
        pieces = [group.pieces() for group in groups]
        if not any(pieces):
            return [[] for _ in groups]
        upload = self._ports.store.upload(path)
        try:
            position = 0
            placed: list[list[PlacedRange]] = []
            for group, group_pieces in zip(groups, pieces, strict=True):
                ranges: list[PlacedRange] = []
                for base_offset, piece in group_pieces:
                    sealed = seal_placed(piece, base_offset=base_offset)
                    upload.write(piece)
                    key_filter = build_range_filter(piece, least_bytes=MIN_FILTERED_UPLOAD_BYTES)
                    if key_filter:
                        upload.write(key_filter)
                    data = DataRange(path, position, piece.nbytes, *sealed, filter_bytes=len(key_filter))
                    ranges.append(PlacedRange(base_offset, data))
                    position += piece.nbytes + len(key_filter)
                placed.append(group.extended(ranges))
            upload.finish()
        except BaseException:
            upload.abort()
            raise
        return placed


class _Group:
    """The appends of one partition, in order."""

    def __init__(self, partition: TopicPartition, appends: tuple[PlacedAppend, ...]) -> None:
        self.partition = partition
        self.first = appends[0]
        self._appends = appends
        self._from_offset = appends[0].from_offset
        self._until_offset = appends[-1].until_offset

    def pieces(self) -> list[tuple[int, memoryview]]:
        """(base offset, whole batches) of at most MAX_RANGE_BYTES, or one batch above it. The first one's base offset
        is where the partition ends before it."""
        found: list[tuple[int, memoryview]] = []
        for one in self._appends:
            view = memoryview(one.batches)
            start, base_offset, end = 0, -1, 0
            for position, header in iter_headers(view):
                if position > start and position + header.size_bytes - start > MAX_RANGE_BYTES:
                    found.append((base_offset, view[start:position]))
                    start = position
                base_offset = header.base_offset if position == start else base_offset
                end = position + header.size_bytes
            if end > start:
                found.append((base_offset, view[start:end]))
        if found:
            first_offset, piece = found[0]
            found[0] = (max(self._from_offset, min(first_offset, self._log_start_offset())), piece)
        return found

    def extended(self, ranges: Sequence[PlacedRange]) -> list[PlacedRange]:
        ends = [one.base_offset for one in ranges[1:]] + [self._until_offset]
        return [
            PlacedRange(one.base_offset, one.data._replace(offset_count=end - one.base_offset))
            for one, end in zip(ranges, ends, strict=False)
        ]

    def skips(self, topic_id: UUID, ranges: Sequence[PlacedRange]) -> list[Change]:
        first_offset = ranges[0].base_offset if ranges else self._until_offset
        if first_offset == self._from_offset:
            return []
        return [
            SkipOffsets(
                topic_id=topic_id,
                partition=self.partition.partition,
                from_offset=self._from_offset,
                until_offset=first_offset,
            )
        ]

    def log_starts(self, topic_id: UUID, log_start_offset: int) -> list[Change]:
        wanted = self._log_start_offset()
        if wanted <= log_start_offset:
            return []
        return [MoveLogStart(topic_id=topic_id, partition=self.partition.partition, offset=wanted)]

    def _log_start_offset(self) -> int:
        return max((one.log_start_offset or 0 for one in self._appends), default=0)
