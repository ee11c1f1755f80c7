"""Chooses how a log commits exactly-once."""

from __future__ import annotations

from typing import Any

from broker_core.cluster import Cluster
from broker_core.staged_writes import StagedWrites, StagingPlan
from spark_streamlog.exactly_once.commit_protocol import DriverSide, TaskSide
from spark_streamlog.exactly_once.sink_driver import SinkDriver
from spark_streamlog.exactly_once.sink_identity import SinkIdentity
from spark_streamlog.exactly_once.staged_sink import StagedDriver, StagedTask
from spark_streamlog.exactly_once.task_transaction import TaskTransaction
from spark_streamlog.wall_clock import wall_clock_ms


def driver_side(cluster: Cluster, identity: SinkIdentity) -> DriverSide[Any, Any]:
    """One commit of staged data where the log supports it (object storage), else Kafka's transactions."""
    if isinstance(cluster, StagedWrites):
        return StagedDriver(cluster, identity)
    return SinkDriver(cluster, identity, now_ms=wall_clock_ms)


def task_side(
    cluster: Cluster,
    identity: SinkIdentity,
    staging: StagingPlan | None = None,
    *,
    task: int,
    attempt: int,
    timeout_ms: int,
) -> TaskSide[Any, Any]:
    """`staging`: the driver's plan, where data is staged. `timeout_ms`: how long a transaction may stay open, where
    there is one."""
    if isinstance(cluster, StagedWrites):
        return StagedTask(cluster, identity, staging, task=task, attempt=attempt)
    return TaskTransaction(cluster, identity, task=task, attempt=attempt, timeout_ms=timeout_ms, now_ms=wall_clock_ms)
