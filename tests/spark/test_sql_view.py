"""The log from SQL: a temporary view names its options; a table of the catalog would lose them."""

import re

import pytest
from chispa import assert_df_equality
from pyspark.errors import AnalysisException, StreamingQueryException
from support.builders.stored_records import make_topic, stored_records, stored_values


@pytest.fixture
def view(spark, log_dir):
    """A view over the topic `numbers` with the values 0 to 9."""
    make_topic(log_dir, "numbers", partition_count=2)
    frame = spark.range(10).selectExpr("cast(id as string) as key", "cast(id as string) as value")
    frame.write.format("streamlog").option("topic", "numbers").mode("append").save(log_dir)
    spark.sql(
        "CREATE TEMPORARY VIEW numbers USING streamlog "
        f"OPTIONS (path '{log_dir}', subscribe 'numbers', includeHeaders 'true')"
    )
    yield "numbers"
    spark.catalog.dropTempView("numbers")


def test_a_view_reads_the_topic_with_kafkas_columns(spark, view):
    assert spark.table(view).columns == [
        "key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers",
    ]  # fmt: skip
    row = spark.sql("select count(*) as n, sum(cast(cast(value as string) as int)) as total from numbers").first()
    assert (row.n, row.total) == (10, 45)


def test_a_view_sees_rows_written_after_its_creation(spark, log_dir, view):
    spark.sql("select 'more' as value").write.format("streamlog").option("topic", "numbers").mode("append").save(
        log_dir
    )
    assert spark.table(view).count() == 11


def test_rows_of_a_query_over_a_view_are_written_to_another_topic(spark, log_dir, view):
    evens = spark.sql("select value from numbers where cast(cast(value as string) as int) % 2 = 0")
    evens.write.format("streamlog").option("topic", "evens").mode("append").save(log_dir)
    assert sorted(stored_values(log_dir, "evens")) == [b"0", b"2", b"4", b"6", b"8"]


def test_a_view_with_an_invalid_option_is_refused_by_name(spark, log_dir):
    make_topic(log_dir, "t")
    with pytest.raises(AnalysisException, match="did you mean subscribe"):
        spark.sql(f"CREATE TEMPORARY VIEW v USING streamlog OPTIONS (path '{log_dir}', subscribes 't')")


VIEW_TO_WRITE = "path '{log_dir}', subscribe 'numbers', topic 'numbers'"
CATALOG_TABLE = r"STREAMLOG_CATALOG_TABLE.*CREATE TEMPORARY VIEW name USING streamlog"


@pytest.fixture
def made(spark, log_dir, view):
    """Runs a statement with the view's options in place of `…`, and drops what it has made."""
    names = []

    def make(statement, options=VIEW_TO_WRITE):
        names.append(re.search(r"(?:VIEW|TABLE) (\w+)", statement)[1])
        spark.sql(statement.replace("…", options.format(log_dir=log_dir)))

    yield make
    for name in names:
        spark.sql(f"DROP {'VIEW' if name.startswith('v') else 'TABLE'} IF EXISTS {name}")


def test_insert_into_a_view_writes_to_its_topic(spark, log_dir, made):
    made("CREATE TEMPORARY VIEW v USING streamlog OPTIONS (…)")
    spark.sql("INSERT INTO v (value, key) VALUES (CAST('ten' AS BINARY), CAST('k' AS BINARY))")
    spark.sql("INSERT INTO v (value) SELECT value FROM numbers WHERE value = CAST('9' AS BINARY)")
    values = [(bytearray(value.encode()),) for value in (*map(str, range(10)), "9", "ten")]
    expected = spark.createDataFrame(values, "value binary")
    assert_df_equality(spark.table("v").select("value"), expected, ignore_row_order=True, ignore_nullable=True)
    assert stored_records(log_dir, "numbers")[-1]["timestamp"] is not None


def test_insert_into_a_typed_view_accepts_the_types_of_the_view(spark, made):
    made(
        "CREATE TEMPORARY VIEW v USING streamlog OPTIONS (…)",
        options=VIEW_TO_WRITE + ", keyFormat 'string', valueFormat 'long'",
    )
    spark.sql("INSERT INTO v (key, value) VALUES ('k', 77)")
    assert spark.sql("SELECT key, value FROM v WHERE key = 'k'").first() == ("k", 77)


def test_insert_into_a_view_without_a_topic_is_refused_with_advice(spark, view):
    with pytest.raises(AnalysisException, match="set the option topic to the topic to write to"):
        spark.sql("INSERT INTO numbers (value) VALUES (CAST('x' AS BINARY))")


def test_insert_overwrite_is_refused(spark, made):
    made("CREATE TEMPORARY VIEW v USING streamlog OPTIONS (…)")
    with pytest.raises(AnalysisException, match="STREAMLOG_UNSUPPORTED_SAVE_MODE"):
        spark.sql("INSERT OVERWRITE v (value) VALUES (CAST('x' AS BINARY))")


def test_a_catalog_table_is_refused_when_it_is_created(spark, made):
    with pytest.raises(AnalysisException, match=CATALOG_TABLE):
        made("CREATE TABLE t1 USING streamlog OPTIONS (…)")
    assert spark.sql("SHOW TABLES").where("tableName = 't1'").count() == 0


@pytest.mark.long
def test_a_catalog_table_with_its_own_columns_is_refused_when_it_is_read(spark, made):
    made("CREATE TABLE t1 (value BINARY) USING streamlog OPTIONS (…)")
    with pytest.raises(AnalysisException, match=CATALOG_TABLE):
        spark.table("t1").collect()


def test_create_table_as_select_is_refused_and_creates_no_table(spark, made):
    with pytest.raises(AnalysisException, match="no options arrived: Spark passes none for a table"):
        made("CREATE TABLE t2 USING streamlog OPTIONS (…) AS SELECT '1' AS value")
    assert spark.sql("SHOW TABLES").where("tableName = 't2'").count() == 0


def test_save_as_table_writes_to_the_log_and_reading_its_table_gives_advice(spark, log_dir):
    writer = spark.sql("SELECT 'x' AS value").write.format("streamlog").mode("append")
    writer.options(path=log_dir, topic="saved").saveAsTable("t3")
    try:
        assert stored_values(log_dir, "saved") == [b"x"]
        with pytest.raises(AnalysisException, match=CATALOG_TABLE):
            spark.table("t3").collect()
        with pytest.raises(AnalysisException, match="no options arrived"):
            spark.sql("INSERT INTO t3 VALUES ('y')")
    finally:
        spark.sql("DROP TABLE t3")
    assert stored_values(log_dir, "saved") == [b"x"]


@pytest.mark.long
def test_to_table_writes_to_the_log_and_reading_its_table_gives_advice(spark, log_dir, source, tmp_path):
    source((1, "a"))
    rows = spark.readStream.schema("number long, word string").json(source.folder).selectExpr("word AS value")
    writer = rows.writeStream.format("streamlog").options(path=log_dir, topic="streamed")
    try:
        query = writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).toTable("t4")
        query.awaitTermination()
        assert stored_values(log_dir, "streamed") == [b"a"]
        with pytest.raises(AnalysisException, match=CATALOG_TABLE):
            spark.table("t4").collect()
        again = (
            spark.readStream.table("t4").writeStream.format("noop").option("checkpointLocation", str(tmp_path / "d"))
        )
        with pytest.raises(StreamingQueryException, match=CATALOG_TABLE):
            again.start().awaitTermination()
    finally:
        spark.sql("DROP TABLE IF EXISTS t4")
