"""How far one micro-batch goes: the least and the most offsets per trigger.

The minimum is a gate, asked first: too few new offsets, and not too long since the last batch, means no batch now. The
maximum is a share: it is dealt out in proportion to what each partition has, rounded down, but up for a share below one
so that a small partition beside large ones is not starved. Sizes 101, 11 and 1 with a limit of 10 give 8, 1 and 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from broker_core.model.identifiers import TopicPartition


def limit_offsets(
    max_offsets: int, begin: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The end of a batch from `begin` that takes about `max_offsets` of what there is up to `latest`.

    Partitions of `latest` without a begin, or whose begin is not below their latest, keep their latest: judging those
    is the planner's business. A limit of any size is right; no end lies past the latest.
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
    """Offsets between the two vectors; a partition that is new counts from where it begins."""
    return sum(max(0, end - begin.get(tp, end)) for tp, end in latest.items())


def must_wait(*, new_count: int, min_offsets: int, last_batch_ms: float, now_ms: float, max_delay_ms: int) -> bool:
    """Whether a batch is put off: fewer offsets than the minimum, and the last batch is not `max_delay_ms` ago.

    The first batch of a run always fires: its `last_batch_ms` is -inf.
    """
    return new_count < min_offsets and now_ms - last_batch_ms < max_delay_ms


NEVER_MS = -math.inf
"""`last_batch_ms` of a run that has not had a batch yet."""
