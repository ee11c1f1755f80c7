"""What makes a file a whole snapshot of the metadata log.

    control batch   SnapshotHeader, and with kraft.version 1 or more KRaftVersion and KRaftVoters
    batches         the image's records
    control batch   SnapshotFooter

Offsets in it count from 0 and have nothing to do with the log's. Every batch has the epoch of the snapshot.
"""

from __future__ import annotations

from broker_core.model.exceptions import CorruptBatchError
from broker_core.raft.quorum_control_records import read_control_record
from broker_core.record.batch_reader import iter_headers, records_of
from broker_core.record.control_records import ControlType


def check_snapshot(content: bytes) -> None:
    """Raises CorruptBatchError unless the header is first, the footer last, and every batch whole and valid."""
    next_offset = position = 0
    kinds: list[ControlType | None] = []
    for position, header in iter_headers(content):
        if header.base_offset != next_offset:
            raise CorruptBatchError(f"snapshot: a batch at {header.base_offset} where {next_offset} is next")
        for record in records_of(content, position):
            kinds.append(read_control_record(record)[0] if header.is_control else None)
        next_offset = header.next_offset
        position += header.size_bytes
    if position != len(content):
        raise CorruptBatchError(f"snapshot: {len(content) - position} bytes at the end are no whole batch")
    if len(kinds) < 2 or kinds[0] is not ControlType.SNAPSHOT_HEADER or kinds[-1] is not ControlType.SNAPSHOT_FOOTER:
        raise CorruptBatchError("snapshot: it does not begin with a header and end with a footer")
