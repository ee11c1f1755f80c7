"""Lets Spark show an error with a named condition as its sentence, without a traceback before it.

The message says what is wrong, where, and which option changes it; a traceback through PySpark and this package would
stand before it and say nothing to the user. PySpark has a switch for it, which is a variable of the environment, and
reads it where it formats the error, just before the process ends. So it is set only then, and only in PySpark's own
processes: no other error, and no other code, is affected. Any other exception keeps its traceback.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from spark_streamlog.errors import ConditionError

SWITCH: Final = "SPARK_HIDE_TRACEBACK"


@contextmanager
def hiding_tracebacks() -> Iterator[None]:
    """Around a call from Spark."""
    try:
        yield
    except ConditionError:
        if is_pysparks_process():
            os.environ[SWITCH] = "1"
        raise


def is_pysparks_process() -> bool:
    """Whether a program of PySpark runs in this process, such as a worker; not in the driver."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return getattr(spec, "name", "").startswith("pyspark.")
