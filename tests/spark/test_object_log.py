"""`format("streamlog")` on object storage: a folder as a store, and S3 by a server of this machine where one starts."""

import io
import json
from contextlib import redirect_stdout

import pytest
from chispa import assert_df_equality
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from support.objects.s3_servers import BUCKET, SECRET_KEY, find_versitygw, moto, versitygw
from support.spark.object_place import ObjectPlace
from support.spark.stream_driver import forget_last_commit

from broker_core.model.exceptions import InvalidConfigError
from broker_core.model.identifiers import TopicPartition
from broker_core.model.store_settings import SECRET_OPTIONS, parse_store_settings
from broker_core.object_cluster.open_objects import open_objects

pytest.importorskip("obstore", reason="obstore is not installed: pip install 'spark-streamlog[objects]'")

ROWS = "key string, value string, partition int"


@pytest.fixture
def place(spark, tmp_path):
    return ObjectPlace(spark, f"objects://{tmp_path}/shared/log")


@pytest.fixture(scope="module")
def s3_server(tmp_path_factory):
    """versitygw where it is installed, else moto."""
    with versitygw(tmp_path_factory.mktemp("versitygw")) if find_versitygw() else moto() as server:
        yield server


@pytest.fixture
def s3_place(spark, s3_server, tmp_path):
    return ObjectPlace(spark, f"s3://{BUCKET}/{tmp_path.name}/log", s3_server.options())


def numbers(spark, count, *, first=0, tasks=1):
    return spark.range(first, first + count, 1, tasks).selectExpr("string(id % 5) AS key", "string(id) AS value")


def refusal(action):
    with pytest.raises(PySparkException) as caught:
        action()
    return str(caught.value)


def shown_plan(frame):
    output = io.StringIO()
    with redirect_stdout(output):
        frame.explain(True)
    return output.getvalue()


# -- batch --


def test_rows_of_a_batch_are_read_back_column_by_column(spark, place):
    rows = [("a", "1", 0, [("h", bytearray(b"x")), ("h", None)]), ("b", "2", 1, None), (None, None, 1, None)]
    schema = f"{ROWS}, headers array<struct<key:string,value:binary>>"
    written = spark.createDataFrame(rows, schema).coalesce(1)
    place.write(written, topic="t", topic__partitions=2)
    found = place.read(includeHeaders=True)
    as_written = found.selectExpr("string(key) AS key", "string(value) AS value", "partition", "headers")
    assert_df_equality(as_written, written, ignore_row_order=True, ignore_nullable=True)
    assert sorted((r.topic, r.partition, r.offset) for r in found.collect()) == [("t", 0, 0), ("t", 1, 0), ("t", 1, 1)]


def test_a_job_of_several_tasks_and_topics_is_one_commit(spark, place, tmp_path):
    with open_objects(place.url, create=True) as log:
        for number in range(3):
            log.create_topic(f"topic-{number}")
    commits = tmp_path / "shared" / "log" / "commits"
    before = len(list(commits.iterdir()))
    place.write(spark.range(0, 300, 1, 3).selectExpr("concat('topic-', id % 3) AS topic", "string(id) AS value"))
    assert len(list(commits.iterdir())) == before + 1
    for number in range(3):
        assert sorted(map(int, place.values(f"topic-{number}"))) == list(range(number, 300, 3))


def test_a_txn_version_is_written_once(spark, place):
    for _ in range(2):
        place.write(numbers(spark, 3), topic="t", txnAppId="nightly", txnVersion=7)
    place.write(numbers(spark, 3, first=10), topic="t", txnAppId="nightly", txnVersion=6)
    assert place.values() == ["0", "1", "2"]
    place.write(numbers(spark, 1, first=3), topic="t", txnAppId="nightly", txnVersion=8)
    assert place.values() == ["0", "1", "2", "3"]


def test_at_least_once_delivery_writes_all_rows(spark, place, tmp_path):
    place.write(numbers(spark, 50, tasks=2), topic="t", delivery="at-least-once")
    assert sorted(map(int, place.values())) == list(range(50))
    place.copy(tmp_path / "checkpoint", write={"topic": "copy", "delivery": "at-least-once"})
    assert sorted(map(int, place.values("copy"))) == list(range(50))


# -- streams --


def test_a_stream_copies_in_bounded_batches_and_a_repeated_last_batch_writes_nothing(spark, place, tmp_path):
    place.write(numbers(spark, 100, tasks=2), topic="t", topic__partitions=2)
    read, write = {"maxOffsetsPerTrigger": 30}, {"topic": "copy", "topic.partitions": 3}
    assert place.copy(tmp_path / "checkpoint", read=read, write=write) >= 4
    forget_last_commit(tmp_path / "checkpoint")
    assert place.copy(tmp_path / "checkpoint", read=read, write=write) >= 1, "no batch was repeated"
    assert sorted(map(int, place.values("copy"))) == list(range(100))
    place.write(numbers(spark, 10, first=100), topic="t")
    place.copy(tmp_path / "checkpoint", read=read, write=write)
    assert sorted(map(int, place.values("copy"))) == list(range(110))


def test_a_query_commits_its_progress_to_its_group(spark, place, tmp_path):
    place.write(numbers(spark, 20), topic="t")
    place.copy(tmp_path / "checkpoint", read={"groupId": "watched", "maxOffsetsPerTrigger": 8})
    with place.open() as log:
        committed = log.fetch_offsets("watched")[TopicPartition("t", 0)].offset
    assert 16 <= committed <= 20  # the last batch is known to be done when the next one is planned
    lag = spark.read.format("streamlog").option("table", "lag").option("groupId", "watched").load(place.url)
    assert [row.topic for row in lag.collect()] == ["t"]


