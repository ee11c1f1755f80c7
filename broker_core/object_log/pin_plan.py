"""Retention pins of a group: when the log itself has to be told, and what.

A pin must not lose a race with retention. So pins are commits: whoever moves a log start has folded every pin before.
What the group's object says is what was promised, and the log must hold at least that, at every moment, whoever
writes the group and dies in the middle:

    1  read the group           2  commit the pins that 3 will promise           3  replace the group, if still
    unchanged

- Before 3 nothing that anybody was promised is given up: an offset goes up only to where this very process has replaced
  the group before, and only while its pin is the newest; of others' pins the lower offset and the later end are kept.
- Who finds the group as it left it, and its own pin, and all of what it asks covered, needs no commit. Else it makes
one,
  so that whoever wants to give up a pin that it has seen finds another one.
- A commit pins for a third longer than was asked, so that the next renewals need none.
- What is not pinned any more is given up after 3, if the pin is still the one that was seen before.
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
    """The pins that these offsets promise; None where nothing has to be committed for them.

    `own_commit_number`: of the last pins that this process committed for the group, None when somebody else has written
    the group since. `own_offsets`: what this process has last written into the group.
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
    """The group's pins where these offsets pin nothing; with None all of them."""
    return {
        place: pin
        for place, pin in image.pins.get(group_id, {}).items()
        if offsets is None or (place in offsets and (pinned_until_ms(offsets[place].metadata) or 0) <= now_ms)
    }


def plan_giving_up(image: LogImage, group_id: str, seen: Mapping[Place, Pin]) -> PinOffsets | None:
    """Removes the pins that are still those that were seen."""
    known = image.pins.get(group_id, {})
    gone = tuple((*place, pin.offset, 0) for place, pin in sorted(seen.items()) if known.get(place) == pin)
    return PinOffsets(group_id=group_id, pins=gone) if gone else None


def _covers(pin: Pin, offset: int, until_ms: int) -> bool:
    return pin.offset <= offset and pin.until_ms >= until_ms


def _held(pin: Pin | None, offset: int, until_ms: int, now_ms: int, own_offset: int | None) -> tuple[int, int]:
    """(offset, until when) of the pin that is to be."""
    until_ms += (until_ms - now_ms) // 3
    if pin is None:
        return offset, until_ms
    kept_offset = pin.offset if own_offset is None else own_offset
    return min(offset, kept_offset), max(until_ms, pin.until_ms)
