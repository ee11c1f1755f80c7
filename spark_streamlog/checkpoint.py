"""Reads from a streaming query's checkpoint what its sink needs: the query's id, and the input of a batch.

    <checkpointLocation>/metadata            {"id":"<query id>"}: the same over all runs
    <checkpointLocation>/offsets/<batch>     the input of the batch: fixed before it runs, read when it is repeated

Spark writes both. Of a checkpoint that is missing or not on a local file system nothing is known.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from uuid import UUID

from broker_core.model.exceptions import InvalidConfigError
from broker_core.model.log_location import local_directory


def query_id_of(checkpoint_location: str | None) -> str | None:
    """None where it cannot be read: then only the tasks know the id."""
    document = _read(checkpoint_location, "metadata")
    try:
        return None if document is None else str(UUID(json.loads(document)["id"]))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return None


def input_fingerprint(checkpoint_location: str | None, query_id: str | None, batch_id: int) -> str:
    """Differs when a batch of the same number has another input; empty where the input cannot be read."""
    if query_id is None or query_id_of(checkpoint_location) != query_id:
        return ""
    document = _read(checkpoint_location, f"offsets/{batch_id}")
    return "" if document is None else hashlib.sha256(document).hexdigest()[:16]


def _read(checkpoint_location: str | None, name: str) -> bytes | None:
    if checkpoint_location is None:
        return None
    try:
        return (Path(local_directory(checkpoint_location)) / name).read_bytes()
    except (InvalidConfigError, OSError):
        return None
