"""The start offsets and the commits of `consume --group`. It commits only records that it has written.

    start      the group's committed offset, or else --from
    commit     all partitions together: at the start, each COMMIT_SECONDS while records are written, at the end

At least once: the output is flushed before each commit. A process that dies writes some records again and skips none.
The command is not a member of the group: it reads every partition, also those that another process
reads with the same group.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import BinaryIO, Final
from uuid import UUID

from broker_core.cli.partition_consumer import PartitionConsumer
from broker_core.cli.screen import note
from broker_core.cli.start_offsets import Start, resolve_start
from broker_core.cluster import Cluster, GroupOffset
from broker_core.model.exceptions import InvalidGroupError, OffsetOutOfRangeError
from broker_core.model.identifiers import IsolationLevel, TopicPartition

COMMIT_SECONDS: Final = 1.0
"""The interval of commits, each of which is synced: at most this much is written again after a kill."""


class GroupCommits:
    """The commits of one group, for the partitions that one run reads."""

    def __init__(self, cluster: Cluster, group_id: str, topic_ids: Mapping[str, UUID]) -> None:
        """`topic_ids`: of the topics that are read, by name. Offsets of a topic that was deleted and created again are
        not committed: `begin` and the commits raise TopicRecreatedError."""
        self._cluster = cluster
        self._group_id = group_id
        self._topic_ids = topic_ids
        self._committed: dict[TopicPartition, int] = {}
        self._committed_at_s = 0.0

    def begin(
        self, partitions: Sequence[TopicPartition], start: Start, isolation: IsolationLevel
    ) -> dict[TopicPartition, int]:
        """The first offset to read of each partition. They are committed at once, so that an error of commits is raised
        before anything is written.

        Raises InvalidGroupError while the group has members, OffsetOutOfRangeError for an offset beyond the end.
        """
        self._require_no_members()
        found = self._cluster.fetch_offsets(self._group_id, partitions)
        starts = {partition: self._checked(partition, found[partition].offset) for partition in found}
        missing = [partition for partition in partitions if partition not in starts]
        if missing:
            starts |= resolve_start(self._cluster, missing, start, isolation)
        self._commit(starts)
        return starts

    def maybe_commit(self, readers: Sequence[PartitionConsumer], output: BinaryIO) -> None:
        """Commits if the last commit is long enough ago."""
        if time.monotonic() - self._committed_at_s >= COMMIT_SECONDS:
            self.commit(readers, output)

    def commit(self, readers: Sequence[PartitionConsumer], output: BinaryIO) -> None:
        """Everything up to the readers' positions must have been written to `output`."""
        output.flush()
        moved = {
            reader.partition: reader.next_offset
            for reader in readers
            if self._committed.get(reader.partition) != reader.next_offset
        }
        self._committed_at_s = time.monotonic()
        if moved:
            self._commit(moved)

    def _commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._cluster.commit_offsets(
            self._group_id,
            {partition: GroupOffset(offset=offset) for partition, offset in offsets.items()},
            topic_ids=self._topic_ids,
        )
        self._committed |= offsets
        self._committed_at_s = time.monotonic()

    def _require_no_members(self) -> None:
        members = self._cluster.describe_group(self._group_id).members
        if members:
            raise InvalidGroupError(
                f"group {self._group_id!r} has running consumers ({len(members)}), which commit its offsets:"
                " stop them, or "
                "give --group another name",
                group_id=self._group_id,
            )

    def _checked(self, partition: TopicPartition, offset: int) -> int:
        bounds = self._cluster.bounds(partition)
        if offset > bounds.log_end_offset:
            raise OffsetOutOfRangeError(
                f"group {self._group_id!r} stands at offset {offset} of {partition}, which ends at "
                f"{bounds.log_end_offset}: the topic was deleted and created again. Delete the group's offsets with "
                f"'streamlog group delete {self._group_id}', or give --group another name",
                offset=offset,
                log_start_offset=bounds.log_start_offset,
                log_end_offset=bounds.log_end_offset,
            )
        if offset < bounds.log_start_offset:
            note(
                f"{partition}: offsets {offset} to {bounds.log_start_offset - 1} were removed before group "
                f"{self._group_id} read them; going on at {bounds.log_start_offset}"
            )
        return max(offset, bounds.log_start_offset)
