"""Carries out what the machine of a replica decided (`replication/`), on the partition's store, under its lock.

What a crash leaves of an effect is a log that may be shorter, or empty and somewhere else: a follower then asks its
leader again.
"""

from __future__ import annotations

from broker_core.log.leader_epochs import LeaderEpochs
from broker_core.replication.replica_log import ReplicaLog
from broker_core.replication.replication_values import (
    AdvanceLogStart,
    AppendFetched,
    ReplicaEffect,
    RestartPartition,
    SaveLeaderEpoch,
    SyncPartition,
    TruncatePartition,
)
from broker_core.storage.writable_partition import WritablePartition


def found_log(store: WritablePartition, high_watermark: int) -> ReplicaLog:
    """The log as it is on the device. Of its epochs those with records count: after a truncation the file may still
    have later ones, and a new folder's has one."""
    store.flush()
    bounds = store.written_bounds()
    is_empty = bounds.log_start_offset == bounds.log_end_offset
    epochs = LeaderEpochs(() if is_empty else store.leader_epochs().entries)
    epochs.truncate_from_end(bounds.log_end_offset)
    return ReplicaLog(
        log_start_offset=bounds.log_start_offset,
        log_end_offset=bounds.log_end_offset,
        synced_end=bounds.log_end_offset,
        high_watermark=max(bounds.log_start_offset, min(high_watermark, bounds.log_end_offset)),
        epochs=epochs,
    )


def carry_out(store: WritablePartition, effect: ReplicaEffect, *, now_ms: int) -> int:
    """A write; returns the log's end after it. Raises StreamlogError: then it is not known what the log holds."""
    match effect:
        case AppendFetched(records=records, restart_offset=restart_offset):
            if restart_offset is not None:
                store.restart_at(restart_offset, now_ms=now_ms)
            store.append_replicated(bytearray(records), now_ms=now_ms)
        case TruncatePartition(end_offset=end_offset):
            store.truncate_to(end_offset)
        case RestartPartition(start_offset=start_offset):
            store.restart_at(start_offset, now_ms=now_ms)
        case AdvanceLogStart(log_start_offset=log_start_offset):
            store.delete_records(log_start_offset)
        case SaveLeaderEpoch(leader_epoch=leader_epoch):
            store.begin_leader_epoch(leader_epoch)
        case _:
            assert isinstance(effect, SyncPartition), effect
            store.flush()
    return store.written_bounds().log_end_offset
