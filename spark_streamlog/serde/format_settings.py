"""The format of one side of a record, frozen: read from the options once, pickled to the tasks.

Contains the content of files, not their names: a task may run on a machine without the file.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Final

from spark_streamlog.serde.avro_derivation import TOP_LEVEL_RECORD
from spark_streamlog.serde.protobuf_options import NO_PROTOBUF_OPTIONS, ProtobufOptions
from spark_streamlog.serde.schema_registry import RegistryTarget


class FormatKind(enum.Enum):
    """The values of the options keyFormat and valueFormat. Binary means that a side has no format."""

    STRING = "string"
    INT = "int"
    LONG = "long"
    SHORT = "short"
    FLOAT = "float"
    DOUBLE = "double"
    JSON = "json"
    AVRO = "avro"
    PROTOBUF = "protobuf"


class CorruptMode(enum.Enum):
    """What happens to a row whose value cannot be read."""

    PERMISSIVE = "permissive"
    """The value is null, and the column _corrupt contains the reason."""
    DROP_MALFORMED = "dropmalformed"
    FAIL_FAST = "failfast"


class WireFormat(enum.Enum):
    PLAIN = "plain"
    CONFLUENT = "confluent"
    """A magic byte and a schema id before each value; see `confluent_wire`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatSettings:
    """Hashable: decoders are cached by it. Fields that a kind does not use have their default."""

    kind: FormatKind
    mode: CorruptMode = CorruptMode.PERMISSIVE
    wire_format: WireFormat = WireFormat.PLAIN
    schema_text: str | None = None
    """json: Spark's type. avro: the writer's schema of plain values; in the wire format the schema they are read as."""
    schema_references: tuple[str, ...] = ()
    reader_schema_text: str | None = None
    """avro, plain values: the schema they are read as, if it is not the writer's."""
    registry: RegistryTarget | None = None
    subject: str | None = None
    """The subject under which the sink looks up or registers its schema."""
    registers: bool = True
    """Whether the sink may register a schema that the subject does not have."""
    schema_id: int | None = None
    """The id that the sink writes before each value. None: the registry's id."""
    record_name: str = TOP_LEVEL_RECORD
    record_namespace: str = ""
    descriptor_set: bytes | None = field(default=None, repr=False)
    message: str | None = None
    protobuf: ProtobufOptions = NO_PROTOBUF_OPTIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFormats:
    """The formats of both sides of a record; None leaves a side binary."""

    key: FormatSettings | None = None
    value: FormatSettings | None = None

    def items(self) -> list[tuple[str, FormatSettings]]:
        """(column, settings) for each side with a format."""
        return [(side, found) for side, found in (("key", self.key), ("value", self.value)) if found is not None]

    @property
    def has_corrupt_column(self) -> bool:
        return any(found.mode is CorruptMode.PERMISSIVE for _, found in self.items())


NO_FORMATS: Final = RecordFormats()
