"""Partitions that a node has open for reading on its loop: a bounded number, least recently used first to go.

Each has a store of its own, which nobody else uses: the loop reads without waiting for the thread that writes. Reads
come from the page cache as a rule; to move cold reads elsewhere, change this module alone.
"""

from __future__ import annotations

from collections import OrderedDict
from uuid import UUID

from broker_core.log_directory.partition_access import PartitionAccess
from broker_core.model.identifiers import TopicPartition
from broker_core.model.topic_config import TopicConfig
from broker_core.ports import FileSystem
from broker_core.storage.readable_partition import ReadablePartition


class OpenReaders:
    """Stores for reading, opened as they are asked for."""

    def __init__(self, fs: FileSystem, access: PartitionAccess, *, max_count: int) -> None:
        self._fs = fs
        self._access = access
        self._max_count = max_count
        self._stores: OrderedDict[TopicPartition, ReadablePartition] = OrderedDict()

    def __len__(self) -> int:
        return len(self._stores)

    def get(self, partition: TopicPartition, *, topic_id: UUID, config: TopicConfig) -> ReadablePartition:
        """Good until the next call. Raises UnknownPartitionError without the folder, StorageError when it cannot be
        opened."""
        store = self._stores.get(partition)
        if store is None:
            store = ReadablePartition.open(
                self._fs,
                self._access.path_of(partition),
                partition,
                config=config,
                topic_id=topic_id,
            )
            self._stores[partition] = store
            if len(self._stores) > self._max_count:
                self._stores.popitem(last=False)[1].close()
        else:
            self._stores.move_to_end(partition)
        return store

    def drop(self, partition: TopicPartition) -> None:
        """Its folder or its settings are other ones now."""
        store = self._stores.pop(partition, None)
        if store is not None:
            store.close()

    def close(self) -> None:
        while self._stores:
            self._stores.popitem()[1].close()
