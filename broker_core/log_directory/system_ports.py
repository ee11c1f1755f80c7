"""The clock and the dice of the machine: what `EmbeddedCluster` uses unless it is handed others."""

from __future__ import annotations

import os
import time


class SystemClock:
    """`broker_core.ports.Clock` by the machine's wall clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


class SystemEntropy:
    """`broker_core.ports.Entropy` by the operating system's generator."""

    def random_bytes(self, count: int) -> bytes:
        return os.urandom(count)
