"""Selects the columns of a DataFrame that the sink writes, once, from its schema.

    value      string or binary, required                headers    array<struct<key:string,value:binary>>
    key        string or binary                          timestamp  timestamp
    topic      string, unless the option topic is set    partition  int

Names are matched exactly, and other columns are ignored, as in Spark's Kafka sink. So a DataFrame of the source can be
written as it is. With keyFormat or valueFormat, that column has a type that the format can write instead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from spark_streamlog.errors import with_conditions
from spark_streamlog.serde.format_settings import NO_FORMATS, FormatSettings, RecordFormats
from spark_streamlog.serde.serde_errors import InvalidSchemaError
from spark_streamlog.serde.value_formats import encoder_for, with_schema_id
from spark_streamlog.sink_conditions import sink_error

HEADERS_TYPE: Final = "array<struct<key:string,value:binary>>"
ACCEPTED_TYPES: Final[dict[str, tuple[str, ...]]] = {
    "value": ("string", "binary"),
    "key": ("string", "binary"),
    "topic": ("string",),
    "partition": ("int",),
    "headers": (HEADERS_TYPE,),
    "timestamp": ("timestamp",),
}
"""Spark's names, as `DataType.simpleString` returns them."""

RECORD_COLUMNS: Final = ("value", "key", "headers", "timestamp", "partition")
"""The columns that become part of a record, or select its partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedColumn:
    """A column that its format encodes to bytes. The settings have the schema's id, if values have one."""

    name: str
    settings: FormatSettings
    arrow_type: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkColumns:
    """`record_columns` are those of RECORD_COLUMNS that the rows have. `has_topic`: the column topic decides."""

    record_columns: tuple[str, ...]
    has_topic: bool
    typed: tuple[TypedColumn, ...] = ()


def sink_columns(
    schema: Any, *, topic_option: str | None, formats: RecordFormats = NO_FORMATS, is_planning: bool = True
) -> SinkColumns:
    """From a StructType. Raises STREAMLOG_INVALID_SINK_COLUMNS with all complaints, before any lookup.

    While planning, the schemas of formats with a registry are looked up there, or registered: see `with_schema_id`.
    """
    complaints: list[str] = []
    types: dict[str, str] = {}
    for field in schema.fields:
        if field.name in types and field.name in ACCEPTED_TYPES:
            complaints.append(f"column {field.name!r} appears twice")
        types[field.name] = field.dataType.simpleString()
    if "value" not in types:
        complaints.append("required attribute 'value' not found")
    if "topic" not in types and topic_option is None:
        complaints.append(
            "topic option required when no 'topic' attribute is present. Use the topic option for setting a topic"
        )
    with_format = {name for name, _ in formats.items()}
    typed = _typed_columns(schema, formats, complaints)
    for name, accepted in ACCEPTED_TYPES.items():
        if name not in types or name in with_format or (name == "topic" and topic_option is not None):
            continue
        if not _is_accepted(types[name], accepted):
            complaints.append(
                f"{name} attribute unsupported type {types[name]}. {name} must be a(n) {' or '.join(accepted)}"
            )
    if complaints:
        shown = ", ".join(f"{name} {kind}" for name, kind in types.items())
        raise sink_error("STREAMLOG_INVALID_SINK_COLUMNS", complaints="; ".join(complaints), columns=shown or "none")
    if is_planning:
        with with_conditions():
            typed = tuple(replace(one, settings=with_schema_id(one.settings, one.arrow_type)) for one in typed)
    return SinkColumns(
        record_columns=tuple(name for name in RECORD_COLUMNS if name in types),
        has_topic=topic_option is None,
        typed=typed,
    )


def _typed_columns(schema: Any, formats: RecordFormats, complaints: list[str]) -> tuple[TypedColumn, ...]:
    typed: list[TypedColumn] = []
    for name, settings in formats.items():
        found = [field for field in schema.fields if field.name == name]
        if len(found) != 1:
            continue
        arrow_type = to_arrow_schema(StructType(found), timezone="UTC").field(0).type
        try:
            encoder_for(settings, arrow_type)
            typed.append(TypedColumn(name=name, settings=settings, arrow_type=arrow_type))
        except InvalidSchemaError as error:
            shown = found[0].dataType.simpleString()
            complaints.append(
                f"{name} attribute unsupported type {shown} for {name}Format={settings.kind.value}: {error.message}"
            )
    return tuple(typed)


def _is_accepted(found: str, accepted: tuple[str, ...]) -> bool:
    # A string with a collation (`string collate UNICODE_CI`) is stored like any other.
    return found in accepted or ("string" in accepted and found.startswith("string collate "))
