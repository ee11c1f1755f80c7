"""The formats of keys and values among the options of source and sink, and of the column functions.

    valueFormat                    string int long short float double json avro protobuf; default binary
    valueFormat.mode               permissive dropmalformed failfast (source)
    valueFormat.schema             json: DDL or df.schema.json().   avro: the schema;   .schema.file: a file with either
    valueFormat.avroSchema         avro, plain: the schema that values are read as, if it is a different one
    valueFormat.wireFormat         plain confluent; confluent where a registry is given
    valueFormat.registry.url .registry.file          the schema registry: over HTTP, or a JSON file
    valueFormat.registry.userPassword                user:password; Spark hides options of such names
    valueFormat.registry.timeout                     timeout of the registry's answer; default 10s
    valueFormat.subject            in the registry; default <topic>-value
    valueFormat.autoRegister       avro, sink; default true
    valueFormat.schema.id          sink: the id before each value, if there is no registry
    valueFormat.recordName .recordNamespace          avro, sink: of a schema derived from the column
    valueFormat.descriptor.file .message             protobuf
    valueFormat.emit.default.values …                protobuf: spark-protobuf's flags

and keyFormat with the same. An option that a format does not use is refused by name; one that only the source or only
the sink uses is ignored by the other, so that one set of options may serve both. Files are read here, and the source's
schema is requested from the registry here, so that all complaints are raised together, before a query runs.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final, TypeVar
from urllib.parse import urlsplit

from broker_core.model.exceptions import StreamlogError
from spark_streamlog.options.option_reader import MAX_INTEGER, OptionReader
from spark_streamlog.serde.avro_derivation import TOP_LEVEL_RECORD
from spark_streamlog.serde.file_registry import FileRegistry
from spark_streamlog.serde.format_settings import CorruptMode, FormatKind, FormatSettings, RecordFormats, WireFormat
from spark_streamlog.serde.limits import MAX_SCHEMA_BYTES
from spark_streamlog.serde.open_registry import open_registry
from spark_streamlog.serde.protobuf_options import PROTOBUF_FLAGS, ProtobufOptions
from spark_streamlog.serde.schema_registry import AVRO, RegistryTarget, shown_url
from spark_streamlog.serde.value_formats import check_schema, decoder_for

BINARY: Final = "binary"
Answer = TypeVar("Answer")

_AVRO, _JSON, _PROTOBUF = FormatKind.AVRO, FormatKind.JSON, FormatKind.PROTOBUF
SETTINGS: Final[dict[str, tuple[FormatKind, ...]]] = {
    "mode": tuple(FormatKind),
    "schema": (_JSON, _AVRO),
    "schema.file": (_JSON, _AVRO),
    "avroSchema": (_AVRO,),
    "wireFormat": (_AVRO, _PROTOBUF),
    "registry.url": (_AVRO, _PROTOBUF),
    "registry.file": (_AVRO, _PROTOBUF),
    "registry.userPassword": (_AVRO, _PROTOBUF),
    "registry.timeout": (_AVRO, _PROTOBUF),
    "subject": (_AVRO, _PROTOBUF),
    "autoRegister": (_AVRO,),
    "schema.id": (_AVRO, _PROTOBUF),
    "recordName": (_AVRO,),
    "recordNamespace": (_AVRO,),
    "descriptor.file": (_PROTOBUF,),
    "message": (_PROTOBUF,),
    **dict.fromkeys(PROTOBUF_FLAGS, (_PROTOBUF,)),
}
"""By setting: the formats that use it."""


def source_formats(options: OptionReader, *, topic: str | None) -> RecordFormats:
    """`topic`: the one that the query reads, None for several. After a complaint the result must not be used."""

    def prepared(side: str) -> FormatSettings | None:
        complaint_count = len(options.complaints)
        settings = _side(options, side, topic)
        if settings is None or len(options.complaints) > complaint_count:
            return settings
        return prepared_for_reading(options, f"{side}Format.", settings)

    return RecordFormats(key=prepared("key"), value=prepared("value"))


def sink_formats(options: OptionReader, *, topic: str | None) -> RecordFormats:
    """`topic`: the option, None if a column has it. The columns' types are checked later, with the columns."""

    def checked(side: str) -> FormatSettings | None:
        complaint_count = len(options.complaints)
        settings = _side(options, side, topic)
        if settings is not None and len(options.complaints) == complaint_count:
            prepared_for_writing(options, f"{side}Format.", settings)
        return settings

    return RecordFormats(key=checked("key"), value=checked("value"))


