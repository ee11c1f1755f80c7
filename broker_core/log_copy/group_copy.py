"""Copies committed offsets of groups to a log whose records have the same offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from broker_core.cluster import Cluster, GroupOffset
from broker_core.log_copy.copy_marker import COPY_GROUP
from broker_core.log_copy.log_copy import CopiedPartition
from broker_core.model.exceptions import AuthorizationError, BrokerError, InvalidRequestError, StreamlogError
from broker_core.model.identifiers import NO_LEADER_EPOCH, TopicPartition

_ABOUT_ONE_GROUP: Final = (InvalidRequestError, AuthorizationError, BrokerError)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedGroups:
    """The groups that have offsets in the copied partitions; `failures` those that could not be copied."""

    groups: tuple[str, ...]
    failures: tuple[tuple[str, StreamlogError], ...]


def copy_groups(source: Cluster, target: Cluster, copied: Sequence[CopiedPartition]) -> CopiedGroups:
    """The offsets of every group in the copied partitions.

    An offset above the copied end becomes that end; what the target has for the group is replaced. Leader epochs are
    left out: they are the source's. A group that the target refuses, such as one with members, stops none of the
    others.
    """
    ends = {one.copy.partition: one.target_end_offset for one in copied}
    groups: list[str] = []
    failures: list[tuple[str, StreamlogError]] = []
    for group_id in source.list_groups():
        if group_id == COPY_GROUP:
            continue
        try:
            if _copy_group(source, target, group_id, ends):
                groups.append(group_id)
        except _ABOUT_ONE_GROUP as error:
            failures.append((group_id, error))
    return CopiedGroups(groups=tuple(groups), failures=tuple(failures))


def _copy_group(source: Cluster, target: Cluster, group_id: str, ends: Mapping[TopicPartition, int]) -> bool:
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
    return bool(offsets)
