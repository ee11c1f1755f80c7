"""What Spark's Python worker looks through after every task.

Its daemon collects garbage between two tasks (`gc.collect()` in `pyspark.daemon`), over all that the worker has ever
imported: the modules of pandas, pyarrow, Spark and this package are a hundred thousand objects and more which never
become garbage. That takes a tenth of a second, in which the worker's next task waits.
"""

from __future__ import annotations

import gc

from pyspark import TaskContext


def spare_what_is_loaded() -> None:
    """At the end of a task: later collections pass over what is alive now, once in a worker's life. What has become
    garbage by now is collected first, and what is spared still goes when nobody refers to it any more."""
    if TaskContext.get() is not None and not gc.get_freeze_count():
        gc.collect()
        gc.freeze()