def _side(options: OptionReader, side: str, topic: str | None) -> FormatSettings | None:
    prefix = f"{side}Format"
    words = (BINARY, *(kind.value for kind in FormatKind))
    word = options.choice(prefix, words, default=BINARY)
    kind = None if word == BINARY else FormatKind(word)
    for name, kinds in SETTINGS.items():
        if options.text(f"{prefix}.{name}") is not None and kind not in kinds:
            needed = ", ".join(one.value for one in kinds) if len(kinds) < len(FormatKind) else "any format"
            options.complain(f"{prefix}.{name} is for {prefix} = {needed}, not {word}")
    if kind is None:
        return None
    subject = None if topic is None else f"{topic}-{side}"
    return read_settings(options, kind, f"{prefix}.", default_mode=CorruptMode.PERMISSIVE, default_subject=subject)


def read_settings(
    options: OptionReader,
    kind: FormatKind,
    prefix: str,
    *,
    default_mode: CorruptMode,
    default_subject: str | None,
    descriptor_set: bytes | None = None,
) -> FormatSettings:
    """The settings of one format by their names after `prefix`. Complains."""
    registry = _registry(options, prefix)
    wire_words = tuple(wire.value for wire in WireFormat)
    default_wire = WireFormat.PLAIN if registry is None else WireFormat.CONFLUENT
    wire_format = WireFormat(options.choice(f"{prefix}wireFormat", wire_words, default=default_wire.value))
    if registry is not None and wire_format is WireFormat.PLAIN:
        options.complain(
            f"{prefix}wireFormat=plain cannot be combined with a registry: plain values contain no schema id"
        )
    mode = options.choice(f"{prefix}mode", tuple(one.value for one in CorruptMode), default=default_mode.value)
    flags = {field: options.flag(f"{prefix}{name}", default=False) for name, field in PROTOBUF_FLAGS.items()}
    settings = FormatSettings(
        kind=kind,
        mode=CorruptMode(mode),
        wire_format=wire_format,
        schema_text=_schema_text(options, prefix),
        reader_schema_text=options.text(f"{prefix}avroSchema"),
        registry=registry,
        subject=options.text(f"{prefix}subject") or default_subject,
        registers=options.flag(f"{prefix}autoRegister", default=True),
        schema_id=options.integer(f"{prefix}schema.id", minimum=0, maximum=MAX_INTEGER),
        record_name=options.text(f"{prefix}recordName") or TOP_LEVEL_RECORD,
        record_namespace=options.text(f"{prefix}recordNamespace") or "",
        descriptor_set=_file(options, f"{prefix}descriptor.file") or descriptor_set,
        message=options.text(f"{prefix}message"),
        protobuf=ProtobufOptions(**flags),
    )
    if settings.schema_id is not None and wire_format is WireFormat.PLAIN:
        options.complain(f"{prefix}schema.id is for {prefix}wireFormat=confluent")
    if kind is FormatKind.PROTOBUF:
        for name, found in (("descriptor.file", settings.descriptor_set), ("message", settings.message)):
            if found is None and options.text(f"{prefix}{name}") is None:
                options.complain(f"{prefix}{name} is missing: protobuf needs a descriptor file and a message's name")
    if settings.reader_schema_text is not None and wire_format is WireFormat.CONFLUENT:
        options.complain(
            f"{prefix}avroSchema is for plain values: with a registry, {prefix}schema is the schema that"
            " values are read as"
        )
    return settings


def prepared_for_reading(options: OptionReader, prefix: str, settings: FormatSettings) -> FormatSettings:
    """Adds the schema that values are read as, from the registry if necessary, and tries it. Complains."""
    # A query with its own schema may start before the file exists: its values name their schemas later.
    is_asked_now = settings.kind is FormatKind.AVRO and settings.schema_text is None
    if not _is_registry_file_sound(options, prefix, settings, may_be_missing=not is_asked_now):
        return settings
    if settings.kind is FormatKind.AVRO:
        if settings.wire_format is WireFormat.CONFLUENT and settings.registry is None:
            options.complain(
                f"{prefix}registry.url or {prefix}registry.file is missing: values refer to their schema by its id in"
                " a registry"
            )
            return settings
        if settings.schema_text is None:
            settings = _with_latest_schema(options, prefix, settings)
        if settings.schema_text is None:
            return settings
    # Settings that only writing needs would create two decoders instead of one.
    settings = replace(settings, schema_id=None, subject=None, registers=True)
    _try_schema(options, prefix, settings, lambda: decoder_for(settings))
    return settings


def prepared_for_writing(options: OptionReader, prefix: str, settings: FormatSettings) -> None:
    """The checks that are possible before the columns are known. Complains."""
    is_made = settings.kind is FormatKind.AVRO and settings.registers
    may_be_missing = is_made or settings.schema_id is not None
    if not _is_registry_file_sound(options, prefix, settings, may_be_missing=may_be_missing):
        return
    if settings.wire_format is WireFormat.CONFLUENT and settings.schema_id is None:
        if settings.registry is None:
            options.complain(f"{prefix}wireFormat=confluent needs a schema id: set a registry or {prefix}schema.id")
        elif settings.subject is None:
            options.complain(f"{prefix}subject is missing: it has a default only if the option topic is set")
    if settings.schema_id is not None and settings.kind is FormatKind.AVRO and settings.schema_text is None:
        options.complain(f"{prefix}schema is missing: {prefix}schema.id needs the schema that it is the id of")
    _try_schema(options, prefix, settings, lambda: check_schema(settings))


