"""A snapshot of the metadata log as a file's content: what an image holds, framed as Kafka frames it.

control batch   SnapshotHeader, with the time of the last record that is in it; KRaftVersion and KRaftVoters of a
                dynamic quorum
batches         the image's records, offsets from 0 on
control batch   SnapshotFooter
"""

from __future__ import annotations

from broker_core.metadata.metadata_image import MetadataImage
from broker_core.metadata.metadata_replay import build_snapshot_batches
from broker_core.raft.quorum_control_records import snapshot_footer_batch, snapshot_header_batch
from broker_core.raft.quorum_values import SnapshotId
from broker_core.raft.voter_set import VoterSet
from broker_core.record.batch_header import read_header


def build_snapshot(
    image: MetadataImage,
    snapshot_id: SnapshotId,
    *,
    last_contained_ms: int,
    now_ms: int,
    dynamic: tuple[int, VoterSet] | None = None,
) -> bytes:
    """The image is that of all records below the snapshot's end, and not inside a transaction; `dynamic` are the
    kraft.version and the voters there."""
    epoch = snapshot_id.epoch
    content = bytearray(
        snapshot_header_batch(
            last_contained_ms=last_contained_ms, leader_epoch=epoch, timestamp_ms=now_ms, dynamic=dynamic
        )
    )
    next_offset = read_header(content).next_offset
    for batch in build_snapshot_batches(image, base_offset=next_offset, leader_epoch=epoch, timestamp_ms=now_ms):
        next_offset = read_header(batch).next_offset
        content += batch
    content += snapshot_footer_batch(base_offset=next_offset, leader_epoch=epoch, timestamp_ms=now_ms)
    return bytes(content)
