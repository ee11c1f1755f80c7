"""What the format of one side of a record is, frozen: read from options once, pickled to the tasks.

Texts and bytes stand here themselves, not the names of files: a task may run where the file is not.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Final

from spark_streamlog.serde.avro_derivation import TOP_LEVEL_RECORD
from spark_streamlog.serde.protobuf_options import NO_PROTOBUF_OPTIONS, ProtobufOptions
from spark_streamlog.serde.schema_registry import RegistryTarget


class FormatKind(enum.Enum):
    """By the word that the options keyFormat and valueFormat take. Binary is the absence of a format."""

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
    """What becomes of a row whose value cannot be read."""

    PERMISSIVE = "permissive"
    """It is null, and the reason stands beside it."""
    DROP_MALFORMED = "dropmalformed"
    FAIL_FAST = "failfast"


class WireFormat(enum.Enum):
    PLAIN = "plain"
    CONFLUENT = "confluent"
    """A magic byte and a schema id before each value; see `confluent_wire`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatSettings:
    """Hashable: decoders are kept by it. What a kind does not use is at its default."""

    kind: FormatKind
    mode: CorruptMode = CorruptMode.PERMISSIVE
    wire_format: WireFormat = WireFormat.PLAIN
    schema_text: str | None = None
    """json: Spark's type. avro: as the plain values were written, or are to be; in the wire format as they are read."""
    schema_references: tuple[str, ...] = ()
    reader_schema_text: str | None = None
    """avro, plain: what the values become, where that is not what they were written as."""
    registry: RegistryTarget | None = None
    subject: str | None = None
    """Where the sink finds or registers its schema."""
    registers: bool = True
    """Whether the sink may register a schema that the subject does not have."""
    schema_id: int | None = None
    """What the sink writes before each value; without one it comes from the registry."""
    record_name: str = TOP_LEVEL_RECORD
    record_namespace: str = ""
    descriptor_set: bytes | None = field(default=None, repr=False)
    message: str | None = None
    protobuf: ProtobufOptions = NO_PROTOBUF_OPTIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFormats:
    """Of both sides of a record; None leaves a side binary."""

    key: FormatSettings | None = None
    value: FormatSettings | None = None

    def items(self) -> list[tuple[str, FormatSettings]]:
        """(column, settings) of the sides that have a format."""
        return [(side, found) for side, found in (("key", self.key), ("value", self.value)) if found is not None]

    @property
    def has_corrupt_column(self) -> bool:
        return any(found.mode is CorruptMode.PERMISSIVE for _, found in self.items())


NO_FORMATS: Final = RecordFormats()
