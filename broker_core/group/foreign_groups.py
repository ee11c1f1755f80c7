"""Groups in `__consumer_offsets` that are not served: share groups, streams groups, those with records of a newer
version.

A Kafka wrote them, and may lead the partition again. Nothing is written for them, so compaction keeps their records,
and requests for them are refused; the other groups of the partition are served.

    key     int16 type, string group id, …     9 to 15 a share group's, 17 to 23 a streams group's (Kafka 4.0 to 4.3)
    value   null: a tombstone for the key
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kio.schema.errors import ErrorCode

from broker_core.coordinator.record_fields import FieldReader
from broker_core.model.exceptions import RequestRefusedError

_SHARE_TYPES: Final = range(9, 16)
_STREAMS_TYPES: Final = range(17, 24)


class ForeignKind(enum.Enum):
    """The value completes "it …"."""

    SHARE = "is a share group, and such groups are not served"
    STREAMS = "is a streams group, and such groups are not served"
    NEWER = "has records of a newer version, which cannot be read"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignRecord:
    """A record that is kept as it is. Not `is_live`: a tombstone."""

    group_id: str
    key: bytes
    kind: ForeignKind
    is_live: bool


def decode_foreign_record(key: bytes, value: bytes | None) -> ForeignRecord | None:
    """None for a type that Kafka 4.3 does not know either, and skips. Raises CorruptBatchError for a key without a
    group."""
    reader = FieldReader(key, "key of a group record")
    number = reader.take_version()
    if number not in _SHARE_TYPES and number not in _STREAMS_TYPES:
        return None
    kind = ForeignKind.SHARE if number in _SHARE_TYPES else ForeignKind.STREAMS
    return ForeignRecord(group_id=reader.take_string(is_flexible=False), key=key, kind=kind, is_live=value is not None)


def newer_record(key: bytes) -> ForeignRecord:
    """A record of a type that is served, with a value that cannot be read."""
    reader = FieldReader(key, "key of a group record")
    reader.take_version()
    return ForeignRecord(group_id=reader.take_string(is_flexible=False), key=key, kind=ForeignKind.NEWER, is_live=True)


class ForeignGroups:
    """Changed by replay alone."""

    def __init__(self) -> None:
        self._records: dict[str, dict[bytes, ForeignKind]] = {}

    def __contains__(self, group_id: str) -> bool:
        return group_id in self._records

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def kind_of(self, group_id: str) -> ForeignKind | None:
        """None: the group may be served. What cannot be read counts first."""
        kinds = self._records.get(group_id)
        if kinds is None:
            return None
        return ForeignKind.NEWER if ForeignKind.NEWER in kinds.values() else next(iter(kinds.values()))

    def refusal_of(self, group_id: str) -> str | None:
        kind = self.kind_of(group_id)
        return None if kind is None else f"Group {group_id} {kind.value}."

    def require_served(self, group_id: str) -> None:
        """Raises RequestRefusedError."""
        refusal = self.refusal_of(group_id)
        if refusal is not None:
            raise RequestRefusedError(refusal, error_code=ErrorCode.inconsistent_group_protocol)

    def replay(self, record: ForeignRecord) -> None:
        if record.is_live:
            self._records.setdefault(record.group_id, {})[record.key] = record.kind
            return
        kept = self._records.get(record.group_id, {})
        kept.pop(record.key, None)
        if not kept:
            self._records.pop(record.group_id, None)
