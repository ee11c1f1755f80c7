"""What `metadata_schemas` says of each structure: its fields, in the order in which they are written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class FieldSchema:
    """`kind` is Kafka's name of a primitive, or the class of a structure; of an array it is that of the items.

    `since` is the first version that has the field. A field with a `tag` is written behind all others, and only if it
    is not at its `default`.
    """

    name: str
    kind: str | type
    is_array: bool = False
    is_nullable: bool = False
    since: int = 0
    tag: int | None = None
    default: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StructSchema:
    """`versions` are those that are known."""

    versions: range
    fields: tuple[FieldSchema, ...]
