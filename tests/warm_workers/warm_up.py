"""Saves Spark's Python processes a second or more each: compiling PySpark, and importing it again.

Spark puts PySpark as a zip before the installed one, and modules in a zip are compiled in each process that imports
them. And a daemon forks processes that import all they need, one after the other.
"""

import importlib
import sys


def warm_up() -> None:
    """PySpark from where it is installed, compiled; a daemon imports before it forks. Other processes import nothing
    here: a program that imports nothing of ours stays one.
    """
    sys.path[:] = [entry for entry in sys.path if not entry.endswith("pyspark.zip")]
    if "pyspark.daemon" in sys.orig_argv:
        # The last argument is the module that a forked process runs.
        for name in (
            sys.orig_argv[-1],
            "pandas",
            "spark_streamlog.data_source",
            "broker_core.embedded.embedded_cluster",
        ):
            importlib.import_module(name)
