"""Python imports this at its start wherever this folder is on PYTHONPATH: so it reaches every Python process of Spark.

What to do is said by the folder that STREAMLOG_KILL_FOLDER names; without it nothing is done.
"""

import os

if "STREAMLOG_KILL_FOLDER" in os.environ:
    import kill_switch

    kill_switch.install(os.environ["STREAMLOG_KILL_FOLDER"])
    if "STREAMLOG_IS_SHIPPED" not in os.environ:
        from warm_up import warm_up

        warm_up()
