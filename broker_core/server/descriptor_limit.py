"""How many files and sockets the process may have open, and how a broker shares them out.

    half of them          partitions: each takes up to a dozen, read on the loop, read and written by jobs
    a fixed few           the process itself, its listeners, the metadata log, what jobs open for a moment
    the rest              connections: beyond them nobody is accepted until somebody goes, as with max.connections

Without that clients could take the last one, and then no partition could be opened.
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
"""An open partition takes memory too: with its producers some ten kilobytes."""
_LEAST_CONNECTIONS: Final = 16

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescriptorShares:
    open_partition_count: int
    connection_count: int

    @classmethod
    def of(cls, limit: int) -> DescriptorShares:
        """`limit`: what the process may have open."""
        partitions = limit // 2 // _FILES_OF_A_PARTITION
        partitions = min(max(partitions, _LEAST_OPEN_PARTITIONS), _MOST_OPEN_PARTITIONS)
        connections = limit - partitions * _FILES_OF_A_PARTITION - _KEPT_BACK_COUNT
        return cls(open_partition_count=partitions, connection_count=max(connections, _LEAST_CONNECTIONS))


def descriptor_limit() -> int:
    """Of this process, as it is."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _WANTED_COUNT if soft == resource.RLIM_INFINITY else soft


def raise_descriptor_limit() -> None:
    """To what a broker wants, as far as the process may: for a process that is a broker and nothing else."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED_COUNT if hard == resource.RLIM_INFINITY else min(_WANTED_COUNT, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError) as error:
        _log.warning("the limit of open files stays at %d: %s", soft, error)
