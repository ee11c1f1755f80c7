"""Prepares a Python worker of Spark for its next task."""

from __future__ import annotations

from spark_streamlog.worker.worker_memory import spare_what_is_loaded
from spark_streamlog.worker.worker_socket import answer_at_once


def prepare_worker_for_reuse() -> None:
    """Called last in a task, after its rows are returned or written."""
    spare_what_is_loaded()
    answer_at_once()
