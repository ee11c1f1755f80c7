"""The only module that opens a log. One log per process and target; never one inherited across a fork.

Python workers of Spark are forked from a daemon and reused, so an opened log is kept for the next task. The process id
in its key ensures that it belongs to this process. A worker that is idle for some seconds releases its open directories
(see `spark_calls`); the opened log stays, and opens its directory again at its next use.
"""

from __future__ import annotations

import os
import threading
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, cast

from broker_core.cluster import Cluster
from broker_core.model.exceptions import DirectoryFormatError
from broker_core.staged_writes import PlannedReads, StagedWrites
from spark_streamlog.errors import around_calls, condition_error
from spark_streamlog.hidden_tracebacks import hiding_tracebacks
from spark_streamlog.options.option_reader import LogTarget
from spark_streamlog.spark_calls import SPARK_CALLS

_lock = threading.Lock()
_opened: dict[tuple[int, LogTarget, bool], Cluster] = {}
"""By process, target, and whether a log may be created in a directory."""


class ObjectLog(Cluster, StagedWrites, PlannedReads, Protocol):
    """A log on object storage; see `broker_core.object_cluster.object_cluster`."""

    def exists(self) -> bool: ...

    def ensure_log(self) -> None: ...


def open_for_reading(target: LogTarget) -> Cluster:
    """Raises STREAMLOG_NO_SUCH_LOG when there is no log; nothing is created. Brokers are reached at the first call."""
    if target.is_directory and not os.path.isdir(target.path):
        reason = "it is a file" if os.path.exists(target.path) else "no such directory"
        raise condition_error("STREAMLOG_NO_SUCH_LOG", path=target.path, reason=reason)
    try:
        cluster = open_existing(target)
    except DirectoryFormatError as error:
        raise condition_error("STREAMLOG_NO_SUCH_LOG", path=target.path, reason=str(error)) from error
    if target.objects is not None and not cast(ObjectLog, cluster).exists():
        raise condition_error("STREAMLOG_NO_SUCH_LOG", path=target.objects.url, reason="it holds no streamlog.json")
    return cluster


def open_existing(target: LogTarget) -> Cluster:
    """For reading and writing an existing log: it never creates one.

    Raises DirectoryFormatError when there is none; on object storage the first call raises ObjectLogFormatError.
    """
    return _open(target, create=False)


def open_for_writing(target: LogTarget) -> Cluster:
    """Creates the log directory if there is none. On the driver only: the driver may not see what a task creates."""
    return _open(target, create=True)


def one_look(cluster: Cluster) -> AbstractContextManager[None]:
    """Within it all calls see the log as of the first one, where that saves requests: on object storage."""
    return cluster.one_look() if isinstance(cluster, PlannedReads) else nullcontext()


def known_state(cluster: Cluster) -> AbstractContextManager[None]:
    """Within it all calls see the log as of the last look; see `one_look`."""
    return cluster.known_state() if isinstance(cluster, PlannedReads) else nullcontext()


def _open(target: LogTarget, *, create: bool) -> Cluster:
    # Opening brokers creates nothing: one connection pool serves all.
    key = (os.getpid(), target, create and target.brokers is None)
    with _lock:
        if key not in _opened:
            _opened[key] = _reopened(target, create=create)
        return _opened[key]


def _reopened(target: LogTarget, *, create: bool) -> Cluster:
    # Only the needed module is imported: a query waits for it in every process that Spark starts.
    if target.objects is not None:
        from broker_core.object_cluster.open_objects import open_objects

        return open_objects(target.objects.url, dict(target.objects.settings), create=create)
    if target.brokers is not None:
        from broker_core.client.cluster_client import open_remote

        return open_remote(target.brokers)
    from broker_core.embedded.embedded_cluster import open_embedded

    return open_embedded(target.path, create=create)


def _release_directories() -> bool:
    """False if one is busy with maintenance; then call again later."""
    own: list[Any] = [
        cluster for (pid, target, _), cluster in _opened.items() if pid == os.getpid() and target.is_directory
    ]
    busy = [cluster for cluster in own if not cluster.release()]
    return not busy


around_calls(SPARK_CALLS.running)
around_calls(hiding_tracebacks)
SPARK_CALLS.on_idle(_release_directories)


def _renew_lock_after_fork() -> None:
    # Another thread of the parent may have held the lock. The parent's logs stay in the cache, under its process id.
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock_after_fork)
