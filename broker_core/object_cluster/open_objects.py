"""Opens a log on object storage by its URL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from broker_core.cluster import Cluster
from broker_core.object_cluster.log_ports import LogPorts
from broker_core.object_cluster.object_cluster import ObjectCluster
from broker_core.object_store.open_store import open_store
from broker_core.placed_writes import PlacedWrites
from broker_core.staged_writes import PlannedReads, StagedUpload, StagedWrites


def open_objects(
    url: str, options: Mapping[str, str] | None = None, *, create: bool = False, maintains: bool = True
) -> ObjectCluster:
    """The log at `url` (s3://, s3a://, gs://, az://, abfss://, objects:///); no request is sent yet.

    `options`: those whose names begin with `object.`, see `model.store_settings`. With `create` the first write creates
    a missing log. `maintains`: see `ObjectCluster`. Raises InvalidConfigError for a wrong URL or option,
    ObjectStoreUnsuitableError without the client library.
    """
    return ObjectCluster(LogPorts(store=open_store(url, options)), create=create, maintains=maintains)


if TYPE_CHECKING:

    def _is_all_of(cluster: ObjectCluster) -> tuple[Cluster, StagedWrites, PlannedReads, PlacedWrites, StagedUpload]:
        """For the type checker: the protocols that the returned object implements."""
        return cluster, cluster, cluster, cluster, cluster.stage()
