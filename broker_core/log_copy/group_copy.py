"""Copies committed offsets of groups to a log whose records have the same offsets."""

from __future__ import annotations

from collections.abc import Sequence

from broker_core.cluster import Cluster, GroupOffset
from broker_core.log_copy.copy_marker import COPY_GROUP
from broker_core.log_copy.log_copy import CopiedPartition
from broker_core.model.identifiers import NO_LEADER_EPOCH


def copy_groups(source: Cluster, target: Cluster, copied: Sequence[CopiedPartition]) -> tuple[str, ...]:
    """The offsets of every group in the copied partitions. Returns the groups that have some.

    An offset above the copied end becomes that end; what the target has for the group is replaced. Leader epochs are
    left out: they are the source's. Raises what `commit_offsets` raises, for a group with members too.
    """
    ends = {one.copy.partition: one.target_end_offset for one in copied}
    groups = []
    for group_id in source.list_groups():
        if group_id == COPY_GROUP:
            continue
        offsets = source.fetch_offsets(group_id, ends.keys())
        if offsets:
            target.commit_offsets(
                group_id,
                {
                    partition: GroupOffset(
                        offset=min(committed.offset, ends[partition]),
                        metadata=committed.metadata,
                        leader_epoch=NO_LEADER_EPOCH,
                    )
                    for partition, committed in offsets.items()
                },
            )
            groups.append(group_id)
    return tuple(groups)
