"""The topics in a member's ConsumerProtocolSubscription.

int16 version, array of string topics, …     all versions begin like this, so later ones are read as version 0
"""

from __future__ import annotations

from typing import Final

from broker_core.coordinator.record_fields import FieldReader
from broker_core.model.exceptions import CorruptDataError

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
"""The protocol type of consumer groups; Connect's workers and others have types of their own."""

_STRING_BYTES: Final = 2


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """None if the bytes are no subscription: a member may send anything."""
    reader = FieldReader(metadata, "subscription of a group member")
    try:
        if reader.take_version() < 0:
            return None
        count = reader.take_count(is_flexible=False, item_bytes=_STRING_BYTES)
        return frozenset(reader.take_string(is_flexible=False) for _ in range(count or 0))
    except CorruptDataError:
        return None
