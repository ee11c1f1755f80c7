"""The log directory of a broker of a cluster, as a node's directory."""

from __future__ import annotations

from collections.abc import Callable

from broker_core.broker.node_directory import NodeDirectory
from broker_core.log_directory.partition_access import PartitionAccess
from broker_core.log_directory.replica_folders import HeldDirectory, ImageTopics, ReplicaFolders
from broker_core.metadata.metadata_image import MetadataImage
from broker_core.model.topic_defaults import TopicDefaults
from broker_core.ports import Entropy, FileSystem


def open_replica_directory(
    fs: FileSystem,
    directory: HeldDirectory,
    image_now: Callable[[], MetadataImage],
    entropy: Entropy,
    *,
    max_open_count: int,
    topic_defaults: Callable[[], TopicDefaults],
) -> tuple[NodeDirectory, ReplicaFolders]:
    """Nothing is recovered here: each partition is, when it is opened."""
    topics = ImageTopics(image_now, directory)
    folders = ReplicaFolders(fs, directory.path, topics, entropy)
    access = PartitionAccess(
        fs, directory, topics, folders, max_open_count=max_open_count, topic_defaults=topic_defaults
    )
    return (
        NodeDirectory(
            fs=fs,
            directory=directory,
            metadata_log=topics,
            folders=folders,
            access=access,
            max_open_count=max_open_count,
            was_clean=True,
            was_killed=False,
        ),
        folders,
    )
