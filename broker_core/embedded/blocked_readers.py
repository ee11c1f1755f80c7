"""Read-committed readers that stand before an open transaction: they see to it that it ends if its writer is dead.

Without a server nobody else would: a transaction that was decided and whose writer died before the markers, or that has
timed out, would hold its partitions' readers until the next writer comes by.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from broker_core.cluster import PartitionBounds
from broker_core.model.exceptions import StreamlogError
from broker_core.ports import Clock

_log: Final = logging.getLogger(__name__)

ASKED_EVERY_MS = 500
"""Between two questions of one process: a reader that polls shall not take part in every end of a living writer."""


class HeldBackReaders:
    """`settle` ends what can be ended, and says whether there was anything. Its error fails no reader."""

    def __init__(self, settle: Callable[[], bool], clock: Clock) -> None:
        self._settle = settle
        self._clock = clock
        self._asked_at_ms: int | None = None

    def maybe_settle(self, bounds: PartitionBounds) -> bool:
        """Whether something was ended, so that a second look at the partition is worth it."""
        if bounds.last_stable_offset >= bounds.high_watermark:
            return False
        now_ms = self._clock.now_ms()
        if self._asked_at_ms is not None and abs(now_ms - self._asked_at_ms) < ASKED_EVERY_MS:
            return False
        self._asked_at_ms = now_ms
        try:
            return self._settle()
        except (StreamlogError, OSError) as error:
            _log.warning("transactions that hold back readers cannot be looked at: %s", error)
            return False
