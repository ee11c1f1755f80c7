"""What the handlers of a node ask about the cluster that it belongs to: who leads, who coordinates, where brokers are.

A handler never takes the node itself for the answer, so the same handlers serve a node alone and a node of a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from broker_core.model.client_settings import BrokerAddress
from broker_core.model.identifiers import TopicPartition

NO_LEADER: Final = -1
_LEADER_EPOCH: Final = 0
"""Of every partition of a node alone, which has no other leaders."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLeadership:
    """`leader_id` is -1 while there is none. The others are ids of brokers."""

    leader_id: int
    leader_epoch: int
    replica_ids: Sequence[int]
    in_sync_ids: Sequence[int]
    offline_ids: Sequence[int] = ()


class ClusterView(Protocol):
    """As the node that is asked knows it by now."""

    @property
    def cluster_id(self) -> str: ...

    @property
    def node_id(self) -> int:
        """Of the node that is asked."""
        ...

    @property
    def controller(self) -> int:
        """The broker that clients send changes of topics to."""
        ...

    @property
    def brokers(self) -> Sequence[int]:
        """All that are registered."""
        ...

    def leader_of(self, partition: TopicPartition) -> PartitionLeadership:
        """Of a partition that exists."""
        ...

    def coordinator_of(self, internal_topic: str, key: str) -> int:
        """The broker that leads the key's partition of an internal topic that exists."""
        ...

    def endpoint_of(self, broker_id: int, listener: str) -> BrokerAddress:
        """Where clients of the listener find a registered broker."""
        ...

    def rack_of(self, broker_id: int) -> str | None:
        """Where a registered broker stands (broker.rack); None if it does not say."""
        ...


class SingleNodeView:
    """A node alone leads, holds, coordinates and controls everything."""

    def __init__(
        self,
        *,
        cluster_id: str,
        node_id: int,
        endpoints: Mapping[str, BrokerAddress],
        rack: str | None = None,
        is_offline: Callable[[TopicPartition], bool],
    ) -> None:
        self.cluster_id = cluster_id
        self.node_id = node_id
        self.controller = node_id
        self.brokers = (node_id,)
        self._led_here = PartitionLeadership(
            leader_id=node_id, leader_epoch=_LEADER_EPOCH, replica_ids=self.brokers, in_sync_ids=self.brokers
        )
        self._without_leader = replace(self._led_here, leader_id=NO_LEADER, offline_ids=self.brokers)
        self._endpoints = endpoints
        self._rack = rack
        self._is_offline = is_offline

    def leader_of(self, partition: TopicPartition) -> PartitionLeadership:
        """A partition whose disk has failed has no leader."""
        return self._without_leader if self._is_offline(partition) else self._led_here

    def coordinator_of(self, internal_topic: str, key: str) -> int:
        return self.node_id

    def endpoint_of(self, broker_id: int, listener: str) -> BrokerAddress:
        assert broker_id == self.node_id, f"broker {broker_id} is not registered, only {self.node_id}"
        return self._endpoints[listener]

    def rack_of(self, broker_id: int) -> str | None:
        assert broker_id == self.node_id, f"broker {broker_id} is not registered, only {self.node_id}"
        return self._rack
