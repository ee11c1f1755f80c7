"""The column functions without Spark: their options, and what they do in a task. With it: tests/spark/test_serde.py."""

import inspect

import pyarrow as pa
import pytest
from pyspark.sql.avro import functions as spark_avro
from pyspark.sql.protobuf import functions as spark_protobuf
from support.builders.protobuf_messages import DESCRIPTOR_SET

from spark_streamlog import functions
from spark_streamlog.errors import ConditionError
from spark_streamlog.serde.file_registry import FileRegistry
from spark_streamlog.serde.format_settings import CorruptMode, FormatKind, FormatSettings, WireFormat
from spark_streamlog.serde.schema_registry import RegistryTarget

INT = FormatSettings(kind=FormatKind.INT, mode=CorruptMode.FAIL_FAST)


def refused(call):
    with pytest.raises(ConditionError) as error:
        call()
    assert error.value.condition == "STREAMLOG_INVALID_OPTIONS"
    return str(error.value)


@pytest.mark.parametrize(
    ("ours", "sparks"),
    [
        (functions.from_avro, spark_avro.from_avro),
        (functions.to_avro, spark_avro.to_avro),
        (functions.from_protobuf, spark_protobuf.from_protobuf),
        (functions.to_protobuf, spark_protobuf.to_protobuf),
    ],
)
def test_parameters_have_the_names_and_order_of_sparks(ours, sparks):
    wanted = list(inspect.signature(sparks).parameters)
    assert list(inspect.signature(ours).parameters)[: len(wanted)] == wanted


def test_a_corrupt_value_fails_or_is_null_in_permissive_mode():
    values = pa.array([b"\0\0\0\1", b"x", None])
    with pytest.raises(ConditionError, match=r"cannot be read as int: int needs 4 bytes, .* mode=PERMISSIVE") as error:
        functions.decoded_column(INT, values)
    assert error.value.condition == "STREAMLOG_CORRUPT_VALUE"
    permissive = FormatSettings(kind=FormatKind.INT, mode=CorruptMode.PERMISSIVE)
    assert functions.decoded_column(permissive, values).to_pylist() == [1, None, None]


def test_a_column_that_cannot_be_written_raises_a_condition():
    with pytest.raises(ConditionError) as error:
        functions.encoded_column(INT, pa.array(["x"]))
    assert error.value.condition == "STREAMLOG_INVALID_SCHEMA"
    enum = FormatSettings(kind=FormatKind.AVRO, schema_text='{"type":"enum","name":"e","symbols":["A"]}')
    with pytest.raises(ConditionError) as error:
        functions.encoded_column(enum, pa.array(["B"]))
    assert error.value.condition == "STREAMLOG_CANNOT_SERIALIZE"


def test_a_derived_schema_is_registered_in_the_task(tmp_path):
    path = str(tmp_path / "registry.json")
    settings = FormatSettings(
        kind=FormatKind.AVRO, wire_format=WireFormat.CONFLUENT, registry=RegistryTarget(path=path), subject="s"
    )
    assert functions.encoded_column(settings, pa.array([5])).to_pylist() == [b"\0\0\0\0\1\n"]
    assert FileRegistry(path).latest("s").text == "long"


def test_bytes_are_binary_and_json_is_text():
    assert functions.encoded_column(INT, pa.array([1], pa.int32())).type == pa.binary()
    rows = pa.array([{"a": 1}])
    assert functions.encoded_column(FormatSettings(kind=FormatKind.JSON), rows).to_pylist() == ['{"a":1}']


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: functions.from_avro("v"), "schema is missing"),
        (lambda: functions.from_avro("v", "{"), "avro: the Avro schema is not JSON"),
        (
            lambda: functions.from_avro("v", '"int"', {"mode": "DROPMALFORMED"}),
            "a column function cannot drop rows",
        ),
        (lambda: functions.from_avro("v", '"int"', {"mode": "SOME"}), "mode must be one of"),
        (lambda: functions.from_avro("v", '"int"', {"schema": '"int"'}), "schema is set twice"),
        (lambda: functions.from_avro("v", '"int"', {"avroSchema": '"string"'}), "cannot be read as string"),
        (
            lambda: functions.from_avro("v", '"int"', {"recursiveFieldMaxDepth": "2"}),
            "is not an option of the streamlog",
        ),
        (lambda: functions.from_avro("v", '"int"', {"message": "M"}), "message is not an option of avro"),
        (lambda: functions.to_avro("v", "{"), "avro: the Avro schema is not JSON"),
        (lambda: functions.to_avro("v", "", {"registry.file": "/r"}), "subject is missing"),
        (lambda: functions.from_protobuf("v", "M"), "descriptor.file is missing"),
        (lambda: functions.from_protobuf("v", "M", "/nowhere"), "descriptor.file cannot be read"),
        (lambda: functions.from_protobuf("v", "M", binaryDescriptorSet=b"x"), "is not a descriptor set"),
        (lambda: functions.from_protobuf("v", "Nobody", binaryDescriptorSet=DESCRIPTOR_SET), "'Nobody' is not in"),
        (lambda: functions.to_protobuf("v", "Nobody", binaryDescriptorSet=DESCRIPTOR_SET), "'Nobody' is not in"),
        (lambda: functions.from_json("v", "a NUMBER"), "'number' is not a known type"),
        (lambda: functions.from_int("v", {"x": "y"}), "x is not an option of the streamlog function from_int"),
    ],
)
def test_invalid_options_are_refused_before_a_column_exists(call, said):
    assert said in refused(call)


def test_all_complaints_are_reported_together():
    text = refused(lambda: functions.from_avro("v", options={"mode": "x", "unheard": "of"}))
    assert "2 option(s) of the streamlog function from_avro" in text


def test_with_a_registry_values_are_read_with_the_latest_or_given_schema(tmp_path):
    path = str(tmp_path / "registry.json")
    FileRegistry(path).register("s", '"int"', "AVRO")
    options = {"registry.file": path, "subject": "s", "mode": "PERMISSIVE"}
    values = pa.array([b"\0\0\0\0\1\n", b"\0\0\0\0\2\n", b"\n"])
    for schema, arrow_type in ((None, pa.int32()), ('"long"', pa.int64())):
        settings = functions._settings("from_avro", FormatKind.AVRO, {"schema": schema}, options)
        assert functions.decoded_column(settings, values).equals(pa.array([5, None, None], arrow_type))
