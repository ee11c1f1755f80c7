"""Shortens the garbage collection of Spark's Python worker after every task.

The worker collects garbage between two tasks (`gc.collect()` in `pyspark.daemon`) and scans all imported modules: those
of pandas, pyarrow, Spark and this package are more than a hundred thousand objects that never become garbage. The scan
takes a tenth of a second, during which the worker's next task waits.
"""

from __future__ import annotations

import gc
import os

from pyspark import TaskContext

from spark_streamlog.spark_calls import is_spark_worker

_frozen_in: int | None = None
"""The process that has called `gc.freeze`. Calling `gc.get_freeze_count` instead would take ten milliseconds after each
task, because it counts the objects one by one."""


def freeze_loaded_objects() -> None:
    """Called at the end of a task, and acts once in the life of a reused worker: collects garbage, then excludes all
    live objects from later collections. An excluded object is still freed when its last reference goes, unless it is
    part of a reference cycle."""
    if "SPARK_REUSE_WORKER" in os.environ and TaskContext.get() is not None:
        _freeze_once()


def freeze_objects_of_planning() -> None:
    """Called when a micro-batch is planned, and acts after the first one, in the process that plans a stream. Otherwise
    Python collects in the middle of a batch of many partitions."""
    if is_spark_worker():
        _freeze_once()


def _freeze_once() -> None:
    global _frozen_in
    if _frozen_in != os.getpid():
        _frozen_in = os.getpid()
        gc.collect()
        gc.freeze()
