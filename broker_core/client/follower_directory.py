"""The directory of an observer: `meta.properties` and `__cluster_metadata-0`, as those of a Kafka node.

The directory's id is made once and kept: the quorum tells replicas apart by it. A directory of another cluster or
another node is refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from uuid import UUID

from broker_core.client.quorum_description import cluster_id_of
from broker_core.client.quorum_follower import QuorumFollower
from broker_core.log_directory.meta_properties import (
    META_PROPERTIES_FILE_NAME,
    MetaProperties,
    decode_meta_properties,
    encode_meta_properties,
)
from broker_core.log_directory.system_ports import SystemEntropy
from broker_core.metadata.controller import random_id
from broker_core.model.client_settings import ClientSettings
from broker_core.model.exceptions import DirectoryFormatError
from broker_core.model.topic_name import CLUSTER_METADATA_TOPIC
from broker_core.raft.quorum_values import ReplicaIdentity
from broker_core.storage.checkpoints import read_small_file, write_atomically
from broker_core.storage.os_file_system import OsFileSystem
from broker_core.storage.quorum_log import QuorumLog


def open_follower(
    settings: ClientSettings, path: str, *, node_id: int, on_leader: Callable[[int, int], None]
) -> QuorumFollower:
    """Makes the directory if it is missing. `settings` name controllers. Raises DirectoryFormatError for one that is
    not of this node and cluster, RemoteError if no controller answers."""
    cluster_id = cluster_id_of(settings)
    fs = OsFileSystem()
    os.makedirs(path, exist_ok=True)
    identity = ReplicaIdentity(
        node_id=node_id, directory_id=_directory_id(fs, path, node_id, cluster_id), cluster_id=cluster_id
    )
    log = QuorumLog(fs, f"{path}/{CLUSTER_METADATA_TOPIC}-0")
    return QuorumFollower(settings, identity, log, on_leader=on_leader)


def _directory_id(fs: OsFileSystem, path: str, node_id: int, cluster_id: str) -> UUID:
    """From the file, or a new one that is then in it."""
    file_path = f"{path}/{META_PROPERTIES_FILE_NAME}"
    data = read_small_file(fs, file_path)
    shown_id = max(node_id, 0)  # meta.properties has no negative ids
    if data is None:
        properties = MetaProperties(
            cluster_id=cluster_id, directory_id=random_id(SystemEntropy()), node_id=shown_id, is_ours=False
        )
        write_atomically(fs, file_path, encode_meta_properties(properties))
        return properties.directory_id
    found = decode_meta_properties(data, file_path)
    if (found.cluster_id, found.node_id, found.is_ours) != (cluster_id, shown_id, False):
        raise DirectoryFormatError(
            f"{path} belongs to node {found.node_id} of cluster {found.cluster_id}, and node {shown_id} of cluster"
            f" {cluster_id} would follow in it"
        )
    return found.directory_id
