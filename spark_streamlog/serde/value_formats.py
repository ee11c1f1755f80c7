"""From settings to decoders and encoders. Modules that a format does not need are not imported."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from spark_streamlog.serde.decoded_values import Decoder, Encoder
from spark_streamlog.serde.format_settings import FormatKind, FormatSettings, WireFormat
from spark_streamlog.serde.serde_errors import InvalidSchemaError, UnknownSchemaError

if TYPE_CHECKING:
    from spark_streamlog.serde.schema_registry import RegisteredSchema, SchemaRegistry


@lru_cache(maxsize=64)
def decoder_for(settings: FormatSettings) -> Decoder:
    """One decoder per settings and process: it caches the schemas of writers. Raises InvalidSchemaError.

    Not thread-safe; Spark's tasks are processes.
    """
    kind = settings.kind
    if kind is FormatKind.STRING:
        from spark_streamlog.serde.utf8_strings import StringDecoder

        return StringDecoder()
    if kind is FormatKind.JSON:
        return _json_decoder(settings)
    if kind is FormatKind.AVRO:
        return _avro_decoder(settings)
    if kind is FormatKind.PROTOBUF:
        from spark_streamlog.serde.protobuf_decoder import ProtobufDecoder

        return ProtobufDecoder(
            _descriptor(settings), settings.protobuf, is_wire_format=settings.wire_format is WireFormat.CONFLUENT
        )
    from spark_streamlog.serde.fixed_width import FIXED_WIDTHS, FixedWidthDecoder

    return FixedWidthDecoder(FIXED_WIDTHS[kind.value])


@lru_cache(maxsize=64)
def encoder_for(settings: FormatSettings, arrow_type: Any) -> Encoder:
    """Raises InvalidSchemaError if the type cannot be written in this format.

    In the wire format the settings must contain the schema id: `with_schema_id` adds it.
    """
    kind = settings.kind
    if kind is FormatKind.STRING:
        from spark_streamlog.serde.utf8_strings import StringEncoder

        return StringEncoder(arrow_type)
    if kind is FormatKind.JSON:
        from spark_streamlog.serde.json_encoder import JsonEncoder, JsonTextEncoder
        from spark_streamlog.serde.utf8_strings import is_text

        return JsonTextEncoder() if is_text(arrow_type) else JsonEncoder(arrow_type)
    if kind is FormatKind.AVRO:
        from spark_streamlog.serde.avro_encoder import AvroEncoder
        from spark_streamlog.serde.avro_schema import parse_avro_schema

        node = parse_avro_schema(_written_schema(settings, arrow_type), settings.schema_references)
        return AvroEncoder(node, arrow_type, schema_id=settings.schema_id)
    if kind is FormatKind.PROTOBUF:
        from spark_streamlog.serde.protobuf_encoder import ProtobufEncoder

        return ProtobufEncoder(_descriptor(settings), arrow_type, schema_id=settings.schema_id)
    from spark_streamlog.serde.fixed_width import FIXED_WIDTHS, FixedWidthEncoder

    return FixedWidthEncoder(FIXED_WIDTHS[kind.value], arrow_type)


def with_schema_id(settings: FormatSettings, arrow_type: Any | None) -> FormatSettings:
    """Adds the schema and its id to the settings, for columns of one type. Called once, when a query begins.

    A plain format needs neither. Otherwise the schema is looked up under the subject, and registered there if it is
    missing and may be registered. If none is given and none may be registered, the subject's latest schema is used.
    Raises SchemaRegistryError, and before anything is registered InvalidSchemaError if the type cannot be written in
    this format. If `arrow_type` is None, that is not checked, and the settings must have a schema.
    """
    if settings.wire_format is WireFormat.PLAIN or settings.schema_id is not None:
        return settings
    from spark_streamlog.serde.open_registry import open_registry
    from spark_streamlog.serde.schema_registry import AVRO, PROTOBUF

    assert settings.registry is not None and settings.subject is not None, "options were checked for both"
    registry = open_registry(settings.registry)
    if settings.kind is FormatKind.PROTOBUF:
        return replace(settings, schema_id=_latest(registry, settings.subject, PROTOBUF).schema_id)
    if settings.schema_text is None and not settings.registers:
        found = _latest(registry, settings.subject, AVRO)
        taken = replace(settings, schema_text=found.text, schema_references=found.references, schema_id=found.schema_id)
        if arrow_type is not None:
            encoder_for(taken, arrow_type)
        return taken
    text, subject = _written_schema(settings, arrow_type), settings.subject
    written = replace(settings, schema_text=text)
    if arrow_type is not None:
        encoder_for(written, arrow_type)
    if settings.registers:
        return replace(written, schema_id=registry.register(subject, text, AVRO))
    try:
        return replace(written, schema_id=registry.find_id(subject, text, AVRO))
    except UnknownSchemaError as error:
        raise InvalidSchemaError(
            f"the schema is not registered under {subject}, and autoRegister is false: {error.message}"
        ) from None


def _latest(registry: SchemaRegistry, subject: str, schema_type: str) -> RegisteredSchema:
    found = registry.latest(subject)
    if found.schema_type != schema_type:
        raise InvalidSchemaError(f"the subject {subject} holds a schema of type {found.schema_type}, not {schema_type}")
    return found


def _written_schema(settings: FormatSettings, arrow_type: Any) -> str:
    from spark_streamlog.serde.avro_derivation import derive_schema

    if settings.schema_text is not None:
        return settings.schema_text
    derived = derive_schema(arrow_type, name=settings.record_name, namespace=settings.record_namespace)
    return json.dumps(derived)


def _json_decoder(settings: FormatSettings) -> Decoder:
    from spark_streamlog.serde.json_decoder import JsonDecoder, JsonTextDecoder
    from spark_streamlog.serde.spark_type_text import parse_spark_type

    if settings.schema_text is None:
        return JsonTextDecoder()
    return JsonDecoder(parse_spark_type(settings.schema_text))


def _avro_decoder(settings: FormatSettings) -> Decoder:
    from spark_streamlog.serde.avro_decoder import AvroDecoder
    from spark_streamlog.serde.avro_schema import parse_avro_schema
    from spark_streamlog.serde.open_registry import open_registry

    assert settings.schema_text is not None, "options were checked for a schema"
    schema = parse_avro_schema(settings.schema_text, settings.schema_references)
    if settings.wire_format is WireFormat.CONFLUENT:
        assert settings.registry is not None, "options were checked for a registry"
        return AvroDecoder(reader=schema, registry=open_registry(settings.registry))
    reader = schema if settings.reader_schema_text is None else parse_avro_schema(settings.reader_schema_text)
    return AvroDecoder(reader=reader, writer=schema)


def _descriptor(settings: FormatSettings) -> Any:
    from spark_streamlog.serde.protobuf_descriptor import message_descriptor

    assert settings.descriptor_set is not None and settings.message is not None, "options were checked for both"
    return message_descriptor(settings.descriptor_set, settings.message)


def check_schema(settings: FormatSettings) -> None:
    """The checks of a sink's settings that are possible before its columns are known. Raises InvalidSchemaError."""
    if settings.kind is FormatKind.AVRO and settings.schema_text is not None:
        from spark_streamlog.serde.avro_schema import parse_avro_schema

        parse_avro_schema(settings.schema_text, settings.schema_references)
    if settings.kind is FormatKind.PROTOBUF:
        _descriptor(settings)
