"""The replicas of topics at brokers: the options that choose them, and where they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import typer

from broker_core.cli.error_sentence import UsageError
from broker_core.cli.reassignment_file import check_replicas
from broker_core.cluster import Cluster, TopicDescription

if TYPE_CHECKING:
    from broker_core.client.partition_placements import PartitionPlacement

_MAX_FACTOR: Final = 32_767

ReplicationFactor = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=_MAX_FACTOR,
        metavar="COUNT",
        help="Replicas of each partition, at brokers.",
        show_default="the brokers' default",
    ),
]
ReplicaAssignment = Annotated[
    str | None,
    typer.Option(
        metavar="IDS",
        help="The brokers of each partition, at brokers: 1:2,2:3 has two partitions, the first on 1 and 2.",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedReplication:
    """`assignments` is empty unless they are given."""

    factor: int | None
    assignments: tuple[tuple[int, ...], ...]


def parse_replication(
    factor: int | None, assignment: str | None, *, partitions: int | None, is_at_brokers: bool
) -> WantedReplication | None:
    """None if nothing is asked for. Raises UsageError."""
    if factor is None and assignment is None:
        return None
    option = "--replication-factor" if assignment is None else "--replica-assignment"
    if not is_at_brokers:
        raise UsageError(f"{option} needs --bootstrap-server: the partitions of a directory have one replica")
    if assignment is None:
        return WantedReplication(factor=factor, assignments=())
    if factor is not None or partitions is not None:
        raise UsageError("--replica-assignment excludes --partitions and --replication-factor")
    assignments = tuple(_replicas(part, assignment) for part in assignment.split(","))
    if len({len(replicas) for replicas in assignments}) > 1:
        raise UsageError(f"--replica-assignment {assignment}: partitions have different numbers of replicas")
    return WantedReplication(factor=None, assignments=assignments)


def create_with(
    cluster: Cluster,
    name: str,
    wanted: WantedReplication | None,
    *,
    partitions: int | None,
    configs: Mapping[str, str],
) -> TopicDescription:
    """Raises as `Cluster.create_topic`."""
    if wanted is None:
        return cluster.create_topic(name, partition_count=partitions, configs=configs)
    from broker_core.client.cluster_client import ClusterClient

    assert isinstance(cluster, ClusterClient), "was checked"
    return cluster.create_replicated_topic(
        name,
        partition_count=partitions,
        replication_factor=wanted.factor,
        assignments=wanted.assignments,
        configs=configs,
    )


def placements_of(cluster: Cluster, name: str | None, *, is_at_brokers: bool) -> list[PartitionPlacement] | None:
    """Of a topic or of all; None for a log that is not at brokers."""
    if not is_at_brokers:
        return None
    from broker_core.client.cluster_client import ClusterClient

    assert isinstance(cluster, ClusterClient), "brokers are given"
    return cluster.placements(None if name is None else [name])


def _replicas(part: str, assignment: str) -> tuple[int, ...]:
    ids = part.strip().split(":")
    if not all(each.isascii() and each.isdigit() for each in ids):
        raise UsageError(
            f"--replica-assignment {assignment}: {part!r} is not broker ids with colons between them, as 1:2:3"
        )
    return check_replicas(tuple(map(int, ids)), f"--replica-assignment {assignment}")
