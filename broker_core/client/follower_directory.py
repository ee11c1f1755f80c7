"""An observer of a quorum with its directory."""

from __future__ import annotations

import os
from collections.abc import Callable

from broker_core.client.quorum_follower import QuorumFollower
from broker_core.client.quorum_leader import cluster_id_of
from broker_core.log_directory.quorum_directory import open_identity, open_quorum_log
from broker_core.log_directory.system_ports import SystemEntropy
from broker_core.model.client_settings import ClientSettings
from broker_core.storage.os_file_system import OsFileSystem


def open_follower(
    settings: ClientSettings, path: str, *, node_id: int, on_leader: Callable[[int, int], None]
) -> QuorumFollower:
    """Makes the directory if it is missing. `settings` name controllers. Raises DirectoryFormatError for one that is
    not of this node and cluster, RemoteError if no controller answers."""
    cluster_id = cluster_id_of(settings)
    fs = OsFileSystem()
    os.makedirs(path, exist_ok=True)
    identity = open_identity(fs, path, node_id=node_id, cluster_id=cluster_id, entropy=SystemEntropy())
    return QuorumFollower(settings, identity, open_quorum_log(fs, path, is_voter=False), on_leader=on_leader)
