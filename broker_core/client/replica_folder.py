"""The folder of one replica that follows a leader: its machine's effects, carried out on files.

The folder is `<topic>-<partition>` as Kafka's. What a crash leaves of an effect is a log that may be shorter, or empty
and somewhere else: the follower then asks its leader again.
"""

from __future__ import annotations

from uuid import UUID

from broker_core.broker.partition.replica_writes import carry_out, found_log
from broker_core.model.identifiers import TopicPartition
from broker_core.model.topic_config import TopicConfig
from broker_core.ports import FileSystem
from broker_core.replication.replica_log import ReplicaLog
from broker_core.replication.replication_values import ReplicaEffect
from broker_core.storage.checkpoints import (
    WATERMARK_FILE_NAME,
    read_offset_checkpoint,
    read_partition_metadata,
    write_offset_checkpoint,
)
from broker_core.storage.writable_partition import WritablePartition


class ReplicaFolder:
    """Made if it is missing. The caller holds the directory's lock, so nobody else writes."""

    def __init__(
        self, fs: FileSystem, directory: str, topic_partition: TopicPartition, *, topic_id: UUID, config: TopicConfig
    ) -> None:
        path = f"{directory}/{topic_partition.topic}-{topic_partition.partition}"
        self.topic_partition = topic_partition
        WritablePartition.create(fs, path, topic_partition, topic_id)
        self._store = WritablePartition.open(fs, path, topic_partition, config=config, topic_id=topic_id)
        self._store.refresh()

    def found(self, high_watermark: int) -> ReplicaLog:
        return found_log(self._store, high_watermark)

    def carry_out(self, effect: ReplicaEffect, *, now_ms: int) -> int:
        """See `replica_writes`."""
        return carry_out(self._store, effect, now_ms=now_ms)

    def close(self) -> None:
        self._store.flush()
        self._store.close()

    def remove(self, fs: FileSystem) -> None:
        """The folder first gets Kafka's name for what is being deleted, so that a crash leaves no half of a log."""
        self._store.close()
        path = self._store.directory
        doomed = f"{path}.{self._store.topic_id.hex if self._store.topic_id else ''}-delete"
        fs.rename(path, doomed)
        fs.remove_tree(doomed)


def put_stray_aside(fs: FileSystem, directory: str, topic_partition: TopicPartition, *, topic_id: UUID) -> None:
    """Renames a folder of this name that is of another topic: one that was deleted while nobody was here. It is kept,
    with Kafka's name for such folders."""
    path = f"{directory}/{topic_partition.topic}-{topic_partition.partition}"
    found_id = read_partition_metadata(fs, path) if fs.exists(path) else None
    if found_id is not None and found_id != topic_id:
        fs.rename(path, f"{path}.{found_id.hex}-stray")
        fs.sync_directory(directory)


def read_watermarks(fs: FileSystem, directory: str) -> dict[TopicPartition, int]:
    """Those of the directory's partitions; none without the file."""
    return read_offset_checkpoint(fs, f"{directory}/{WATERMARK_FILE_NAME}")


def write_watermarks(fs: FileSystem, directory: str, watermarks: dict[TopicPartition, int]) -> None:
    write_offset_checkpoint(fs, f"{directory}/{WATERMARK_FILE_NAME}", watermarks)
