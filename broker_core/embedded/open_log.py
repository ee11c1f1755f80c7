"""Everything that is open of one log directory, for as long as it is the same directory."""

from __future__ import annotations

from dataclasses import dataclass

from broker_core.embedded.directory import DirectoryKind, LogDirectory
from broker_core.embedded.foreign_topics import ForeignTopics
from broker_core.embedded.metadata_log import MetadataLog
from broker_core.embedded.partition_access import PartitionAccess
from broker_core.embedded.partition_folders import PartitionFolders
from broker_core.embedded.partition_upkeep import PartitionUpkeep
from broker_core.embedded.producer_ids import ProducerIds
from broker_core.embedded.topic_catalog import TopicCatalog
from broker_core.metadata.controller import MetadataController, ProducerIdBlock
from broker_core.ports import Clock, Entropy, FileSystem
from broker_core.storage.unfinished_swaps import SwapsFinished


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnLog:
    """What a directory of ours has besides: the means to change it."""

    metadata_log: MetadataLog
    folders: PartitionFolders
    producer_ids: ProducerIds
    upkeep: PartitionUpkeep


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLog:
    """`own` is None for a real Kafka's directory."""

    catalog: TopicCatalog
    access: PartitionAccess
    own: OwnLog | None

    def close(self) -> None:
        self.access.close()
        self.catalog.close()


def open_log(fs: FileSystem, directory: LogDirectory, clock: Clock, entropy: Entropy) -> OpenLog:
    """Opens nothing yet: files are opened as they are needed. What is ABSENT is one of ours without topics."""
    if directory.kind is DirectoryKind.FOREIGN:
        catalog = ForeignTopics(fs, directory.path)
        return OpenLog(catalog=catalog, access=PartitionAccess(SwapsFinished(fs), directory, catalog, None), own=None)
    metadata_log = MetadataLog(fs, directory, clock)
    folders = PartitionFolders(fs, directory.path, metadata_log, entropy)
    access = PartitionAccess(fs, directory, metadata_log, folders)

    def take_block() -> ProducerIdBlock:
        return metadata_log.change(MetadataController.plan_allocate_producer_ids)

    own = OwnLog(
        metadata_log=metadata_log,
        folders=folders,
        producer_ids=ProducerIds(take_block),
        upkeep=PartitionUpkeep(access, clock, entropy),
    )
    return OpenLog(catalog=metadata_log, access=access, own=own)
