"""What a task leaves behind for the next one in the same Python worker of Spark."""

from __future__ import annotations

from spark_streamlog.worker.worker_memory import spare_what_is_loaded
from spark_streamlog.worker.worker_socket import answer_at_once


def prepare_worker_for_reuse() -> None:
    """Last of all in a task, when its rows are given out or written."""
    spare_what_is_loaded()
    answer_at_once()
