"""Checks that a task opens the log that the driver planned with, not another one with the same path on its machine.

A path does not identify a machine. An executor that does not share the driver's directory finds none at that path, or
an empty one, or another log. Without a check, rows would be missing from a query, or would be acknowledged and stored
in the wrong log. So the log's id is part of the plan:

    driver    with open_to_plan(target) as (cluster, log)   where it plans a read: the log must exist
              log = planned_log_to_write(target)            before it plans a write: creates the log if there is none
    task      cluster = open_planned_log(target, log)

A task opens an existing log and never creates one. Brokers and URLs of object storage mean the same log everywhere: for
them `log` is None.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, cast

from broker_core.cluster import Cluster
from broker_core.model.exceptions import DirectoryFormatError
from spark_streamlog.errors import ConditionError, condition_error
from spark_streamlog.open_cluster import ObjectLog, one_look, open_existing, open_for_reading, open_for_writing
from spark_streamlog.options.option_reader import LogTarget


class DirectoryLog(Cluster, Protocol):
    """The identity of a log in a directory; see `broker_core.embedded.embedded_cluster`."""

    @property
    def log_id(self) -> str: ...

    def ensure_log(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedLog:
    """Pickled into each task. `log_id` is empty for the directory of a Kafka that wrote no ids: then a log must exist
    at the path, but its identity cannot be checked."""

    host: str
    log_id: str


@contextmanager
def open_to_plan(target: LogTarget) -> Iterator[tuple[Cluster, PlannedLog | None]]:
    """On the driver, a log to read. Within it, a log on object storage looks for new commits at most once.

    Raises STREAMLOG_NO_SUCH_LOG.
    """
    if target.objects is not None:
        with one_look(open_existing(target)):
            yield open_for_reading(target), None
        return
    cluster = open_for_reading(target)
    planned = None
    if target.is_directory:
        planned = PlannedLog(host=socket.gethostname(), log_id=cast(DirectoryLog, cluster).log_id)
    yield cluster, planned


def planned_log_to_write(target: LogTarget) -> PlannedLog | None:
    """On the driver, for a log to write. Raises DirectoryFormatError, DirectoryReadOnlyError, DirectoryLockedError."""
    if target.objects is not None:
        cast(ObjectLog, open_for_writing(target)).ensure_log()
    if not target.is_directory:
        return None
    try:
        log_id = cast(DirectoryLog, open_existing(target)).ensure_log()
    except DirectoryFormatError:
        log_id = cast(DirectoryLog, open_for_writing(target)).ensure_log()
    return PlannedLog(host=socket.gethostname(), log_id=log_id)


def open_planned_log(target: LogTarget, planned: PlannedLog | None) -> Cluster:
    """In a task, for reading and writing. Raises STREAMLOG_LOG_NOT_SHARED with the task's host if the log is not the
    one that the driver planned with."""
    if planned is None:
        return open_existing(target)
    try:
        embedded = cast(DirectoryLog, open_existing(target))
        log_id = embedded.log_id
    except DirectoryFormatError as error:
        raise _not_shared(target, planned, error.message) from error
    if planned.log_id and log_id != planned.log_id:
        raise _not_shared(target, planned, f"the log at this path has another id, {log_id or '(none)'}")
    return embedded


def _not_shared(target: LogTarget, planned: PlannedLog, found: str) -> ConditionError:
    return condition_error(
        "STREAMLOG_LOG_NOT_SHARED",
        host=socket.gethostname(),
        path=target.path,
        found=found,
        planning_host=planned.host,
        log_id=planned.log_id or "(without an id)",
    )
