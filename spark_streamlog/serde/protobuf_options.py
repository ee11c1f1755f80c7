"""The options of spark-protobuf that change the columns, under its names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PROTOBUF_FLAGS: Final = {
    "emit.default.values": "emits_defaults",
    "enums.as.ints": "enums_as_ints",
    "upcast.unsigned.ints": "upcasts_unsigned",
    "unwrap.primitive.wrapper.types": "unwraps_wrappers",
}
"""Maps an option to a field of ProtobufOptions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtobufOptions:
    emits_defaults: bool = False
    """A proto3 field without presence is never null, but 0, false or empty."""
    enums_as_ints: bool = False
    upcasts_unsigned: bool = False
    """uint32 is a bigint and uint64 a decimal(20,0), instead of int and bigint, where large numbers become negative."""
    unwraps_wrappers: bool = False
    """google.protobuf.Int32Value and similar messages are plain values instead of structs."""


NO_PROTOBUF_OPTIONS: Final = ProtobufOptions()
