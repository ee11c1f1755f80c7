"""What a process asks of its object store, told request by request.

    get, get_ranges, put, put_if_absent, put_if_matches, delete    and the path of the object, the first one of several
    upload.write, upload.finish                                    of an upload in parts

So "put_if_absent commits/" is the request that decides a micro-batch, and "get_ranges data/" reads rows.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any

Around = Callable[[str], AbstractContextManager[None]]

USUAL_INTERVALS = (50, 100, 8)
"""Commits between turns, commits between checkpoints, small ranges that are merged."""


def watch(around: Around) -> None:
    """From now on every request of this process is made within `around(request)`."""
    from broker_core.object_store import client_store, folder_store

    for store in (client_store.ClientStore, folder_store.FolderStore):
        for method in ("get", "get_ranges", "put", "put_if_absent", "put_if_matches", "delete"):
            _wrap(
                store, method, method, lambda _, path: path if isinstance(path, str) else next(iter(path), ""), around
            )
    for upload in (client_store._ClientUpload, folder_store._FolderUpload):
        _wrap(upload, "write", "upload.write", lambda upload, _: upload._path, around)
        _wrap(upload, "finish", "upload.finish", lambda upload, _: upload._path, around)


def _wrap(kind: type, method: str, name: str, path_of: Callable[[Any, Any], str], around: Around) -> None:
    call = getattr(kind, method)

    @wraps(call)
    def watched(self: Any, *arguments: Any) -> Any:
        with around(f"{name} {path_of(self, arguments[0] if arguments else None)}"):
            return call(self, *arguments)

    setattr(kind, method, watched)


def set_maintenance(*, is_always: bool) -> None:
    """Whether every commit of this process is followed by maintenance that finds something to do, else as usual."""
    from broker_core.object_cluster import log_maintenance, maintenance_turn
    from broker_core.object_log import maintenance_plan

    turns, checkpoints, ranges = (1, 2, 2) if is_always else USUAL_INTERVALS
    maintenance_turn.COMMITS_BETWEEN_TURNS = turns
    log_maintenance.COMMITS_BETWEEN_CHECKPOINTS = checkpoints
    maintenance_plan.MIN_MERGED_RANGE_COUNT = ranges