def _try_schema(options: OptionReader, prefix: str, settings: FormatSettings, make: Callable[[], object]) -> None:
    """Complains, by the name of the option that has the wrong schema. A column function has no prefix and no options:
    there the format is named."""
    try:
        make()
    except StreamlogError as error:
        setting = error.fields.get("setting") or _setting_of_schema(options, prefix, settings)
        options.complain(f"{prefix + setting if prefix else settings.kind.value}: {error.message}")


def _setting_of_schema(options: OptionReader, prefix: str, settings: FormatSettings) -> str:
    if settings.kind is _PROTOBUF:
        return "descriptor.file"
    if settings.reader_schema_text is not None and settings.schema_text is not None:
        with suppress(StreamlogError):
            check_schema(settings)
            return "avroSchema"  # the other one is right
    given = [name for name in ("schema", "schema.file") if options.text(prefix + name) is not None]
    return given[0] if given else "subject"


def _with_latest_schema(options: OptionReader, prefix: str, settings: FormatSettings) -> FormatSettings:
    if settings.registry is None:
        options.complain(f"{prefix}schema is missing: set it, {prefix}schema.file, or a registry that contains it")
    elif settings.subject is None:
        options.complain(
            f"{prefix}schema and {prefix}subject are missing: set the schema that values are read as, or its subject,"
            " which has a default only in a query of a single topic"
        )
    else:
        registry, subject = open_registry(settings.registry), settings.subject
        latest = _complain_on_error(options, f"{prefix}subject", lambda: registry.latest(subject))
        if latest is not None and latest.schema_type != AVRO:
            options.complain(f"{prefix}subject {subject!r} holds a schema of type {latest.schema_type}, not {AVRO}")
        elif latest is not None:
            return replace(settings, schema_text=latest.text, schema_references=latest.references)
    return settings


def _registry(options: OptionReader, prefix: str) -> RegistryTarget | None:
    given, path = options.text(f"{prefix}registry.url"), options.text(f"{prefix}registry.file")
    user_info = options.text(f"{prefix}registry.userPassword")
    timeout_ms = options.duration_ms(f"{prefix}registry.timeout", default_ms=10_000)
    if timeout_ms < 1 or timeout_ms > 3_600_000:
        options.complain(f"{prefix}registry.timeout must be between 1ms and 1h")
    if given is not None and path is not None:
        options.complain(f"{prefix}registry.url and {prefix}registry.file are both set: use one registry")
    if user_info is not None and (given is None or ":" not in user_info):
        options.complain(f"{prefix}registry.userPassword must be user:password and needs {prefix}registry.url")
    if given is not None:
        urls = tuple(url.strip() for url in given.split(",") if url.strip())
        for url in urls or ("",):
            if not _is_http(url):
                options.complain(f"{prefix}registry.url must be an http or https address, not {shown_url(url)!r}")
        return RegistryTarget(urls=urls, user_info=user_info, timeout_seconds=timeout_ms / 1000)
    if path is not None:
        if not path.strip():
            options.complain(f"{prefix}registry.file is empty")
        return RegistryTarget(path=path)
    return None


def _is_registry_file_sound(
    options: OptionReader, prefix: str, settings: FormatSettings, *, may_be_missing: bool
) -> bool:
    """Complains about the file itself, before any lookup in it. True if the registry is not a file."""
    if settings.registry is None or settings.registry.path is None:
        return True
    complaint_count = len(options.complaints)
    registry = FileRegistry(settings.registry.path)
    _complain_on_error(options, f"{prefix}registry.file", lambda: registry.check(may_be_missing=may_be_missing))
    return len(options.complaints) == complaint_count


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False


def _schema_text(options: OptionReader, prefix: str) -> str | None:
    text = options.text(f"{prefix}schema")
    content = _file(options, f"{prefix}schema.file")
    if text is not None and options.text(f"{prefix}schema.file") is not None:
        options.complain(f"{prefix}schema and {prefix}schema.file are both set")
    if content is None:
        return text
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        options.complain(f"{prefix}schema.file is not UTF-8 text")
        return None


def _file(options: OptionReader, name: str) -> bytes | None:
    path = options.text(name)
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_SCHEMA_BYTES + 1)
    except (OSError, ValueError) as error:
        options.complain(f"{name} cannot be read: {error}")
        return None
    if len(content) > MAX_SCHEMA_BYTES:
        options.complain(f"{name} has more than {MAX_SCHEMA_BYTES} bytes: {path}")
    return content


def _complain_on_error(options: OptionReader, name: str, ask: Callable[[], Answer]) -> Answer | None:
    try:
        return ask()
    except StreamlogError as error:
        options.complain(f"{name}: {error.message}")
        return None
