"""The bounds that readers of a replicated partition see, made of those of the whole log and the high watermark.

The last stable offset is the one that the log had when it ended at the high watermark: a transaction whose marker is
not committed yet is still open for readers, since another leader may end it otherwise.
"""

from __future__ import annotations

from collections import deque

from broker_core.cluster import PartitionBounds


class CommittedBounds:
    """`note` the bounds of the log after each write, in order."""

    def __init__(self) -> None:
        self._stored = PartitionBounds(log_start_offset=0, last_stable_offset=0, high_watermark=0, log_end_offset=0)
        self._stable_ends: deque[tuple[int, int]] = deque()
        """(log end, last stable offset) after each write that is not committed, and before the first of them."""

    def maybe_shorten(self, bounds: PartitionBounds) -> bool:
        """Whether the log was truncated to these bounds: what was noted of its end is forgotten."""
        end_offset = bounds.log_end_offset
        if end_offset >= self._stored.log_end_offset:
            return False
        self._stable_ends = deque(each for each in self._stable_ends if each[0] < end_offset)
        return True

    def note(self, bounds: PartitionBounds) -> None:
        """Of the whole log, committed or not."""
        end = (bounds.log_end_offset, bounds.last_stable_offset)
        if not self._stable_ends or self._stable_ends[-1] != end:
            self._stable_ends.append(end)
        self._stored = bounds

    def at(self, log_start_offset: int, high_watermark: int) -> PartitionBounds:
        """As readers see them. `high_watermark` never falls, unless the log was truncated."""
        stored, ends = self._stored, self._stable_ends
        high_watermark = min(high_watermark, stored.log_end_offset)
        while len(ends) > 1 and ends[1][0] <= high_watermark:
            ends.popleft()
        start_offset = min(max(log_start_offset, stored.log_start_offset), high_watermark)
        # After a start it is not known which transactions were open at the high watermark: nothing is stable yet.
        stable = ends[0][1] if ends and ends[0][0] <= high_watermark else start_offset
        return PartitionBounds(
            log_start_offset=start_offset,
            last_stable_offset=min(max(stable, start_offset), high_watermark),
            high_watermark=high_watermark,
            log_end_offset=stored.log_end_offset,
        )
