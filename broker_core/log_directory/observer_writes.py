"""What an observer of the quorum writes, for each driver of its machine.

What a crash loses of the log is fetched again, so appends are not synced.
"""

from __future__ import annotations

from broker_core.log_directory.committed_image import CommittedImage
from broker_core.raft.observer_events import (
    AppendBatches,
    BatchesAppended,
    InstallSnapshot,
    LogTruncated,
    ObserverEvent,
    SnapshotChunkWritten,
    SnapshotInstalled,
    SnapshotRefused,
    TruncateLog,
    WriteSnapshotChunk,
)
from broker_core.storage.quorum_log import QuorumLog

ObserverWrite = AppendBatches | TruncateLog | WriteSnapshotChunk | InstallSnapshot


def carry_out_write(log: QuorumLog, committed: CommittedImage, effect: ObserverWrite) -> ObserverEvent:
    """The event that answers it. Raises StreamlogError, OSError."""
    match effect:
        case AppendBatches(records=records):
            log.append(records, is_synced=False)
            return BatchesAppended()
        case TruncateLog(end_offset=end_offset):
            log.truncate(end_offset)
            return LogTruncated()
        case WriteSnapshotChunk(snapshot_id=snapshot_id, position=position, chunk=chunk):
            log.write_snapshot_chunk(snapshot_id, position, chunk)
            return SnapshotChunkWritten()
        case InstallSnapshot(snapshot_id=snapshot_id):
            is_installed = committed.maybe_install(snapshot_id)
            return SnapshotInstalled() if is_installed else SnapshotRefused()
