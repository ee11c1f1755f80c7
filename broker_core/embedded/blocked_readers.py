"""Read-committed readers blocked by an open transaction: they end the transaction if its writer is dead.

Without a server, no other process would: a transaction that was decided and whose writer died before the markers, or
that has timed out, would block the readers of its partitions until the next writer starts.
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
"""The minimum interval between two attempts of one process: a polling reader does not take part in every end of a
living writer's transactions."""


class BlockedReaders:
    """`settle` ends the transactions that can be ended, and returns whether there were any. Its errors fail no
    reader."""

    def __init__(self, settle: Callable[[], bool], clock: Clock) -> None:
        self._settle = settle
        self._clock = clock
        self._asked_at_ms: int | None = None

    def maybe_settle(self, bounds: PartitionBounds) -> bool:
        """Returns whether a transaction was ended, so that reading the partition again is worthwhile."""
        if bounds.last_stable_offset >= bounds.high_watermark:
            return False
        now_ms = self._clock.now_ms()
        if self._asked_at_ms is not None and abs(now_ms - self._asked_at_ms) < ASKED_EVERY_MS:
            return False
        self._asked_at_ms = now_ms
        try:
            return self._settle()
        except (StreamlogError, OSError) as error:
            _log.warning("could not check for transactions that block readers: %s", error)
            return False
