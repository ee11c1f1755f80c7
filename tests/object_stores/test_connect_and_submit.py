"""Spark Connect and spark-submit on object storage: exactly-once, and no secret in Spark's files.

Spark's event log has the plan of every query, and so has much of its own log at INFO; the output of a client has
plans and errors. Neither they nor the checkpoint may contain a key.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from support.objects.gcs_server import gcs
from support.objects.s3_servers import BUCKET, SECRET_KEY, versitygw
from support.spark.connect_server import connect_server
from support.spark.spark_session import SHORT_LIVED, environment_for_workers
from support.spark.stream_driver import forget_last_commit

from broker_core.model.identifiers import TopicPartition
from broker_core.object_cluster.open_objects import open_objects
from broker_core.record.batch_reader import iter_headers, records_of
from spark_streamlog.java_check import missing_java_advice

pytest.importorskip("obstore", reason="obstore is not installed: pip install 'spark-streamlog[objects]'")
pytestmark = [pytest.mark.long, pytest.mark.timeout(900), pytest.mark.spark]

PRIVATE_KEY = "a-private-key-that-nobody-may-see"
ROW_COUNT = 300
QUERIES = """
import json, sys

url, checkpoint, is_first = sys.argv[1], sys.argv[2], sys.argv[3] == "first"
options = json.load(open(sys.argv[4]))  # not on stdin: spark-submit does not hand it on

def queries(spark):
    if is_first:
        numbers = spark.range(0, 300, 1, 3).selectExpr("string(id) AS key", "string(id) AS value")
        writer = numbers.write.format("streamlog").options(**options).option("topic.partitions", 2)
        writer.option("topic", "in").mode("append").save(url)
    batch = spark.read.format("streamlog").options(subscribe="in", **options).load(url)
    print("rows", batch.count())
    batch.explain(True)
    stream = spark.readStream.format("streamlog").options(subscribe="in", startingOffsets="earliest", **options)
    rows = stream.option("maxOffsetsPerTrigger", 100).load(url).select("key", "value")
    rows.explain(True)
    writer = rows.writeStream.format("streamlog").options(topic="out", checkpointLocation=checkpoint, **options)
    query = writer.trigger(availableNow=True).start(url)
    query.awaitTermination()
    print("batches", sum(progress.numInputRows > 0 for progress in query.recentProgress))
    missing = url.replace("bucket", "no-such-bucket", 1)
    for action in (
        lambda: spark.read.format("streamlog").options(subscribe="in", **options).load(missing).count(),
        lambda: batch.write.format("streamlog").options(topic="t", **options).mode("append").save(missing),
    ):
        try:
            action()
        except Exception as refusal:
            print("refused", "STREAMLOG_" in str(refusal), refusal)
"""
SUBMITTED = (
    QUERIES
    + """
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
spark.sparkContext.setLogLevel("INFO")
queries(spark)
spark.stop()
"""
)
CONNECTED = (
    QUERIES
    + """
from pyspark.sql import SparkSession

spark = SparkSession.builder.remote(sys.argv[5]).getOrCreate()
assert type(spark).__module__.startswith("pyspark.sql.connect"), type(spark)
queries(spark)
spark.stop()
"""
)


@pytest.fixture(autouse=True)
def java():
    advice = missing_java_advice()
    if advice:
        pytest.skip(advice)


@pytest.fixture(params=["s3", "gs"])
def store(request, tmp_path):
    """(URL, options, secret) of a log that does not exist yet."""
    if request.param == "s3":
        (tmp_path / "store").mkdir()
        with versitygw(tmp_path / "store") as server:
            yield f"s3://{BUCKET}/log", server.options(), SECRET_KEY
        return
    with gcs(BUCKET) as server:
        options = server.options()
        key = json.loads(options["object.service.account.secret.key"]) | {"private_key": PRIVATE_KEY}
        yield f"gs://{BUCKET}/log", options | {"object.service.account.secret.key": json.dumps(key)}, PRIVATE_KEY


@pytest.fixture
def kept(tmp_path):
    """Spark's files: event log, checkpoint, logs."""
    (tmp_path / "kept" / "events").mkdir(parents=True)
    return tmp_path / "kept"


def conf_of(kept):
    events = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file://{kept}/events"}
    return SHORT_LIVED | events | {"spark.eventLog.compress": "false", "spark.log.level": "INFO"}


def run(command, options, kept, **environment):
    """In `command` an empty word stands for the file with the options."""
    settings = kept.parent / "options.json"
    settings.write_text(json.dumps(options))
    result = subprocess.run(
        [word or str(settings) for word in command],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        cwd=kept,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    (kept / f"output-{len(list(kept.iterdir()))}").write_text(result.stdout + result.stderr)
    return result.stdout


def check_output(output, *, batches):
    lines = output.splitlines()
    assert f"rows {ROW_COUNT}" in lines
    assert f"batches {batches}" in lines
    assert sum(line.startswith("refused True") for line in lines) == 2, output[-3000:]
    assert "streamlog" in output


def check_copy(url, options):
    with open_objects(url, options) as log:
        found = []
        for number in range(log.describe_topics(["out"])["out"].partition_count):
            partition = TopicPartition("out", number)
            offset = 0
            while (fetched := log.fetch(partition, offset, max_bytes=1 << 20)).next_offset != offset:
                data, offset = bytes(fetched.buffer), fetched.next_offset
                found += [int(row.value) for place, _ in iter_headers(data) for row in records_of(data, place)]
    assert sorted(found) == list(range(ROW_COUNT))


def check_that_nothing_shows(secret, kept, *, outside=None):
    files = [file for file in kept.rglob("*") if file.is_file() and (outside is None or outside not in file.parents)]
    assert any(
        "streamlog" in file.read_text(errors="replace") for file in (kept / "events").rglob("*") if file.is_file()
    )
    assert (kept / "checkpoint" / "commits").is_dir()
    assert [str(file) for file in files if secret.encode() in file.read_bytes()] == []


def test_a_submitted_job_copies_once_and_leaves_no_secret(store, kept):
    url, options, secret = store
    (kept / "job.py").write_text(SUBMITTED)
    conf = [word for name, value in conf_of(kept).items() for word in ("--conf", f"{name}={value}")]
    submit = str(Path(pyspark.__file__).parent / "bin/spark-submit")
    command = [submit, "--master", "local[2]", *conf, str(kept / "job.py"), url, str(kept / "checkpoint")]
    check_output(run([*command, "first", ""], options, kept, **environment_for_workers()), batches=3)
    forget_last_commit(kept / "checkpoint")
    check_output(run([*command, "again", ""], options, kept, **environment_for_workers()), batches=1)
    check_copy(url, options)
    check_that_nothing_shows(secret, kept)


def test_a_connect_client_copies_once_and_leaves_no_secret_outside_sparks_event_log(store, kept):
    """Spark itself writes each request of a client to its event log, with the options of any source in clear."""
    pytest.importorskip("grpc", reason="Spark Connect needs grpcio: pip install -e '.[test]'")
    url, options, secret = store
    with connect_server(kept, conf=conf_of(kept)) as address:
        command = [sys.executable, "-c", CONNECTED, url, str(kept / "checkpoint")]
        check_output(run([*command, "first", "", address], options, kept), batches=3)
        forget_last_commit(kept / "checkpoint")
        check_output(run([*command, "again", "", address], options, kept), batches=1)
    check_copy(url, options)
    check_that_nothing_shows(secret, kept, outside=kept / "events")
