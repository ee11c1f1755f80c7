"""How much of a fetch answer can be appended to the log: whole batches that follow it."""

from __future__ import annotations

from typing import NamedTuple

from broker_core.model.exceptions import CorruptDataError
from broker_core.raft.quorum_values import LogReach
from broker_core.record.batch_header import BatchHeader
from broker_core.record.batch_reader import check_crc, iter_headers


class FollowingBatches(NamedTuple):
    """The first `size_bytes` bytes of what was fetched, and the headers of the batches in them."""

    size_bytes: int
    headers: tuple[BatchHeader, ...]


def following_batches(records: bytes, log: LogReach, *, leader_epoch: int) -> FollowingBatches:
    """The batches up to the first that is damaged, cut off, not next in the log, or of an epoch that cannot follow.

    What is left out is fetched again (KAFKA-18723): damage on the way must not stop a node for good. An epoch above the
    leader's own would be a batch that the leader cannot have.
    """
    next_offset, last_epoch = log.log_end_offset, log.last_epoch
    end, headers = 0, []
    try:
        for position, header in iter_headers(records):
            follows = header.base_offset == next_offset and header.last_offset_delta >= 0
            if not follows or not last_epoch <= header.partition_leader_epoch <= leader_epoch:
                break
            check_crc(records, position, header)
            headers.append(header)
            next_offset, last_epoch = header.next_offset, header.partition_leader_epoch
            end = position + header.size_bytes
    except CorruptDataError:
        pass  # the batches before it are good
    return FollowingBatches(end, tuple(headers))
