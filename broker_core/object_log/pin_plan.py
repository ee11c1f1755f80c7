"""Retention pins of a group: when the log itself has to be told.

A pin must not lose a race with retention. So pins are commits: whoever moves a log start has folded every pin before. A
reader renews its pin with each micro-batch, and a commit each time would be a lot. So a commit pins for longer than was
asked, and the next one comes when what it holds is not enough any more, or is a third of a lease out of date:

    asked now           offset 700 until 12:10
    committed before    offset 400 until 12:14      holds it all: nothing to do
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from broker_core.cluster import GroupOffset
from broker_core.model.retention_pin import pinned_until_ms
from broker_core.object_log.commit import PinOffsets
from broker_core.object_log.log_image import LogImage


def plan_pins(
    image: LogImage, group_id: str, offsets: Mapping[tuple[UUID, int], GroupOffset], *, now_ms: int
) -> PinOffsets | None:
    """The change that keeps what these offsets, the group's whole state, promise; None where nothing has to change."""
    asked = {
        place: (offset.offset, until_ms)
        for place, offset in offsets.items()
        if (until_ms := pinned_until_ms(offset.metadata)) is not None and until_ms > now_ms
    }
    known = image.pins.get(group_id)
    if not asked:
        return PinOffsets(group_id=group_id, until_ms=0) if known is not None else None
    until_ms = max(until for _, until in asked.values())
    if known is not None and _holds(known, {place: offset for place, (offset, _) in asked.items()}, until_ms):
        return None
    spare_ms = (until_ms - now_ms) // 3
    return PinOffsets(
        group_id=group_id,
        until_ms=until_ms + spare_ms,
        offsets=tuple((*place, offset) for place, (offset, _) in sorted(asked.items())),
    )


def _holds(known: PinOffsets, asked: Mapping[tuple[UUID, int], int], until_ms: int) -> bool:
    held = {(topic_id, partition): offset for topic_id, partition, offset in known.offsets}
    return (
        known.until_ms >= until_ms
        and held.keys() == asked.keys()
        and all(held[place] <= offset for place, offset in asked.items())
    )
