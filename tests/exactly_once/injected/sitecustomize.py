"""Python imports this at its start wherever this folder is on PYTHONPATH: so it reaches every Python process of Spark.

What to do is said by the folder that STREAMLOG_KILL_FOLDER names; without it nothing is done.
"""

import os
import sys


def _import_before_forking() -> None:
    """A killed process is forked anew and would import everything anew, for a second or more. So its daemon does it
    once, and from the installed PySpark, whose modules are compiled, instead of the zip that Spark puts before it.
    """
    sys.path[:] = [entry for entry in sys.path if not entry.endswith("pyspark.zip")]
    if "pyspark.daemon" not in sys.orig_argv:
        return
    import importlib

    # The last argument is the module that a forked process runs.
    for name in (sys.orig_argv[-1], "pandas", "spark_streamlog.source", "broker_core.embedded.embedded_cluster"):
        importlib.import_module(name)


if "STREAMLOG_KILL_FOLDER" in os.environ:
    import kill_switch

    kill_switch.install(os.environ["STREAMLOG_KILL_FOLDER"])
    if "STREAMLOG_IS_SHIPPED" not in os.environ:
        _import_before_forking()
