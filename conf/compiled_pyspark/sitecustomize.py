"""Spark's Python processes start in half the time: `PYTHONPATH=conf/compiled_pyspark python my_pipeline.py`.

Spark puts its pyspark.zip before the installed PySpark, and each process compiles the modules in a zip again when it
imports them. Python runs this file when it starts; it removes the zip from the path if it belongs to the installed
PySpark, as with `pip install pyspark`. Otherwise it changes nothing. If you have a `sitecustomize` of your own, add
this code to it.
"""

import sys
from importlib.machinery import PathFinder
from pathlib import Path

_zips = [entry for entry in sys.path if entry.endswith("pyspark.zip")]
_installed = PathFinder.find_spec("pyspark", [entry for entry in sys.path if entry not in _zips])
if _installed is not None and _installed.origin is not None:
    _home = Path(_installed.origin).parent
    sys.path[:] = [entry for entry in sys.path if entry not in _zips or _home not in Path(entry).parents]
