"""The leader and the replicas of a partition, as columns of a table and as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from broker_core.cli.screen import Column, partition_json

if TYPE_CHECKING:
    from broker_core.client.partition_placements import PartitionPlacement

LEADER_COLUMNS: Final = (
    Column(heading="leader", is_number=True),
    Column(heading="epoch", is_number=True),
    Column(heading="replicas"),
    Column(heading="ISR"),
    Column(heading="ELR"),
)


def ids_text(ids: Iterable[int]) -> str:
    """`1,2,3`; `-` for none."""
    return ",".join(map(str, ids)) or "-"


def leader_cells(found: PartitionPlacement) -> tuple[str, ...]:
    """For LEADER_COLUMNS. Ids are no quantities: they have no thousands separators."""
    leader = "-" if found.is_offline else str(found.leader_id)
    eligible = "?" if found.eligible_leaders is None else ids_text(found.eligible_leaders)
    return (leader, str(found.leader_epoch), ids_text(found.replicas), ids_text(found.isr), eligible)


def leader_json(found: PartitionPlacement) -> dict[str, Any]:
    return {
        "leader": None if found.is_offline else found.leader_id,
        "leader_epoch": found.leader_epoch,
        "replicas": list(found.replicas),
        "isr": list(found.isr),
        "elr": None if found.eligible_leaders is None else list(found.eligible_leaders),
        "last_known_elr": None if found.last_known_leaders is None else list(found.last_known_leaders),
        "offline_replicas": list(found.offline_replicas),
    }


def placement_json(found: PartitionPlacement) -> dict[str, Any]:
    return {**partition_json(found.partition), **leader_json(found)}
