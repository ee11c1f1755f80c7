"""Which data objects can be removed, and when that becomes possible.

    1  commit        AdvanceHorizon to `horizon_ms`: what is older and not referenced never will be
    2  then          list data objects below the horizon; those that the image at or behind that commit neither
                     references nor has dropped since the horizon are garbage
    3  remove them   dying here leaves them for the next time: the listing finds them again

The grace time is what slow tasks and readers get: an object is removed when it was begun, and given up, longer ago.
Ages are by the clock of the store where it can tell and by the own one where that is behind it, so that a machine
whose clock is ahead removes nothing early.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from broker_core.object_log.log_image import LogImage
from broker_core.object_log.object_names import begun_ms_of
from broker_core.ports import ObjectEntry


def garbage_horizon_ms(*, now_ms: int, store_now_ms: int | None, grace_ms: int) -> int:
    """`store_now_ms`: when the store last said that something was written just now."""
    latest_ms = now_ms if store_now_ms is None else min(now_ms, store_now_ms)
    return max(0, latest_ms - grace_ms)


def garbage_of(image: LogImage, listed: Iterable[ObjectEntry]) -> Iterator[str]:
    """Of the listed objects those that can be removed. `image`: at or behind the commit of the horizon."""
    for entry in listed:
        begun_ms = begun_ms_of(entry.path)
        if begun_ms is not None and begun_ms < image.horizon_ms and not image.was_committed(entry.path):
            yield entry.path
