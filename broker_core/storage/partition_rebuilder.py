"""The long parts of compaction and key filters: they read closed segments and write new files aside.

Readers and writers do not see the new files, so no partition lock is needed. One process at a time may rebuild a
partition. `WritablePartition` puts the files in place, under the partition's lock.
"""

from __future__ import annotations

from broker_core.log.key_filter import ClosedSegment
from broker_core.storage.compaction_run import CleanedSegments, CompactionJob, clean_segments
from broker_core.storage.key_filter_files import write_key_filter
from broker_core.storage.readable_partition import ReadablePartition
from broker_core.storage.storage_errors import translated


class PartitionRebuilder(ReadablePartition):
    """Maintenance opens one for itself, because its work takes long."""

    def clean_compaction(self, job: CompactionJob, *, memory_bytes: int, digest_key: bytes) -> CleanedSegments:
        """Writes the compacted segments of the job. `digest_key`: 16 random bytes."""
        return clean_segments(
            self._fs,
            self.directory,
            job,
            memory_bytes=memory_bytes,
            digest_key=digest_key,
            owner=self.topic_id,
        )

    def write_key_filter(self, segment: ClosedSegment) -> bool:
        """Writes the segment's key filter. False when the segment is gone or the disk nearly full. Raises
        CorruptBatchError for a damaged segment."""
        interval_bytes = self._config.index_interval_bytes
        with translated("creating a key filter", self.directory):
            return write_key_filter(
                self._fs, self.directory, segment, index_interval_bytes=interval_bytes, owner=self.topic_id
            )
