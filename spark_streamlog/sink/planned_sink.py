"""The driver's plan of a write: the log, and the sink with its batch. It is pickled to the tasks, and their messages
return the sink and batch to the driver.

A batch write knows both before its tasks start. A stream is planned for each micro-batch, in a process that does not
get the ids of query and batch; the query's id is in its checkpoint, if that is local. The tasks know both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast
from uuid import uuid4

from broker_core.cluster import TransactionalProducer
from broker_core.staged_writes import StagingPlan
from spark_streamlog.checkpoint import query_id_of
from spark_streamlog.errors import with_conditions
from spark_streamlog.exactly_once.commit_protocol import DriverSide
from spark_streamlog.exactly_once.sink_identity import (
    SinkIdentity,
    application_identity,
    query_identity,
    single_write_identity,
)
from spark_streamlog.open_cluster import ObjectLog, open_existing
from spark_streamlog.options.option_reader import LogTarget
from spark_streamlog.options.write_options import Delivery, WriteOptions
from spark_streamlog.sink.commit_sides import driver_side
from spark_streamlog.sink.planned_driver import store_driver
from spark_streamlog.worker.planned_log import PlannedLog, planned_log_to_write


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSink:
    """`driver` is the token of `DriverSide.take_over`, None if planning could not take over; `batch` is None for a
    single write."""

    identity: SinkIdentity
    driver: Any
    batch: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedWrite:
    """`log` is the one that tasks must find (see `planned_log`). `sink` is None with at-least-once delivery, and for a
    stream if planning does not know its query. `staging`: for a log on object storage, what tasks and the commit would
    have to look up there."""

    log: PlannedLog | None
    staging: StagingPlan | None
    sink: PlannedSink | None


@with_conditions()
def plan_batch_write(options: WriteOptions) -> PlannedWrite:
    """Called before the tasks of a batch write start. Creates the log if there is none."""
    return _planned_write(options, _sink_of_batch_write)


@with_conditions()
def plan_micro_batch(options: WriteOptions) -> PlannedWrite:
    """Called before the tasks of a micro-batch start. Creates the log if there is none."""
    return _planned_write(options, _sink_of_known_query)


def _planned_write(options: WriteOptions, sink_of: Callable[[WriteOptions], PlannedSink | None]) -> PlannedWrite:
    log = planned_log_to_write(options.target)
    sink = sink_of(options)
    if options.target.objects is None:
        return PlannedWrite(log=log, staging=None, sink=sink)
    staging = cast(ObjectLog, open_existing(options.target)).plan_staging(
        None if options.topic is None else [options.topic], None if sink is None else sink.identity.decision_group
    )
    # The token of a staged sink; see `staged_sink`.
    return PlannedWrite(log=log, staging=staging, sink=None if sink is None else replace(sink, driver=staging))


def _sink_of_batch_write(options: WriteOptions) -> PlannedSink | None:
    if options.delivery is not Delivery.EXACTLY_ONCE:
        return None
    application = options.application
    if application is None:
        identity, version = single_write_identity(uuid4()), None
    else:
        identity, version = application_identity(application.app_id, topic=options.topic), application.version
    return PlannedSink(identity=identity, driver=sink_driver(options.target, identity).take_over(), batch=version)


def _sink_of_known_query(options: WriteOptions) -> PlannedSink | None:
    if options.delivery is not Delivery.EXACTLY_ONCE:
        return None
    query_id = query_id_of(options.checkpoint_location)
    if query_id is None:
        return None
    identity = query_identity(query_id)
    driver = sink_driver(options.target, identity).take_over()
    if isinstance(driver, TransactionalProducer):
        store_driver(query_id, driver)
    return PlannedSink(identity=identity, driver=driver, batch=None)


def sink_of_micro_batch(planned: PlannedWrite, *, query_id: str, batch_id: int) -> PlannedSink:
    """Called in a task, which knows the query and the batch. A plan for another query is ignored: a local directory may
    have the same path as the checkpoint. What is planned for staging serves any query.
    """
    identity = query_identity(query_id)
    is_ours = planned.sink is not None and planned.sink.identity == identity
    driver = planned.sink.driver if planned.sink is not None and is_ours else planned.staging
    return PlannedSink(identity=identity, driver=driver, batch=batch_id)


def sink_driver(target: LogTarget, identity: SinkIdentity) -> DriverSide[Any, Any]:
    """For a log that planning has found or created: if it was deleted since, no new one is created."""
    return driver_side(open_existing(target), identity)
