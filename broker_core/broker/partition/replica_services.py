"""The services that the replicas of a node share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from broker_core.broker.partition.append_budget import AppendBudget
from broker_core.broker.partition.open_readers import OpenReaders
from broker_core.cluster import TopicDescription
from broker_core.log_directory.partition_access import PartitionAccess
from broker_core.model.identifiers import TopicPartition
from broker_core.model.topic_config import TopicConfig
from broker_core.ports import Clock, Jobs, LoopWrites


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaServices:
    """`config_of`: a topic's settings, with the node's defaults for the others. `on_advanced` and `on_rolled` are
    called on the loop. `loop_writes` None: everything is written in jobs."""

    access: PartitionAccess
    readers: OpenReaders
    jobs: Jobs
    loop_writes: LoopWrites | None
    clock: Clock
    budget: AppendBudget
    config_of: Callable[[TopicDescription], TopicConfig]
    on_advanced: Callable[[TopicPartition], None]
    on_rolled: Callable[[TopicPartition], None]
