"""Prepares a Python worker of Spark for its next task."""

from __future__ import annotations

from spark_streamlog.worker.worker_memory import freeze_loaded_objects
from spark_streamlog.worker.worker_socket import disable_socket_delays


def prepare_worker_for_reuse() -> None:
    """Called last in a task, after its rows are returned or written."""
    freeze_loaded_objects()
    disable_socket_delays()
