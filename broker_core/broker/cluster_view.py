"""The cluster as handlers see it: leaders, coordinators, and the addresses of brokers.

Handlers never assume that their node is the leader, so they work for a single node and for a node of a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from broker_core.model.client_settings import BrokerAddress
from broker_core.model.identifiers import TopicPartition

NO_LEADER: Final = -1
_LEADER_EPOCH: Final = 0
"""The leader epoch of every partition: a single node never elects another leader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLeadership:
    """`leader_id` is -1 without a leader. The other fields are broker ids."""

    leader_id: int
    leader_epoch: int
    replica_ids: Sequence[int]
    in_sync_ids: Sequence[int]
    offline_ids: Sequence[int] = ()


class ClusterView(Protocol):
    """The cluster as this node knows it now."""

    @property
    def cluster_id(self) -> str: ...

    @property
    def node_id(self) -> int:
        """The id of this node."""
        ...

    @property
    def controller(self) -> int:
        """The broker to which clients send topic changes."""
        ...

    @property
    def brokers(self) -> Sequence[int]:
        """The ids of the registered brokers that are not fenced."""
        ...

    @property
    def fenced_brokers(self) -> Sequence[int]: ...

    def leader_of(self, partition: TopicPartition) -> PartitionLeadership:
        """`partition` must exist."""
        ...

    def coordinator_of(self, internal_topic: str, key: str) -> int:
        """The leader of the key's partition in an existing internal topic."""
        ...

    def endpoint_of(self, broker_id: int, listener: str) -> BrokerAddress:
        """The advertised address of a registered broker for the listener; for one that is gone, any."""
        ...

    def rack_of(self, broker_id: int) -> str | None:
        """The rack of a registered broker (broker.rack); None if it is not set."""
        ...


class SingleNodeView:
    """A single node is leader, replica, coordinator and controller of everything."""

    def __init__(
        self,
        *,
        cluster_id: str,
        node_id: int,
        endpoints: Callable[[], Mapping[str, BrokerAddress]],
        rack: str | None = None,
        is_offline: Callable[[TopicPartition], bool],
    ) -> None:
        self.cluster_id = cluster_id
        self.node_id = node_id
        self.controller = node_id
        self.brokers = (node_id,)
        self.fenced_brokers: Sequence[int] = ()
        self._led_here = PartitionLeadership(
            leader_id=node_id, leader_epoch=_LEADER_EPOCH, replica_ids=self.brokers, in_sync_ids=self.brokers
        )
        self._without_leader = replace(self._led_here, leader_id=NO_LEADER, offline_ids=self.brokers)
        self._endpoints = endpoints
        self._rack = rack
        self._is_offline = is_offline

    def leader_of(self, partition: TopicPartition) -> PartitionLeadership:
        """An offline partition has no leader."""
        return self._without_leader if self._is_offline(partition) else self._led_here

    def coordinator_of(self, internal_topic: str, key: str) -> int:
        return self.node_id

    def endpoint_of(self, broker_id: int, listener: str) -> BrokerAddress:
        assert broker_id == self.node_id, f"broker {broker_id} is not registered, only broker {self.node_id} is"
        endpoints = self._endpoints()
        # A listener may have been removed while a request of its connection was waiting.
        return endpoints.get(listener) or next(iter(endpoints.values()))

    def rack_of(self, broker_id: int) -> str | None:
        assert broker_id == self.node_id, f"broker {broker_id} is not registered, only broker {self.node_id} is"
        return self._rack
