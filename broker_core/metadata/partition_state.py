"""One partition as the metadata log has it, and what a change makes of it.

Neither the leader epoch nor the partition epoch of a change is in the log: every replayer counts them alike. The
partition epoch grows with every change, the leader epoch with each one that names a leader, also the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeVar
from uuid import UUID

from broker_core.metadata.metadata_records import PartitionChangeRecord, PartitionRecord
from broker_core.model.exceptions import InconsistentMetadataError

_Item = TypeVar("_Item")

NO_LEADER: Final = -1
LEADER_UNCHANGED: Final = -2
_RECOVERY_UNCHANGED: Final = -1
_RECOVERY_STATES: Final = (0, 1)
_MAX_EPOCH: Final = 2**31 - 1

UNKNOWN_DIRECTORY: Final = UUID(int=0)
"""Kafka's MIGRATING: of a replica that was placed before directories had ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """`directories` are those of `replicas`, in the same order. `leader_recovery_state` is 1 after an unclean
    election."""

    replicas: tuple[int, ...]
    directories: tuple[UUID, ...]
    isr: tuple[int, ...]
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    eligible_leader_replicas: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    leader: int = NO_LEADER
    leader_recovery_state: int = 0
    leader_epoch: int = 0
    partition_epoch: int = 0

    @property
    def is_reassigning(self) -> bool:
        return bool(self.removing_replicas or self.adding_replicas)


def created_state(record: PartitionRecord) -> PartitionState:
    """Raises InconsistentMetadataError when the record contradicts itself."""
    return PartitionState(
        replicas=record.replicas,
        directories=_checked_directories(record.directories, record.replicas),
        isr=record.isr,
        removing_replicas=record.removing_replicas,
        adding_replicas=record.adding_replicas,
        eligible_leader_replicas=record.eligible_leader_replicas or (),
        last_known_elr=record.last_known_elr or (),
        leader=record.leader,
        leader_recovery_state=_checked_recovery(record.leader_recovery_state),
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
    )


def changed_state(state: PartitionState, record: PartitionChangeRecord) -> PartitionState:
    """What is None in the record, or at its default, stays. Raises InconsistentMetadataError."""
    replicas = _given(record.replicas, state.replicas)
    has_leader = record.leader != LEADER_UNCHANGED
    recovery = record.leader_recovery_state
    return PartitionState(
        replicas=replicas,
        directories=_checked_directories(_given(record.directories, state.directories), replicas),
        isr=_given(record.isr, state.isr),
        removing_replicas=_given(record.removing_replicas, state.removing_replicas),
        adding_replicas=_given(record.adding_replicas, state.adding_replicas),
        eligible_leader_replicas=_given(record.eligible_leader_replicas, state.eligible_leader_replicas),
        last_known_elr=_given(record.last_known_elr, state.last_known_elr),
        leader=record.leader if has_leader else state.leader,
        leader_recovery_state=(
            state.leader_recovery_state if recovery == _RECOVERY_UNCHANGED else _checked_recovery(recovery)
        ),
        leader_epoch=next_epoch(state.leader_epoch) if has_leader else state.leader_epoch,
        partition_epoch=next_epoch(state.partition_epoch),
    )


def next_epoch(epoch: int) -> int:
    """Raises InconsistentMetadataError after the last one: Kafka's would become negative, below all epochs before."""
    if epoch >= _MAX_EPOCH:
        raise InconsistentMetadataError(f"partition that is changed at the epoch {epoch}, the last that there is")
    return epoch + 1


def _given(new: tuple[_Item, ...] | None, old: tuple[_Item, ...]) -> tuple[_Item, ...]:
    return old if new is None else new


def _checked_directories(directories: tuple[UUID, ...], replicas: tuple[int, ...]) -> tuple[UUID, ...]:
    if all(directory == UNKNOWN_DIRECTORY for directory in directories):
        return (UNKNOWN_DIRECTORY,) * len(replicas)
    if len(directories) != len(replicas):
        raise InconsistentMetadataError(f"partition with {len(replicas)} replicas in {len(directories)} directories")
    return directories


def _checked_recovery(state: int) -> int:
    if state not in _RECOVERY_STATES:
        raise InconsistentMetadataError(f"partition with the leader recovery state {state}, known are 0 and 1")
    return state
