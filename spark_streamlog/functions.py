"""Column functions between bytes and typed values: on classic Spark and on Spark Connect, without a JAR or pandas.

    from spark_streamlog.functions import from_avro, to_avro

    events.select(from_avro("value", schema, {"mode": "PERMISSIVE"}).alias("event"))
    events.select(from_avro("value", options={"registry.url": "http://registry:8081", "subject": "events-value"}))

`from_avro`, `to_avro`, `from_protobuf` and `to_protobuf` take what pyspark.sql.avro.functions and
pyspark.sql.protobuf.functions take, and return the same types; `serde.avro_schema` and `serde.protobuf_types` say where
they differ. The options are those of the source and sink without their prefix (see `format_options`): with a registry
both Avro functions use Confluent's wire format. The other functions are Kafka's own serializers and JSON.

A corrupt value fails the query with the mode FAILFAST, the default as in Spark, and is null with PERMISSIVE: the whole
value, where spark-avro and spark-protobuf return a struct of nulls. A null is null both ways. An Avro value with extra
bytes after its end is corrupt too; spark-avro ignores them.

Executors need this package, installed or by --py-files. They read a registry's file, but not schema and descriptor
files: their content is sent with the query.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]  # its stubs lack it
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import BinaryType, DataType, StringType

from spark_streamlog.errors import with_conditions
from spark_streamlog.options.format_options import SETTINGS, prepared_for_reading, prepared_for_writing, read_settings
from spark_streamlog.options.option_reader import OptionReader
from spark_streamlog.serde.decoded_values import Encoder
from spark_streamlog.serde.format_settings import CorruptMode, FormatKind, FormatSettings, WireFormat
from spark_streamlog.serde.serde_errors import CorruptValueError
from spark_streamlog.serde.value_formats import decoder_for, encoder_for, with_schema_id

if TYPE_CHECKING:
    from pyspark.sql import Column

Options = Mapping[str, str] | None


def from_avro(data: Column | str, jsonFormatSchema: str | None = None, options: Options = None) -> Column:
    """A typed column of Avro values.

    Plain values were written with `jsonFormatSchema`, and are read as the option avroSchema if that is given. In the
    wire format (option registry.url or registry.file) each value names its schema, and all are read as
    `jsonFormatSchema`, or as the latest version of the option subject.
    """
    settings = _settings("from_avro", FormatKind.AVRO, {"schema": jsonFormatSchema}, options)
    return _decoding("from_avro", data, settings)


def to_avro(data: Column | str, jsonFormatSchema: str = "", options: Options = None) -> Column:
    """Avro values of a column, with the given schema or else with the one that spark-avro derives from its type.

    The bytes are those of the value itself: spark-avro makes a nullable column a union with null, and begins each value
    with its branch. With a registry the schema is registered under the option subject, or only looked up there with
    autoRegister=false, and each value is prefixed with its id.
    """
    settings = _settings("to_avro", FormatKind.AVRO, {"schema": jsonFormatSchema or None}, options)
    return _encoding("to_avro", data, settings, BinaryType())


def from_protobuf(
    data: Column | str,
    messageName: str,
    descFilePath: str | None = None,
    options: Options = None,
    binaryDescriptorSet: bytes | None = None,
) -> Column:
    """A column of structs of Protobuf values; option wireFormat=confluent reads what a registry's serializer wrote.

    The descriptor file is read here, on the client. There are no Java classes to take a descriptor from.
    """
    given = {"message": messageName, "descriptor.file": descFilePath}
    settings = _settings("from_protobuf", FormatKind.PROTOBUF, given, options, binaryDescriptorSet)
    return _decoding("from_protobuf", data, settings)


def to_protobuf(
    data: Column | str,
    messageName: str,
    descFilePath: str | None = None,
    options: Options = None,
    binaryDescriptorSet: bytes | None = None,
) -> Column:
    """Protobuf values of a column of structs. With a registry each is prefixed with the latest schema id of the option
    subject, or with wireFormat=confluent with the option schema.id.
    """
    given = {"message": messageName, "descriptor.file": descFilePath}
    settings = _settings("to_protobuf", FormatKind.PROTOBUF, given, options, binaryDescriptorSet)
    return _encoding("to_protobuf", data, settings, BinaryType())


def from_json(data: Column | str, schema: str | None = None, options: Options = None) -> Column:
    """A typed column from JSON texts in bytes or strings; without a schema the texts, checked to be valid JSON.

    The schema is Spark's DDL or the text of df.schema.json(). Stricter than Spark's own from_json: a field that does
    not fit the schema makes the whole value corrupt.
    """
    settings = _settings("from_json", FormatKind.JSON, {"schema": schema}, options)
    return _decoding("from_json", data, settings)


def to_json(data: Column | str) -> Column:
    """JSON texts of structs, maps or arrays, as Spark's own to_json writes them, except that times are in UTC."""
    return _encoding("to_json", data, FormatSettings(kind=FormatKind.JSON), StringType())


def from_string(data: Column | str, options: Options = None) -> Column:
    """UTF-8 as a string. (A cast to string does it too, but accepts invalid UTF-8.)"""
    return _decoding("from_string", data, _settings("from_string", FormatKind.STRING, {}, options))


