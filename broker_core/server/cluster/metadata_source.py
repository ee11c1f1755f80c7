"""Where a broker has its cluster's metadata from: `QuorumServer`, a voter, or `ObserverNode`, which follows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from broker_core.log_directory.committed_image import CommittedImage
from broker_core.model.client_settings import BrokerAddress
from broker_core.raft.quorum_values import ReplicaIdentity
from broker_core.server.quorum.peer_dialer import PeerDialer


class MetadataSource(Protocol):
    """`committed` holds what the quorum has committed, as far as this node knows."""

    @property
    def identity(self) -> ReplicaIdentity: ...

    @property
    def committed(self) -> CommittedImage: ...

    @property
    def dialer(self) -> PeerDialer:
        """To controllers: every connection to one comes from it."""
        ...

    @property
    def leader_address(self) -> BrokerAddress | None:
        """Of the active controller, None while nobody is known to lead."""
        ...

    def start(self) -> None: ...

    async def stop(self) -> None: ...


class OpenSource(Protocol):
    """Opens the directory, which is locked. Raises StreamlogError. `on_committed`: called on the loop when the
    committed image has changed, or another took its place; `on_end` when the source cannot go on."""

    def __call__(self, *, on_end: Callable[[Exception], None], on_committed: Callable[[], None]) -> MetadataSource: ...
