"""Builds missing key filters of a partition's closed segments.

A segment is read and its filter written without the partition's lock, which is taken only to put the filter in place. A
separate lock file, `.keyfilter.lock`, excludes a second builder of the same partition; it is created when a filter is
missing.
"""

from __future__ import annotations

from contextlib import closing
from typing import Final

from broker_core.log.key_filter import ClosedSegment
from broker_core.log_directory.partition_access import PartitionAccess
from broker_core.model.exceptions import CorruptDataError
from broker_core.model.identifiers import TopicPartition
from broker_core.model.topic_name import is_internal_topic
from broker_core.storage.partition_rebuilder import PartitionRebuilder
from broker_core.storage.readable_partition import ReadablePartition
from broker_core.storage.writable_partition import WritablePartition

KEY_FILTER_LOCK_FILE_NAME: Final = ".keyfilter.lock"


class KeyFilterMaintenance:
    """For any partition of `access`. Internal topics get no filters, because every start reads them whole."""

    def __init__(self, access: PartitionAccess) -> None:
        self._access = access

    def build(self, partition: TopicPartition, max_bytes: int | None = None) -> int:
        """Builds filters, for the newest segments first, up to about `max_bytes` of segments. Returns their number.

        A damaged segment gets none: reads and verification report the damage.
        """

        def plan(store: ReadablePartition) -> tuple[ClosedSegment, ...]:
            return store.plan_key_filters(max_bytes)

        if is_internal_topic(partition.topic) or not self._access.read(partition, plan):
            return 0
        mutex = self._access.lock_of(partition, KEY_FILTER_LOCK_FILE_NAME)
        with closing(mutex) as lock, lock.maybe_exclusive(timeout_seconds=0) as is_held:
            if not is_held:
                return 0  # another process builds them
            with closing(self._access.open_apart(partition)) as source:
                return sum(self._build_one(partition, source, segment) for segment in plan(source))

    def _build_one(self, partition: TopicPartition, source: PartitionRebuilder, segment: ClosedSegment) -> bool:
        try:
            if not source.write_key_filter(segment):
                return False
        except CorruptDataError:
            return False

        def place(store: WritablePartition) -> bool:
            # The topic may have been deleted and recreated while its old segment was read.
            return store.topic_id == source.topic_id and store.place_key_filter(segment)

        return self._access.write(partition, place)
