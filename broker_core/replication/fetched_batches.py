"""How much of what a follower fetched can be appended to its log: whole batches that follow it."""

from __future__ import annotations

from typing import NamedTuple

from broker_core.model.exceptions import CorruptDataError
from broker_core.record.batch_header import BatchHeader
from broker_core.record.batch_reader import check_crc, iter_headers
from broker_core.replication.replica_log import ReplicaLog


class FetchedPrefix(NamedTuple):
    """The first `size_bytes` bytes of what was fetched, and the headers of the batches in them. `is_damaged`: what
    follows them cannot be appended; it is fetched again."""

    size_bytes: int
    headers: tuple[BatchHeader, ...]
    is_damaged: bool

    def restart_offset(self, log: ReplicaLog) -> int | None:
        """Where an empty log has to start for them: the leader's start may be inside its first batch."""
        first = self.headers[0].base_offset
        return first if first < log.log_end_offset else None


def appendable_prefix(records: bytes, log: ReplicaLog, *, leader_epoch: int) -> FetchedPrefix:
    """The batches up to the first that is damaged, cut off, below the log's end, or of an epoch that cannot follow
    (KAFKA-18723): damage on the way must not stop a replica for good. Offsets may have gaps, which compaction left. In
    an empty log the first batch may begin before the log's end, if it ends after it."""
    next_offset, last_epoch = log.log_end_offset, log.epochs.latest_epoch
    is_empty = log.log_start_offset == log.log_end_offset
    end = 0
    headers: list[BatchHeader] = []
    try:
        for position, header in iter_headers(records):
            is_next = header.base_offset >= next_offset or (
                is_empty and not headers and header.next_offset > next_offset
            )
            follows = is_next and header.last_offset_delta >= 0
            if not follows or not last_epoch <= header.partition_leader_epoch <= leader_epoch:
                return FetchedPrefix(end, tuple(headers), is_damaged=True)
            check_crc(records, position, header)
            headers.append(header)
            next_offset, last_epoch = header.next_offset, header.partition_leader_epoch
            end = position + header.size_bytes
    except CorruptDataError:
        return FetchedPrefix(end, tuple(headers), is_damaged=True)
    return FetchedPrefix(end, tuple(headers), is_damaged=bool(records) and not headers)
