"""Answers as plain values that two brokers can agree on: a value that the broker generates is named by its first
appearance in the scenario, what is read from a clock becomes <now>, batches become their headers and content.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker_core.model.exceptions import StreamlogError
from broker_core.model.identifiers import CompressionType
from broker_core.record.batch_reader import batch_payload, iter_headers

CUT_OFF = "a batch that is cut off"
NOW_MS = 24 * 3600 * 1000
"""A time that is closer than this belongs to the run."""
MADE_UP = {
    "producer_id": "producer",
    "session_id": "session",
    "member_id": "member",
    "leader": "member",
    "current_txn_start_offset": None,
}
_ACCEPTED_TIMES = re.compile(r"should be within \[-?\d+, -?\d+\]")
"""The bounds are from a broker's clock."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Names:
    """Names for values that the broker generated, in order of appearance. `hidden` is removed from all text."""

    def __init__(self, hidden=""):
        self.hidden = hidden
        self._given = {}
        self._counts = Counter()

    def of(self, kind, value):
        key = (kind, value)
        if key not in self._given:
            self._counts[kind] += 1
            self._given[key] = f"<{kind} {self._counts[kind]}>"
        return self._given[key]


def plain(value, names, field=""):
    """`field` is the name of the field that holds the value."""
    match value:
        case ErrorCode():
            return value.name
        case timedelta():
            return value // timedelta(milliseconds=1)
        case datetime():
            return instant((value - _EPOCH) // timedelta(milliseconds=1))
        case UUID():
            return names.of("id", value)
        case memoryview() | bytes() | bytearray():
            return batches(bytes(value), names) if field == "records" else bytes(value).hex()
        case tuple() | list():
            return [plain(element, names, field) for element in value]
        case bool() | float() | None:
            return value
        case int() | str():
            return _named(value, names, field)
    assert is_dataclass(value), repr(value)
    return {one.name: plain(getattr(value, one.name), names, one.name) for one in fields(value)}


def _named(value, names, field):
    kind = MADE_UP.get(field)
    if kind is not None and value not in (-1, 0, ""):
        return names.of(kind, value)
    if field.startswith("timestamp") or field.endswith(("timestamp", "_time_ms")):
        return instant(int(value))
    if isinstance(value, str):
        value = _ACCEPTED_TIMES.sub("should be within <bounds>", value)
        return value.replace(names.hidden, "") if names.hidden else value
    return int(value)


def instant(ms):
    return "<now>" if abs(ms - time.time() * 1000) < NOW_MS else ms


def batches(data, names):
    """Headers and decompressed content: two compression libraries give different bytes. The CRC is left out, because it
    covers the time and the producer id."""
    found, end = [], 0
    try:
        for position, header in iter_headers(data):
            is_compressed = header.compression_type is not CompressionType.NONE
            content = bytes(batch_payload(data, position, header))
            end = position + header.size_bytes
            found.append(
                {
                    "base_offset": header.base_offset,
                    "batch_length": "<compressed>" if is_compressed else header.batch_length,
                    "partition_leader_epoch": header.partition_leader_epoch,
                    "attributes": header.attributes,
                    "last_offset_delta": header.last_offset_delta,
                    "base_timestamp": instant(header.base_timestamp),
                    "max_timestamp": instant(header.max_timestamp),
                    "producer_id": _named(header.producer_id, names, "producer_id"),
                    "producer_epoch": header.producer_epoch,
                    "base_sequence": header.base_sequence,
                    "record_count": header.record_count,
                    "content": content.hex() if len(content) < 200 else f"{len(content)} bytes",
                }
            )
    except StreamlogError as error:
        found.append(f"no batch: {type(error).__name__}")
    left = len(data) - end
    return [*found, CUT_OFF] if left else found
