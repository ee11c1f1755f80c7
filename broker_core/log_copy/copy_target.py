"""The differences between the targets of a copy: those that accept records at given offsets, and brokers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from broker_core.cluster import Cluster
from broker_core.log_copy.copy_sinks import CopySink, DenseSink, PlacedCluster, PlacedSink
from broker_core.model.identifiers import NO_PRODUCER_ID, TimestampType
from broker_core.model.topic_config import TopicConfig
from broker_core.placed_writes import PlacedWrites

_TIMESTAMP_TYPE: Final = "message.timestamp.type"
_CREATE_TIME: Final = "CreateTime"


class CopyTarget(Protocol):
    """`keeps_gaps`: records are written at the source's offsets, with its gaps."""

    @property
    def keeps_gaps(self) -> bool: ...

    def new_producer_id(self) -> int:
        """For the markers of partitions that this target starts to write."""
        ...

    def new_sink(self) -> CopySink:
        """For one topic."""
        ...

    def settings_while_filled(self, configs: Mapping[str, str]) -> Mapping[str, str]:
        """The settings that differ from the source's topic until the records are written."""
        ...


def copy_target(cluster: Cluster) -> CopyTarget:
    return _PlacedTarget(cluster) if isinstance(cluster, PlacedWrites) else _BrokerTarget(cluster)


class _PlacedTarget:
    """`CopyTarget`: a directory or object storage."""

    keeps_gaps = True

    def __init__(self, cluster: PlacedCluster) -> None:
        self._cluster = cluster

    def new_producer_id(self) -> int:
        return NO_PRODUCER_ID

    def new_sink(self) -> CopySink:
        return PlacedSink(self._cluster)

    def settings_while_filled(self, configs: Mapping[str, str]) -> Mapping[str, str]:
        return {}


class _BrokerTarget:
    """`CopyTarget`: with log-append time brokers would set the time of the copy."""

    keeps_gaps = False

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def new_producer_id(self) -> int:
        return self._cluster.init_producer().producer_id

    def new_sink(self) -> CopySink:
        return DenseSink(self._cluster)

    def settings_while_filled(self, configs: Mapping[str, str]) -> Mapping[str, str]:
        config = TopicConfig.from_stored(configs)
        return {_TIMESTAMP_TYPE: _CREATE_TIME} if config.message_timestamp_type is TimestampType.LOG_APPEND_TIME else {}
