"""How many partitions an embedded process keeps open: it shares its descriptors with the user's program."""

from __future__ import annotations

import resource
from typing import Final

from broker_core.model.limits import MAX_OPEN_PARTITION_COUNT

_FILES_OF_A_PARTITION: Final = 10
"""For reading and writing together; see `MAX_OPEN_PARTITION_COUNT`, which fits a usual limit of 1,024."""
_SHARE: Final = 2
_MOST_OPEN_PARTITIONS: Final = 2_000
"""An open partition also takes some ten kilobytes of memory."""


def open_partition_count() -> int:
    """Half of the process's limit, but at least `MAX_OPEN_PARTITION_COUNT`. A pass over more partitions than this opens
    each of them again, which doubles the cost of a small read of each."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _MOST_OPEN_PARTITIONS
    return max(MAX_OPEN_PARTITION_COUNT, min(_MOST_OPEN_PARTITIONS, soft // _SHARE // _FILES_OF_A_PARTITION))
