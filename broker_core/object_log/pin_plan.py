"""Retention pins of a group: which pins have to be committed to the log, and when.

A pin must not lose a race with retention. So pins are commits: a writer that moves a log start has folded every
earlier pin. The group's object has the promised pins. The log must have at least those at every moment, even if a
writer of the group dies in the middle:

    1  read the group
    2  commit the pins that 3 will promise
    3  replace the group, if it is unchanged

- Before 3 no promised pin is released. An offset is raised only up to the one that this process last wrote into the
  group, and only while its pin is the newest; of other processes' pins the lower offset and the later expiry are kept.
- If the group and its pins are as this process left them, and cover the request, no commit is needed. Otherwise it
  commits new pins, so that another process that wants to release the pins it has seen finds different ones.
- A commit pins for a third longer than requested, so that the next renewals need none.
- Pins that are not needed any more are released after 3, if they are unchanged since 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from broker_core.cluster import GroupOffset
from broker_core.model.retention_pin import pinned_until_ms
from broker_core.object_log.commit import PinOffsets
from broker_core.object_log.log_image import LogImage, Pin

Place = tuple[UUID, int]


def plan_pins(
    image: LogImage,
    group_id: str,
    asked: Mapping[Place, GroupOffset],
    *,
    now_ms: int,
    own_commit_number: int | None,
    own_offsets: Mapping[Place, int],
) -> PinOffsets | None:
    """The pins that these offsets promise; None if nothing has to be committed for them.

    `own_commit_number`: of the last pins that this process committed for the group, None if another process has
    written the group since. `own_offsets`: the offsets that this process last wrote into the group.
    """
    known = image.pins.get(group_id, {})
    pins = []
    is_covered = True
    for place, offset in sorted(asked.items()):
        until_ms = pinned_until_ms(offset.metadata)
        if until_ms is None or until_ms <= now_ms:
            continue
        pin = known.get(place)
        is_own = pin is not None and pin.commit_number == own_commit_number
        is_covered = is_covered and is_own and pin is not None and _covers(pin, offset.offset, until_ms)
        pins.append((*place, *_held(pin, offset.offset, until_ms, now_ms, own_offsets.get(place) if is_own else None)))
    return None if is_covered else PinOffsets(group_id=group_id, pins=tuple(pins))


def pins_to_give_up(
    image: LogImage, group_id: str, offsets: Mapping[Place, GroupOffset] | None, *, now_ms: int
) -> dict[Place, Pin]:
    """The group's pins that these offsets do not need any more; with None all of them."""
    return {
        place: pin
        for place, pin in image.pins.get(group_id, {}).items()
        if offsets is None or (place in offsets and (pinned_until_ms(offsets[place].metadata) or 0) <= now_ms)
    }


def plan_giving_up(image: LogImage, group_id: str, seen: Mapping[Place, Pin]) -> PinOffsets | None:
    """Removes the pins that are unchanged since they were seen."""
    known = image.pins.get(group_id, {})
    gone = tuple((*place, pin.offset, 0) for place, pin in sorted(seen.items()) if known.get(place) == pin)
    return PinOffsets(group_id=group_id, pins=gone) if gone else None


def _covers(pin: Pin, offset: int, until_ms: int) -> bool:
    return pin.offset <= offset and pin.until_ms >= until_ms


def _held(pin: Pin | None, offset: int, until_ms: int, now_ms: int, own_offset: int | None) -> tuple[int, int]:
    """(offset, expiry) of the new pin."""
    until_ms += (until_ms - now_ms) // 3
    if pin is None:
        return offset, until_ms
    kept_offset = pin.offset if own_offset is None else own_offset
    return min(offset, kept_offset), max(until_ms, pin.until_ms)
