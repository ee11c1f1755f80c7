"""A reader's view of a partition: its bounds and segments at one instant.

The bounds come from `partition.bounds` if it exists. A folder without it (a real Kafka's, or ours after its loss) is
scanned once, as in recovery, and again when its last segment or its list of files changed; nothing is written.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker_core.log.segment_table import Segment
from broker_core.model.identifiers import TopicPartition
from broker_core.model.limits import MAX_OFFSET
from broker_core.model.topic_config import TopicConfig
from broker_core.ports import FileSystem
from broker_core.storage.partition_bounds import BoundsFile, PublishedBounds
from broker_core.storage.recovery import load_partition
from broker_core.storage.segment_names import LOG, FolderListing, segment_path


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentList:
    """The segments up to and including the active one. `generation`: that of the bounds at the time of the listing."""

    generation: int
    bases: tuple[int, ...]


class PublishedView:
    """Bounds and segment lists of one folder, cached while they cannot have changed."""

    def __init__(self, fs: FileSystem, directory: str, topic_partition: TopicPartition, config: TopicConfig) -> None:
        self._fs = fs
        self._directory = directory
        self._topic_partition = topic_partition
        self._config = config
        self._bounds_file: BoundsFile | None = None
        self._segments: SegmentList | None = None
        self._derived: PublishedBounds | None = None
        self._derived_from: tuple[tuple[str, ...], tuple[int, int]] | None = None
        self._known_closed: dict[int, Segment] = {}

    def bounds(self) -> PublishedBounds:
        """Reads the bounds again; the same object while they are unchanged. Raises CorruptBatchError when they must be
        derived by a scan and it finds damage."""
        if self._bounds_file is None:
            self._bounds_file = BoundsFile.open(self._fs, self._directory, writable=False)
        published = self._bounds_file.read() if self._bounds_file is not None else None
        return self._derive() if published is None else published

    def has_unpublished(self, published: PublishedBounds) -> bool:
        """Whether the folder holds more than was published. Then a writer is appending, or died, or the power failed
        before the newest bounds reached the device, although their data had reached it and was acknowledged."""
        listing = FolderListing.of(self._fs.list_directory(self._directory))
        self._segments = _listed(published, listing)
        if not listing.logs or listing.logs[-1] < published.active_base_offset:
            return False
        if listing.logs[-1] > published.active_base_offset:
            return True
        return self._state_of(published.active_base_offset)[0] > published.active_size_bytes

    def segments(self, published: PublishedBounds) -> SegmentList:
        """The segment list for these bounds."""
        if self._segments is None or self._segments.generation != published.generation:
            self._segments = _listed(published, FolderListing.of(self._fs.list_directory(self._directory)))
        return self._segments

    def forget(self) -> None:
        """Drops the list after a file did not match it: the next call lists again."""
        self._segments = None
        self._derived_from = None

    def close(self) -> None:
        if self._bounds_file is not None:
            self._bounds_file.close()
            self._bounds_file = None

    def _derive(self) -> PublishedBounds:
        names = tuple(self._fs.list_directory(self._directory))
        listing = FolderListing.of(names)
        last = self._state_of(listing.logs[-1]) if listing.logs else (0, 0)
        if self._derived is not None and self._derived_from == (names, last):
            return self._derived
        loaded = load_partition(
            self._fs,
            self._directory,
            self._topic_partition,
            config=self._config,
            published=None,
            known_closed=self._known_closed,
        )
        self._known_closed = dict(loaded.closed)
        log = loaded.log
        self._derived = PublishedBounds(
            generation=self._derived.generation + 1 if self._derived else 0,
            log_start_offset=log.log_start_offset,
            log_end_offset=log.log_end_offset,
            last_stable_offset=log.last_stable_offset,
            active_base_offset=loaded.active.base_offset,
            active_size_bytes=loaded.active.end_position,
            flushed_size_bytes=loaded.active.end_position,
            active_transaction_index_bytes=len(loaded.active.transaction_entries),
            # A real Kafka's compaction leaves gaps, and nothing in the folder shows how far it got.
            dense_from_offset=MAX_OFFSET,
        )
        self._derived_from = (names, last)
        return self._derived

    def _state_of(self, base_offset: int) -> tuple[int, int]:
        """Size and time, because with preallocate=true Kafka writes to a file that has its full size from the start."""
        file = self._fs.open(segment_path(self._directory, base_offset, LOG), writable=False)
        try:
            return file.size_bytes(), file.modified_ms()
        finally:
            file.close()


def _listed(published: PublishedBounds, listing: FolderListing) -> SegmentList:
    bases = tuple(base for base in listing.logs if base <= published.active_base_offset)
    return SegmentList(generation=published.generation, bases=bases)
