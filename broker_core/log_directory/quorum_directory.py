"""The directory of a node of a quorum: `meta.properties` and `__cluster_metadata-0`, as those of a Kafka node.

The directory's id is made once and kept: the quorum tells replicas apart by it. A directory of another cluster or
another node is refused.
"""

from __future__ import annotations

from broker_core.log_directory.meta_properties import (
    META_PROPERTIES_FILE_NAME,
    MetaProperties,
    decode_meta_properties,
    encode_meta_properties,
)
from broker_core.metadata.controller import random_id
from broker_core.model.exceptions import DirectoryFormatError
from broker_core.model.topic_name import CLUSTER_METADATA_TOPIC
from broker_core.ports import Entropy, FileSystem
from broker_core.raft.quorum_values import ReplicaIdentity
from broker_core.storage.checkpoints import read_small_file, write_atomically
from broker_core.storage.quorum_log import QuorumLog


def open_identity(
    fs: FileSystem, path: str, *, node_id: int, cluster_id: str | None, entropy: Entropy
) -> ReplicaIdentity:
    """Of the node in that directory, which is there. An empty directory becomes the node's; a None cluster takes the
    one that the directory belongs to. Raises DirectoryFormatError."""
    file_path = f"{path}/{META_PROPERTIES_FILE_NAME}"
    data = read_small_file(fs, file_path)
    shown_id = max(node_id, 0)  # meta.properties has no negative ids
    if data is None:
        if cluster_id is None:
            raise DirectoryFormatError(
                f"{path} has no {META_PROPERTIES_FILE_NAME}: give --cluster-id, the same for all nodes of the cluster"
                " (a UUID as 22 characters of base64, as kafka-storage random-uuid prints it)"
            )
        found = MetaProperties(cluster_id=cluster_id, directory_id=random_id(entropy), node_id=shown_id, is_ours=False)
        write_atomically(fs, file_path, encode_meta_properties(found))
    else:
        found = decode_meta_properties(data, file_path)
    wanted_id = found.cluster_id if cluster_id is None else cluster_id
    if (found.cluster_id, found.node_id, found.is_ours) != (wanted_id, shown_id, False):
        raise DirectoryFormatError(
            f"{path} belongs to node {found.node_id} of cluster {found.cluster_id}, not to node {shown_id} of cluster"
            f" {wanted_id}"
        )
    return ReplicaIdentity(node_id=node_id, directory_id=found.directory_id, cluster_id=found.cluster_id)


def open_quorum_log(fs: FileSystem, path: str) -> QuorumLog:
    """Made if it is missing."""
    return QuorumLog(fs, f"{path}/{CLUSTER_METADATA_TOPIC}-0")
