"""Decides which data objects can be removed, and when.

    1  commit        AdvanceHorizon to `horizon_ms`: older objects without a reference never get one
    2  then          list data objects below the horizon; those that the image at or after that commit neither
                     references nor has dropped since the horizon are garbage
    3  remove them   after a crash here the next listing finds them again

The grace time protects slow tasks and readers: an object is removed only if it was begun, and dropped, longer ago.
Ages are measured by the earlier of the store's clock, if known, and the local clock, so that a machine whose clock is
ahead removes nothing early.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from broker_core.object_log.log_image import LogImage
from broker_core.object_log.object_names import begun_ms_of
from broker_core.ports import ObjectEntry


def garbage_horizon_ms(*, now_ms: int, store_now_ms: int | None, grace_ms: int) -> int:
    """`store_now_ms`: the store's time of the most recent write."""
    latest_ms = now_ms if store_now_ms is None else min(now_ms, store_now_ms)
    return max(0, latest_ms - grace_ms)


def garbage_of(image: LogImage, listed: Iterable[ObjectEntry]) -> Iterator[str]:
    """The listed objects that can be removed. `image`: at or after the commit of the horizon."""
    for entry in listed:
        begun_ms = begun_ms_of(entry.path)
        if begun_ms is not None and begun_ms < image.horizon_ms and not image.was_committed(entry.path):
            yield entry.path
