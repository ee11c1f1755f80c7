"""What the examples have in common: a Spark of two threads, and a folder of their own that each run restarts."""

import os
import shutil
import sys
from collections.abc import Collection
from pathlib import Path

from pyspark.sql import SparkSession

from spark_streamlog.java_check import require_java

WAREHOUSE = "spark-warehouse"


def start_spark(folder: Path, *, name: str) -> SparkSession:
    require_java()
    # Spark starts `python3` from the PATH unless told: the one with the packages is the one that runs this.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return (
        SparkSession.builder.master("local[2]")
        .appName(name)
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(folder / WAREHOUSE))
        .getOrCreate()
    )


def fresh_folder(folder: Path, left_by_us: Collection[str]) -> None:
    """Empties what an earlier run left, and nothing else."""
    if folder.exists():
        others = sorted(p.name for p in folder.iterdir() if p.name not in {*left_by_us, WAREHOUSE})
        if others:
            sys.exit(f"{folder} holds {others[0]!r}, which this example did not write: choose another --path.")
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
