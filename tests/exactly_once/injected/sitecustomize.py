"""Python imports this at its start wherever this folder is on PYTHONPATH: so it reaches every Python process of Spark.

What to do is said by the folder that STREAMLOG_KILL_FOLDER names; without it nothing is done.
"""

import os
import sys

if "STREAMLOG_KILL_FOLDER" in os.environ:
    import kill_switch

    switch = kill_switch.install(os.environ["STREAMLOG_KILL_FOLDER"])
    if "STREAMLOG_IS_SHIPPED" not in os.environ:
        from warm_up import warm_up

        warm_up()
    if kill_switch.WATCHED_FROM_START in os.environ and any(word.startswith("pyspark.") for word in sys.orig_argv):
        switch.watch_objects()
