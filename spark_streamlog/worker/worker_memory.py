"""What Spark's Python worker looks through after every task.

Its daemon collects garbage between two tasks (`gc.collect()` in `pyspark.daemon`), over all that the worker has ever
imported: the modules of pandas, pyarrow, Spark and this package are a hundred thousand objects and more which never
become garbage. That takes a tenth of a second, in which the worker's next task waits.
"""

from __future__ import annotations

import gc
import os

from pyspark import TaskContext

_spared_in: int | None = None
"""The process that has done it: asking `gc.get_freeze_count` would take ten milliseconds after each task, for it counts
them one by one."""


def spare_what_is_loaded() -> None:
    """At the end of a task: later collections pass over what is alive now, once in the life of a worker that is used
    again. What has become garbage by now is collected first. What is spared still goes when nobody refers to it any
    more, but for rings that nobody refers to later: those of that one moment stay."""
    global _spared_in
    if "SPARK_REUSE_WORKER" in os.environ and TaskContext.get() is not None and _spared_in != os.getpid():
        _spared_in = os.getpid()
        gc.collect()
        gc.freeze()
