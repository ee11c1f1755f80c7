"""`format("streamlog")` needs no register(): PySpark finds the module pyspark_streamlog by itself, in every session."""

import subprocess
import sys

import pytest
from pyspark.sql.datasource import DataSource
from support.builders.stored_records import stored_values
from support.spark.spark_session import environment_for_workers

import pyspark_streamlog

PROGRAM = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
assert not any(name.startswith(("spark_streamlog", "broker_core", "pyspark_streamlog")) for name in sys.modules)
spark.sql("select 'hello' as value").write.format("streamlog").option("topic", "t").mode("append").save(sys.argv[1])
found = spark.read.format("streamlog").option("subscribe", "t").load(sys.argv[1]).selectExpr("cast(value as string)")
print("found", found.collect())
"""


def test_the_module_that_pyspark_imports_contains_the_data_source():
    assert issubclass(pyspark_streamlog.DefaultSource, DataSource)
    assert pyspark_streamlog.DefaultSource.name() == "streamlog"


def test_a_new_session_of_the_same_program_also_finds_the_data_source(spark, log_dir):
    session = spark.newSession()
    session.sql("select 'v' as value").write.format("streamlog").option("topic", "t").mode("append").save(log_dir)
    assert stored_values(log_dir, "t") == [b"v"]


@pytest.mark.long  # The server of `test_connect` imports nothing of ours, too.
def test_a_program_without_our_imports_writes_and_reads(spark, log_dir):
    import os

    program = subprocess.run(
        [sys.executable, "-c", PROGRAM, log_dir],
        env=os.environ | environment_for_workers(),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert program.returncode == 0, program.stderr[-3000:]
    assert "found [Row(value='hello')]" in program.stdout
