"""A Python program with a Spark session of its own, so that a test can kill it whole. `spark_process` starts it.

    python query_host.py '{"master": "local[2,2]", "conf": {...}}'

It answers on its stdout, a line of JSON for each line of JSON on its stdin: first that it is ready, then for
{"function": name, "arguments": {...}} what that function below returned, or {"failed": ...} with what it raised.

    spark-submit … query_host.py '{"conf": {...}, "once": {"function": …, "arguments": …}}'

The same for one request, as a job that has the package by --py-files.
"""

from __future__ import annotations

import json
import os
import sys
import traceback

from pyspark.sql import functions as F

WAIT_SECONDS = 560


def copy_stream(
    spark,
    *,
    directory,
    checkpoint,
    max_offsets,
    options=None,
    targets=("out",),
    keys_shuffled=False,
    padding_bytes=0,
    **sink,
):
    """Copies `in` to `out`, or by key to two topics, up to the end. A copied row has the source row's place.
    `options` are for source and sink, `sink` for the sink alone. Each value gets so many bytes of padding."""
    rows = _rows_with_their_places(spark, directory, max_offsets, options, targets)
    if padding_bytes:
        rows = rows.withColumn("value", F.concat_ws("|", "value", F.repeat(F.lit("x"), padding_bytes)))
    if keys_shuffled:
        rows = rows.repartition(3, "key")
    writer = rows.writeStream.format("streamlog").options(**(options or {}), **sink)
    _run_to_the_end(writer.option("checkpointLocation", checkpoint), directory)


def copy_by_foreach_batch(spark, *, directory, checkpoint, max_offsets, options=None, targets=("out",)):
    """The same by batch writes, each with its txnAppId and txnVersion."""

    def write(rows, batch):
        pair = {"txnAppId": "copier", "txnVersion": batch, **(options or {})}
        rows.write.format("streamlog").options(**pair).mode("append").save(directory)

    writer = _rows_with_their_places(spark, directory, max_offsets, options, targets).writeStream.foreachBatch(write)
    _run_to_the_end(writer.option("checkpointLocation", checkpoint))


def _rows_with_their_places(spark, directory, max_offsets, options, targets):
    number = "CAST(substring(CAST(key AS STRING), 5) AS INT)"
    topic = f"element_at(array({', '.join(map(repr, targets))}), {number} % {len(targets)} + 1) AS topic"
    return (
        spark.readStream.format("streamlog")
        .option("subscribe", "in")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", max_offsets)
        .option("smallBatchOffsets", 0)  # what dies are tasks: none is spared by the process that plans
        .options(**(options or {}))
        .load(directory)
        .selectExpr(topic, "key", "concat_ws('|', CAST(value AS STRING), partition, offset) AS value")
    )


def _run_to_the_end(writer, *path):
    query = writer.trigger(availableNow=True).start(*path)
    if not query.awaitTermination(WAIT_SECONDS):
        query.stop()
        raise TimeoutError(f"the query did not end within {WAIT_SECONDS} s")


def copy_numbers(spark, *, directory, checkpoint, **options):
    """A stream of one micro-batch into `out`, from files: no log is read."""
    folder = f"{checkpoint}-source"
    spark.range(0, 8, 1, 4).selectExpr("CAST(id AS STRING) AS value").write.mode("overwrite").text(folder)
    writer = spark.readStream.text(folder).writeStream.format("streamlog").option("topic", "out").options(**options)
    _run_to_the_end(writer.option("checkpointLocation", checkpoint), directory)


def count_rows(spark, *, directory, topic):
    return spark.read.format("streamlog").option("subscribe", topic).load(directory).count()


def entries_seen_by_tasks(spark, *, folder, tasks=4):
    """For each of some tasks: the names in a folder of its machine."""
    return spark.sparkContext.parallelize(range(tasks), tasks).map(lambda _: os.listdir(folder)).collect()


def write_batch(spark, *, directory, count, word, tasks=3, **options):
    """A batch write of `count` rows whose values begin with `word`."""
    rows = spark.range(0, count, 1, tasks).selectExpr("CAST(id AS STRING) AS key", f"concat('{word}|', id) AS value")
    writer = rows.write.format("streamlog").option("topic", "out").options(**options)
    writer.mode("append").save(directory)


def main() -> None:
    settings = json.loads(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what Spark prints is no answer
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("kill matrix")
    if "master" in settings:
        builder = builder.master(settings["master"])
    for name, value in settings["conf"].items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel(settings.get("log_level", "ERROR"))
    if "once" in settings:
        # Else Spark does not send the shipped files to the tasks that read and write.
        from spark_streamlog.data_source import StreamlogDataSource

        spark.dataSource.register(StreamlogDataSource)
        globals()[settings["once"]["function"]](spark, **settings["once"]["arguments"])
        spark.stop()
        return
    _answer(answers, {"returned": "ready"})
    for line in sys.stdin:
        request = json.loads(line)
        try:
            _answer(answers, {"returned": globals()[request["function"]](spark, **request["arguments"])})
        except Exception as error:
            _answer(answers, {"failed": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()})
    spark.stop()


def _answer(answers, document) -> None:
    answers.write(json.dumps(document) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