# -- where a query starts, and what it need not read --


def test_a_query_can_start_offsets_before_the_end_or_a_duration_ago(spark, place):
    old = spark.sql("SELECT 'old' AS value, current_timestamp() - INTERVAL 2 HOURS AS timestamp")
    place.write(old, topic="t")
    place.write(numbers(spark, 3), topic="t")
    assert place.values(startingOffsets="latest-2") == ["1", "2"]
    assert place.values(startingOffsets="-1h") == ["0", "1", "2"]


def test_filters_give_the_same_rows_as_reading_everything(spark, place):
    place.write(numbers(spark, 60, tasks=2), topic="t", topic__partitions=3)
    condition = F.col("partition").isin(0, 2) & (F.col("offset") >= 3)
    expected = sorted((r.partition, r.offset) for r in place.read().collect() if r.partition != 1 and r.offset >= 3)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        found = place.read(pushFilters="always").where(condition).collect()
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    assert expected
    assert sorted((r.partition, r.offset) for r in found) == expected


def test_json_values_are_read_as_typed_columns(spark, place):
    schema = "id BIGINT, word STRING"
    frame = spark.sql("SELECT named_struct('id', 7L, 'word', 'seven') AS value")
    place.write(frame, topic="t", valueFormat="json")
    assert json.loads(place.values()[0]) == {"id": 7, "word": "seven"}
    (row,) = place.read(valueFormat="json", valueFormat__schema=schema).select("value.*").collect()
    assert (row.id, row.word) == (7, "seven")


# -- refusals --


def test_a_missing_log_is_refused_with_its_url_and_not_created(place, tmp_path):
    message = refusal(place.read().collect)
    assert "STREAMLOG_NO_SUCH_LOG" in message
    assert place.url in message
    assert not (tmp_path / "shared" / "log" / "streamlog.json").exists()


def test_a_misspelled_option_is_refused_with_the_nearest_name(spark, place):
    place.options["object.timeout.msec"] = "5"
    assert "Did you mean object.timeout.ms?" in refusal(lambda: place.write(numbers(spark, 1), topic="t"))
    place.options = {"object.region": "eu-west-1"}
    assert "object.region is for s3://, not for objects://" in refusal(place.read)


def test_options_of_a_store_are_refused_for_a_directory(spark, tmp_path):
    directory = ObjectPlace(spark, str(tmp_path / "log"), {"object.region": "eu-west-1"})
    message = refusal(lambda: directory.write(numbers(spark, 1), topic="t"))
    assert "object.region needs a log on object storage, whose path is a URL such as s3://bucket/log" in message


def test_a_missing_bucket_is_refused_with_its_name_and_without_the_secret(spark, s3_place):
    s3_place.url = s3_place.url.replace(f"s3://{BUCKET}/", "s3://no-such-bucket/")
    for action in (lambda: s3_place.write(numbers(spark, 1), topic="t"), s3_place.read().collect):
        message = refusal(action)
        assert "the bucket 'no-such-bucket' does not exist" in message
        assert SECRET_KEY not in message


def test_an_unreachable_store_is_reported_with_the_option_to_check(spark, s3_place):
    s3_place.options |= {"object.endpoint": "http://127.0.0.1:1", "object.max.retries": "0"}
    message = refusal(s3_place.read().collect)
    assert "cannot be reached" in message
    assert "object.endpoint" in message
    assert SECRET_KEY not in message


# -- S3 --


def is_option_of(url, name):
    try:
        parse_store_settings(url, {name: "x"})
    except InvalidConfigError:
        return False
    return True


def test_the_plan_of_a_stream_shows_its_options_and_no_secret_of_any_store(spark):
    shown = set()
    for url in ("s3://b/log", "gs://b/log", "az://c/log"):
        secrets = {name: "topsecret" for name in SECRET_OPTIONS if is_option_of(url, name)}
        options = {"subscribe": "t", "object.timeout.ms": "1234", **secrets}
        plan = shown_plan(spark.readStream.format("streamlog").options(**options).load(url))
        assert "object.timeout.ms=1234" in plan
        assert "topsecret" not in plan
        shown |= {name for name in secrets if f"{name}=*********(redacted)" in plan}
    assert shown == SECRET_OPTIONS


def test_on_s3_a_batch_and_a_stream_write_once_and_no_plan_shows_the_secret(spark, s3_place, tmp_path):
    s3_place.write(numbers(spark, 50, tasks=2), topic="t", topic__partitions=2)
    assert sorted(map(int, s3_place.values())) == list(range(50))
    s3_place.copy(tmp_path / "checkpoint", read={"maxOffsetsPerTrigger": 20})
    forget_last_commit(tmp_path / "checkpoint")
    assert s3_place.copy(tmp_path / "checkpoint", read={"maxOffsetsPerTrigger": 20}) >= 1, "no batch was repeated"
    assert sorted(map(int, s3_place.values("copy"))) == list(range(50))
    plan = shown_plan(s3_place.read())
    assert "streamlog" in plan.lower()
    assert SECRET_KEY not in plan
    kept = [file for file in (tmp_path / "checkpoint").rglob("*") if file.is_file()]
    assert kept
    assert not [file for file in kept if SECRET_KEY.encode() in file.read_bytes()]
