"""Which columns the sink takes, and what it says about the others."""

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from spark_streamlog.errors import ConditionError
from spark_streamlog.rows.sink_columns import sink_columns
from spark_streamlog.serde.format_settings import FormatKind, FormatSettings, RecordFormats, WireFormat
from spark_streamlog.serde.schema_registry import RegistryTarget

HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])


def a_schema(**types):
    return StructType([StructField(name, kind) for name, kind in types.items()])


def refusal(schema, topic_option="t"):
    with pytest.raises(ConditionError) as caught:
        sink_columns(schema, topic_option=topic_option)
    assert caught.value.condition == "STREAMLOG_INVALID_SINK_COLUMNS"
    return str(caught.value)


@pytest.mark.parametrize("kind", [StringType(), BinaryType(), StringType("UNICODE_CI")])
def test_value_is_the_only_required_column_with_the_option_topic(kind):
    columns = sink_columns(a_schema(value=kind), topic_option="t")
    assert columns.record_columns == ("value",)
    assert not columns.has_topic


def test_known_columns_are_used_and_others_ignored():
    schema = a_schema(
        offset=LongType(), headers=ArrayType(HEADER), key=StringType(), value=BinaryType(), topic=StringType(),
        partition=IntegerType(), timestamp=TimestampType(), timestampType=IntegerType(),
    )  # fmt: skip
    columns = sink_columns(schema, topic_option=None)
    assert columns.record_columns == ("value", "key", "headers", "timestamp", "partition")
    assert columns.has_topic


def test_the_nullability_of_columns_is_ignored():
    pair = StructType([StructField("key", StringType(), False), StructField("value", BinaryType(), False)])
    schema = StructType(
        [StructField("value", StringType(), False), StructField("headers", ArrayType(pair, False), False)]
    )
    assert sink_columns(schema, topic_option="t").record_columns == ("value", "headers")


def test_a_missing_value_is_refused_in_sparks_words():
    message = refusal(a_schema(key=StringType()))
    assert "required attribute 'value' not found" in message
    assert "Their columns: key string" in message


def test_a_missing_topic_is_refused_in_sparks_words():
    message = refusal(a_schema(value=StringType()), topic_option=None)
    assert "topic option required when no 'topic' attribute is present" in message


def test_column_names_are_case_sensitive():
    assert "required attribute 'value' not found" in refusal(a_schema(Value=StringType()))


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("value", IntegerType(), "value attribute unsupported type int. value must be a(n) string or binary"),
        ("key", LongType(), "key attribute unsupported type bigint. key must be a(n) string or binary"),
        ("topic", BinaryType(), "topic attribute unsupported type binary. topic must be a(n) string"),
        ("partition", LongType(), "partition attribute unsupported type bigint. partition must be a(n) int"),
        ("headers", StringType(), "headers must be a(n) array<struct<key:string,value:binary>>"),
        ("headers", ArrayType(StructType([StructField("k", StringType()), StructField("v", BinaryType())])), "headers"),
        ("timestamp", LongType(), "timestamp attribute unsupported type bigint. timestamp must be a(n) timestamp"),
        ("timestamp", TimestampNTZType(), "timestamp attribute unsupported type timestamp_ntz"),
    ],
)
def test_a_wrong_type_is_refused_with_the_name_of_the_column(name, kind, words):
    types = {"value": StringType(), "topic": StringType()} | {name: kind}
    assert words in refusal(a_schema(**types), topic_option=None)


def test_the_type_of_a_column_topic_is_not_checked_with_the_option_topic():
    assert sink_columns(a_schema(value=StringType(), topic=IntegerType()), topic_option="t").has_topic is False


def test_a_duplicate_column_is_refused():
    schema = StructType([StructField("value", StringType()), StructField("value", StringType())])
    assert "column 'value' appears twice" in refusal(schema)


def test_all_complaints_are_reported_together():
    message = refusal(a_schema(key=LongType(), partition=StringType()), topic_option=None)
    for words in ("'value' not found", "topic option required", "key attribute", "partition attribute"):
        assert words in message


# -- typed columns --


def typed(schema, **formats):
    return sink_columns(schema, topic_option="t", formats=RecordFormats(**formats)).typed


def typed_refusal(schema, **formats):
    with pytest.raises(ConditionError) as caught:
        sink_columns(schema, topic_option="t", formats=RecordFormats(**formats))
    assert caught.value.condition == "STREAMLOG_INVALID_SINK_COLUMNS"
    return str(caught.value)


LONG = FormatSettings(kind=FormatKind.LONG)
JSON = FormatSettings(kind=FormatKind.JSON)


def test_a_column_with_a_format_accepts_the_formats_type():
    pair = StructType([StructField("a", TimestampType())])
    key, value = typed(a_schema(key=IntegerType(), value=pair), key=LONG, value=JSON)
    assert (key.name, key.settings, str(key.arrow_type)) == ("key", LONG, "int32")
    assert (value.name, str(value.arrow_type)) == ("value", "struct<a: timestamp[us, tz=UTC]>")


def test_a_side_without_column_or_format_is_unchanged():
    assert typed(a_schema(value=StringType()), key=LONG) == ()
    assert "key attribute unsupported type int" in typed_refusal(
        a_schema(key=IntegerType(), value=LongType()), value=LONG
    )


def test_a_type_that_the_format_cannot_write_is_refused_with_the_name_of_the_column():
    message = typed_refusal(a_schema(key=StringType(), value=IntegerType()), key=LONG, value=JSON)
    assert "key attribute unsupported type string for keyFormat=long: string cannot be written as long" in message
    assert "value attribute unsupported type int for valueFormat=json: int32 cannot be written as JSON" in message


def test_a_missing_value_is_also_refused_with_a_format():
    assert "required attribute 'value' not found" in typed_refusal(a_schema(key=LongType()), value=JSON)


def test_a_schema_is_registered_only_during_planning_and_without_complaints(tmp_path):
    path = tmp_path / "registry.json"
    avro = FormatSettings(
        kind=FormatKind.AVRO,
        wire_format=WireFormat.CONFLUENT,
        registry=RegistryTarget(path=str(path)),
        subject="t-value",
    )
    typed_refusal(a_schema(key=StringType(), value=LongType()), key=LONG, value=avro)
    sink_columns(a_schema(value=LongType()), topic_option="t", formats=RecordFormats(value=avro), is_planning=False)
    assert not path.exists()
    (column,) = typed(a_schema(value=LongType()), value=avro)
    assert column.settings.schema_id == 1
    assert path.exists()


def test_a_registry_error_becomes_a_condition(tmp_path):
    (tmp_path / "registry.json").write_text("nonsense")
    avro = FormatSettings(
        kind=FormatKind.AVRO, wire_format=WireFormat.CONFLUENT, subject="t-value",
        registry=RegistryTarget(path=str(tmp_path / "registry.json")),
    )  # fmt: skip
    with pytest.raises(ConditionError) as caught:
        typed(a_schema(value=LongType()), value=avro)
    assert caught.value.condition == "STREAMLOG_SCHEMA_REGISTRY"
