"""Partitions that are open for reading on the node's loop: a limited number, closed in least recently used order.

Each has a store of its own, which only the loop uses: it reads without waiting for the thread that writes. Reads
usually come from the page cache; to move cold reads off the loop, change only this module.
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
    """Stores for reading, opened at first use."""

    def __init__(self, fs: FileSystem, access: PartitionAccess, *, max_count: int) -> None:
        self._fs = fs
        self._access = access
        self._max_count = max_count
        self._stores: OrderedDict[TopicPartition, ReadablePartition] = OrderedDict()

    def __len__(self) -> int:
        return len(self._stores)

    def get(self, partition: TopicPartition, *, topic_id: UUID, config: TopicConfig) -> ReadablePartition:
        """Returns a store that is valid until the next call. Raises UnknownPartitionError without the folder,
        StorageError if it cannot be opened."""
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
        """Closes the partition's store: its folder or its settings have changed."""
        store = self._stores.pop(partition, None)
        if store is not None:
            store.close()

    def close(self) -> None:
        while self._stores:
            self._stores.popitem()[1].close()
