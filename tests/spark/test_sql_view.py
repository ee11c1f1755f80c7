"""The log from SQL: a temporary view names its options."""

import pytest
from pyspark.errors import AnalysisException
from support.builders.stored_records import make_topic, stored_values


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


def test_a_view_sees_what_was_written_after_it_was_made(spark, log_dir, view):
    spark.sql("select 'more' as value").write.format("streamlog").option("topic", "numbers").mode("append").save(
        log_dir
    )
    assert spark.table(view).count() == 11


def test_rows_of_a_query_over_a_view_are_written_to_another_topic(spark, log_dir, view):
    evens = spark.sql("select value from numbers where cast(cast(value as string) as int) % 2 = 0")
    evens.write.format("streamlog").option("topic", "evens").mode("append").save(log_dir)
    assert sorted(stored_values(log_dir, "evens")) == [b"0", b"2", b"4", b"6", b"8"]


def test_a_view_with_a_wrong_option_is_refused_by_name(spark, log_dir):
    make_topic(log_dir, "t")
    with pytest.raises(AnalysisException, match="did you mean subscribe"):
        spark.sql(f"CREATE TEMPORARY VIEW v USING streamlog OPTIONS (path '{log_dir}', subscribes 't')")
