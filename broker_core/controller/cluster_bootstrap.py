"""The first records of a new cluster: the levels of its features, as a new cluster of Kafka 4.3 has them, and its first
users, if its directories were formatted with some.

They are one metadata transaction: all of them take effect, or none. The default of min.insync.replicas stands in the
log from the start, since eligible leader replicas depend on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from broker_core.controller.cluster_facts import MIN_INSYNC_REPLICAS
from broker_core.metadata.config_resource import ConfigResource
from broker_core.metadata.metadata_records import (
    BeginTransactionRecord,
    ConfigRecord,
    ControllerFeature,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
)
from broker_core.metadata.metadata_version import (
    ELIGIBLE_LEADERS_FEATURE,
    KRAFT_VERSION_FEATURE,
    METADATA_VERSION_FEATURE,
    METADATA_VERSION_LEVEL,
)
from broker_core.raft.voter_set import SUPPORTED_KRAFT_VERSIONS

NEW_CLUSTER_FEATURES: Final[Mapping[str, int]] = {
    METADATA_VERSION_FEATURE: METADATA_VERSION_LEVEL,
    ELIGIBLE_LEADERS_FEATURE: 1,
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
}
"""Kafka 4.3's defaults."""

_LOWEST_METADATA_VERSION: Final = 7

CONTROLLER_FEATURES: Final = (
    ControllerFeature(
        name=METADATA_VERSION_FEATURE,
        min_supported_version=_LOWEST_METADATA_VERSION,
        max_supported_version=METADATA_VERSION_LEVEL,
    ),
    ControllerFeature(
        name=KRAFT_VERSION_FEATURE,
        min_supported_version=SUPPORTED_KRAFT_VERSIONS[0],
        max_supported_version=SUPPORTED_KRAFT_VERSIONS[1],
    ),
    *(
        ControllerFeature(name=name, min_supported_version=0, max_supported_version=level)
        for name, level in sorted(NEW_CLUSTER_FEATURES.items())
        if name != METADATA_VERSION_FEATURE
    ),
)
"""The levels with which this version can be an active controller: their records are known, or none are written."""


def bootstrap_records(*, min_insync_replicas: int, users: Sequence[MetadataRecord] = ()) -> tuple[MetadataRecord, ...]:
    return (
        BeginTransactionRecord(name="Bootstrap records"),
        *(FeatureLevelRecord(name=name, feature_level=level) for name, level in NEW_CLUSTER_FEATURES.items()),
        ConfigRecord(
            resource_type=ConfigResource.BROKER,
            resource_name="",
            name=MIN_INSYNC_REPLICAS,
            value=str(min_insync_replicas),
        ),
        *users,
        EndTransactionRecord(),
    )