def from_short(data: Column | str, options: Options = None) -> Column:
    """A smallint of two bytes, as Kafka's ShortSerializer writes them."""
    return _decoding("from_short", data, _settings("from_short", FormatKind.SHORT, {}, options))


def from_int(data: Column | str, options: Options = None) -> Column:
    """An int of four bytes, as Kafka's IntegerSerializer writes them."""
    return _decoding("from_int", data, _settings("from_int", FormatKind.INT, {}, options))


def from_long(data: Column | str, options: Options = None) -> Column:
    """A bigint of eight bytes, as Kafka's LongSerializer writes them."""
    return _decoding("from_long", data, _settings("from_long", FormatKind.LONG, {}, options))


def from_float(data: Column | str, options: Options = None) -> Column:
    """A float of four bytes, as Kafka's FloatSerializer writes them."""
    return _decoding("from_float", data, _settings("from_float", FormatKind.FLOAT, {}, options))


def from_double(data: Column | str, options: Options = None) -> Column:
    """A double of eight bytes, as Kafka's DoubleSerializer writes them."""
    return _decoding("from_double", data, _settings("from_double", FormatKind.DOUBLE, {}, options))


def to_short(data: Column | str) -> Column:
    return _encoding("to_short", data, FormatSettings(kind=FormatKind.SHORT), BinaryType())


def to_int(data: Column | str) -> Column:
    return _encoding("to_int", data, FormatSettings(kind=FormatKind.INT), BinaryType())


def to_long(data: Column | str) -> Column:
    """For a bigint or a narrower integer."""
    return _encoding("to_long", data, FormatSettings(kind=FormatKind.LONG), BinaryType())


def to_float(data: Column | str) -> Column:
    return _encoding("to_float", data, FormatSettings(kind=FormatKind.FLOAT), BinaryType())


def to_double(data: Column | str) -> Column:
    return _encoding("to_double", data, FormatSettings(kind=FormatKind.DOUBLE), BinaryType())


@with_conditions()
def _settings(
    function: str,
    kind: FormatKind,
    given: Mapping[str, str | None],
    options: Options,
    descriptor_set: bytes | None = None,
) -> FormatSettings:
    """Raises STREAMLOG_INVALID_OPTIONS with all complaints."""
    named = {name: value for name, value in given.items() if value is not None}
    reader = OptionReader({**named, **(options or {})}, role=f"function {function}")
    for name in set(named) & set(options or {}):
        reader.complain(f"{name} is set twice, by an argument and by an option")
    for name, kinds in SETTINGS.items():
        if kind not in kinds:
            reader.refuse(name, f"is not an option of {kind.value}")
    settings = read_settings(
        reader, kind, "", default_mode=CorruptMode.FAIL_FAST, default_subject=None, descriptor_set=descriptor_set
    )
    if settings.mode is CorruptMode.DROP_MALFORMED:
        reader.complain("mode must be PERMISSIVE or FAILFAST: a column function cannot drop rows")
    if not reader.complaints and function.startswith("from_"):
        settings = prepared_for_reading(reader, "", settings)
    elif not reader.complaints:
        prepared_for_writing(reader, "", settings)
    reader.finish()
    is_derived = kind is FormatKind.AVRO and settings.schema_text is None and settings.registers
    if function.startswith("to_") and not is_derived:
        settings = with_schema_id(settings, None)
    return settings


def _decoding(function: str, data: Column | str, settings: FormatSettings) -> Column:
    def decode(values: pa.Array) -> pa.Array:
        return decoded_column(settings, values)

    return _column_function(function, decode, from_arrow_type(decoder_for(settings).arrow_type))(data)


def _encoding(function: str, data: Column | str, settings: FormatSettings, return_type: DataType) -> Column:
    def encode(column: pa.Array) -> pa.Array:
        return encoded_column(settings, column)

    return _column_function(function, encode, return_type)(data)


def _column_function(function: str, rows: Callable[[Any], Any], return_type: DataType) -> Callable[..., Column]:
    # The name appears in the plan and in the column's name, like that of a built-in function.
    rows.__name__ = rows.__qualname__ = function
    # By the type hints of `rows` Spark passes and expects whole arrays.
    wrapped: Callable[..., Column] = arrow_udf(rows, return_type)
    return wrapped


@with_conditions()
def decoded_column(settings: FormatSettings, values: Any) -> Any:
    """In a task."""
    found = decoder_for(settings).decode(values)
    if found.faults and settings.mode is CorruptMode.FAIL_FAST:
        reason = found.faults[min(found.faults)]
        raise CorruptValueError(
            f"a value cannot be read as {settings.kind.value}: {reason}. With the option mode=PERMISSIVE it becomes "
            "null",
            reason=reason,
        )
    return found.column


@with_conditions()
def encoded_column(settings: FormatSettings, column: Any) -> Any:
    """In a task."""
    values = _encoder(settings, column.type).encode(column)
    return values if settings.kind is FormatKind.JSON else values.cast(pa.binary())


@lru_cache(maxsize=64)
def _encoder(settings: FormatSettings, arrow_type: Any) -> Encoder:
    """A schema derived from the column's type is known only here, so its id is requested here, once in each process."""
    if settings.wire_format is WireFormat.CONFLUENT:
        settings = with_schema_id(settings, arrow_type)
    return encoder_for(settings, arrow_type)
