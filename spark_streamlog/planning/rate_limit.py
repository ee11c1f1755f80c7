"""How far one micro-batch goes: the least and the most offsets per trigger.

The minimum is checked first: with too few new offsets, and not too long since the last batch, there is no batch now.
The maximum is divided in proportion to the new offsets of each partition. Shares are rounded down, but up if below one,
so that a small partition next to large ones is not starved. Sizes 101, 11 and 1 with a limit of 10 give 8, 1 and 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from broker_core.model.identifiers import TopicPartition


def limit_offsets(
    max_offsets: int, begin: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The end of a batch from `begin` that takes about `max_offsets` of the offsets up to `latest`.

    Partitions of `latest` without a begin, or whose begin is not below their latest, keep their latest: the planner
    checks those. A limit of any size is valid; no end is past the latest.
    """
    sizes = {tp: end - begin[tp] for tp, end in latest.items() if tp in begin and end > begin[tp]}
    total = sum(sizes.values())
    if total <= max_offsets:
        return dict(latest)
    return {
        tp: min(end, begin[tp] + _share(max_offsets, sizes[tp], total)) if tp in sizes else end
        for tp, end in latest.items()
    }


def _share(max_offsets: int, size: int, total: int) -> int:
    # Whole-number arithmetic: a float would lose offsets above 2**53.
    return max(max_offsets * size // total, 1)


def new_offset_count(begin: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]) -> int:
    """Count of offsets between the two vectors; a new partition is counted from its start."""
    return sum(max(0, end - begin.get(tp, end)) for tp, end in latest.items())


def must_wait(*, new_count: int, min_offsets: int, last_batch_ms: float, now_ms: float, max_delay_ms: int) -> bool:
    """Whether a batch is delayed: fewer offsets than the minimum, and less than `max_delay_ms` since the last batch.

    The first batch of a run always fires: its `last_batch_ms` is -inf.
    """
    return new_count < min_offsets and now_ms - last_batch_ms < max_delay_ms


NEVER_MS = -math.inf
"""`last_batch_ms` of a run that has not had a batch yet."""
