"""The limit of the process's open files and sockets, and how a broker divides it.

    half of them          partitions: each uses up to a dozen, read on the loop, read and written by jobs
    a fixed few           the process itself, its listeners, the metadata log, files that jobs open for a moment
    the rest              connections: at this limit none is accepted until one closes, as with max.connections

Without these shares, clients could use up all descriptors, and then no partition could be opened.
"""

from __future__ import annotations

import logging
import resource
from dataclasses import dataclass
from typing import Final

_WANTED_COUNT: Final = 65_536
_FILES_OF_A_PARTITION: Final = 12
_KEPT_BACK_COUNT: Final = 48
_LEAST_OPEN_PARTITIONS: Final = 4
_MOST_OPEN_PARTITIONS: Final = 1_000
"""An open partition uses memory too: some ten kilobytes with its producers."""
_LEAST_CONNECTIONS: Final = 16

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescriptorShares:
    open_partition_count: int
    connection_count: int

    @classmethod
    def of(cls, limit: int) -> DescriptorShares:
        """`limit`: how many descriptors the process may have open."""
        partitions = limit // 2 // _FILES_OF_A_PARTITION
        partitions = min(max(partitions, _LEAST_OPEN_PARTITIONS), _MOST_OPEN_PARTITIONS)
        connections = limit - partitions * _FILES_OF_A_PARTITION - _KEPT_BACK_COUNT
        return cls(open_partition_count=partitions, connection_count=max(connections, _LEAST_CONNECTIONS))


def descriptor_limit() -> int:
    """The current limit of this process."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _WANTED_COUNT if soft == resource.RLIM_INFINITY else soft


def raise_descriptor_limit() -> None:
    """Raises the limit to what a broker needs, as far as the system allows: for a process that only runs a broker."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED_COUNT if hard == resource.RLIM_INFINITY else min(_WANTED_COUNT, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError) as error:
        _log.warning("could not raise the limit of open files above %d: %s", soft, error)
