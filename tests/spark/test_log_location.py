"""A path as a user of Spark may write it: plain, or as a `file:` URL. Other URLs are refused by name."""

import pytest
from pyspark.errors import PySparkException
from support.builders.stored_records import stored_values


def reader(spark):
    return spark.read.format("streamlog").option("subscribe", "t")


def write(spark, path):
    rows = spark.sql("SELECT 'one' AS value")
    rows.write.format("streamlog").option("topic", "t").mode("append").save(path)


def copy(spark, source, target, checkpoint):
    query = (
        spark.readStream.format("streamlog")
        .options(subscribe="t", startingOffsets="earliest")
        .load(source)
        .writeStream.format("streamlog")
        .options(topic="copy", checkpointLocation=checkpoint)
        .trigger(availableNow=True)
        .start(target)
    )
    query.awaitTermination()


def test_save_load_and_start_accept_a_file_url(spark, log_dir, tmp_path):
    write(spark, f"file://{log_dir}")
    assert stored_values(log_dir, "t") == [b"one"]
    assert reader(spark).load(f"file://{log_dir}").count() == 1
    assert reader(spark).option("path", f"file:{log_dir}").load().count() == 1
    copy(spark, f"file://{log_dir}", f"file://{log_dir}", f"file://{tmp_path}/checkpoint")
    assert stored_values(log_dir, "copy") == [b"one"]


@pytest.mark.parametrize("location", ["hdfs://host/log", pytest.param("file://host/log", marks=pytest.mark.long)])
def test_an_unsupported_url_is_refused_by_name_and_creates_no_directory(
    spark, log_dir, tmp_path, monkeypatch, location
):
    write(spark, log_dir)
    there = sorted(tmp_path.iterdir())
    monkeypatch.chdir(tmp_path)
    for attempt in (
        lambda: write(spark, location),
        lambda: reader(spark).load(location).count(),
        lambda: copy(spark, location, log_dir, str(tmp_path / "one")),
        lambda: copy(spark, log_dir, location, str(tmp_path / "two")),
    ):
        with pytest.raises(PySparkException) as refused:
            attempt()
        assert "STREAMLOG_INVALID_OPTIONS" in str(refused.value)
        assert location in str(refused.value)
        assert "kafka.bootstrap.servers" in str(refused.value)
    assert [path for path in sorted(tmp_path.iterdir()) if path.name not in ("one", "two")] == there


def test_a_place_where_nobody_may_write_is_one_sentence_without_a_traceback(spark, tmp_path):
    rows = spark.sql("SELECT 'one' AS value")
    with pytest.raises(PySparkException) as batch:
        write(spark, "/proc/x")
    with pytest.raises(PySparkException) as at_least_once:
        rows.write.format("streamlog").options(topic="t", delivery="at-least-once").mode("append").save("/proc/x")
    write(spark, str(tmp_path / "log"))
    with pytest.raises(PySparkException) as stream:
        copy(spark, str(tmp_path / "log"), "/proc/x", str(tmp_path / "checkpoint"))
    for caught in (batch, at_least_once, stream):
        message = str(caught.value)
        assert "Traceback" not in message and 'File "' not in message
        assert "[STREAMLOG_DIRECTORY_READ_ONLY] No log directory can be created at /proc/x: this process" in message
        assert "Give a path in a directory that it may write to: the path of load() or save()" in message
