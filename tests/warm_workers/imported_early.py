"""Imports what the processes of the sink and the source import at their first use: for the processes that fork them.

In Spark a process pays for these imports once in its life. Where a process lives for one task, as in the tests of
kills, most of its work would be importing.
"""

import importlib
import pkgutil
import re
from pathlib import Path

import broker_core.client
import broker_core.embedded
import broker_core.object_cluster
import broker_core.object_store
import spark_streamlog

LAZY_SCHEMA = re.compile(r"from (kio\.schema\.\w+\.v\d+)[ .]")

PACKAGES = (
    spark_streamlog,
    broker_core.client,
    broker_core.embedded,
    broker_core.object_cluster,
    broker_core.object_store,
)

for package in PACKAGES:
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
for file in Path(broker_core.client.__path__[0]).glob("*.py"):
    for schema in LAZY_SCHEMA.findall(file.read_text()):
        for side in ("request", "response"):
            importlib.import_module(f"{schema}.{side}")
