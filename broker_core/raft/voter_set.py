"""Who votes in the metadata quorum, and where to reach them.

A voter is a replica: a node id and the id of the directory of its log. So a node whose disk was wiped is another
replica, which has no vote until it is added (KIP-853). Static voters have no directory ids, and then the node's id is
enough.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

from broker_core.model.client_settings import BrokerAddress

KRAFT_VERSION_FEATURE: Final = "kraft.version"
STATIC_KRAFT_VERSION: Final = 0
DYNAMIC_KRAFT_VERSION: Final = 1
SUPPORTED_KRAFT_VERSIONS: Final = (STATIC_KRAFT_VERSION, DYNAMIC_KRAFT_VERSION)


class ReplicaKey(NamedTuple):
    """A None directory is not known, and is any."""

    node_id: int
    directory_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterNode:
    """`endpoints` are addresses by listener, `kraft_versions` the lowest and the highest level that it knows."""

    node_id: int
    directory_id: UUID | None = None
    endpoints: Mapping[str, BrokerAddress] = field(default_factory=dict)
    kraft_versions: tuple[int, int] = SUPPORTED_KRAFT_VERSIONS

    @property
    def key(self) -> ReplicaKey:
        return ReplicaKey(self.node_id, self.directory_id)

    def matches(self, key: ReplicaKey) -> bool:
        return self.node_id == key.node_id and self.directory_id in (None, key.directory_id)

    def supports(self, kraft_version: int) -> bool:
        lowest, highest = self.kraft_versions
        return lowest <= kraft_version <= highest


@dataclass(frozen=True, slots=True)
class VoterSet:
    """By node id. `with_*` and `without` return another set, None for a change that this set does not allow."""

    nodes: Mapping[int, VoterNode] = field(default_factory=dict)

    @classmethod
    def of(cls, nodes: Collection[VoterNode]) -> VoterSet:
        return cls({node.node_id: node for node in sorted(nodes, key=lambda node: node.node_id)})

    @classmethod
    def of_static(cls, addresses: Mapping[int, BrokerAddress], listener: str) -> VoterSet:
        """Those of `controller.quorum.voters`."""
        return cls.of(
            [
                VoterNode(
                    node_id=node_id,
                    endpoints={listener: address},
                    kraft_versions=(STATIC_KRAFT_VERSION, STATIC_KRAFT_VERSION),
                )
                for node_id, address in addresses.items()
            ]
        )

    def is_voter(self, key: ReplicaKey) -> bool:
        node = self.nodes.get(key.node_id)
        return node is not None and node.matches(key)

    def address_of(self, node_id: int, listener: str) -> BrokerAddress | None:
        """None also for a voter without that listener."""
        node = self.nodes.get(node_id)
        return None if node is None else node.endpoints.get(listener)

    def directory_of(self, node_id: int) -> UUID | None:
        node = self.nodes.get(node_id)
        return None if node is None else node.directory_id

    def with_added(self, node: VoterNode) -> VoterSet | None:
        """None if the id is there, with whatever directory: that one has to be removed first."""
        return None if node.node_id in self.nodes else VoterSet.of([*self.nodes.values(), node])

    def without(self, key: ReplicaKey) -> VoterSet | None:
        """None for a key that is not exactly a voter's, and for the last voter."""
        node = self.nodes.get(key.node_id)
        if node is None or node.key != key or len(self.nodes) == 1:
            return None
        return VoterSet.of([each for each in self.nodes.values() if each is not node])

    def with_updated(self, node: VoterNode) -> VoterSet | None:
        """Endpoints and versions of the voter with the same key are the node's."""
        return self.with_told(node) if self.is_voter(node.key) else None

    def with_told(self, node: VoterNode) -> VoterSet | None:
        """The same, whatever the directory: static voters are told apart by their ids alone."""
        if node.node_id not in self.nodes:
            return None
        return VoterSet.of([*(each for each in self.nodes.values() if each.node_id != node.node_id), node])

    def needs_update(self, node: VoterNode) -> bool:
        return self.is_voter(node.key) and self.nodes[node.node_id] != node
