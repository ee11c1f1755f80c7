"""The topics that a member of a consumer group asks for in what it says of its protocol: ConsumerProtocolSubscription.

int16 version, array of string topics, …     the same beginning in all versions, so later ones are read as version 0
"""

from __future__ import annotations

from typing import Final

from broker_core.coordinator.record_fields import FieldReader
from broker_core.model.exceptions import CorruptDataError

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
"""What groups of consumers call themselves; Connect's workers and others have types of their own."""

_STRING_BYTES: Final = 2


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """None when the bytes are something else, as a member may send what it likes."""
    reader = FieldReader(metadata, "subscription of a group member")
    try:
        if reader.take_version() < 0:
            return None
        count = reader.take_count(is_flexible=False, item_bytes=_STRING_BYTES)
        return frozenset(reader.take_string(is_flexible=False) for _ in range(count or 0))
    except CorruptDataError:
        return None
