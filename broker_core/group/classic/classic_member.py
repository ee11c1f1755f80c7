"""One member of a classic group: its metadata, its assignment, and its parked requests."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from broker_core.group.classic.classic_group_records import StoredMember
from broker_core.group.classic.classic_messages import JoinedMember, JoinProtocol, JoinRequest


@dataclass(slots=True, kw_only=True)
class ClassicMember:
    """`join_ticket`, `sync_ticket`: the parked request, if any. At most one of them is set.

    `is_new`: it does not know its id yet (its first join is parked), so it cannot send heartbeats.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[JoinProtocol, ...]
    assignment: bytes = b""
    join_ticket: int | None = None
    sync_ticket: int | None = None
    is_new: bool = False

    @classmethod
    def joining(cls, member_id: str, request: JoinRequest, ticket: int) -> ClassicMember:
        return cls(
            member_id=member_id,
            group_instance_id=request.group_instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocols=request.protocols,
            join_ticket=ticket,
            is_new=True,
        )

    @classmethod
    def from_stored(cls, stored: StoredMember, protocol: str | None) -> ClassicMember:
        """Whether the chosen protocol is the only one known of it."""
        return cls(
            member_id=stored.member_id,
            group_instance_id=stored.group_instance_id,
            client_id=stored.client_id,
            client_host=stored.client_host,
            rebalance_timeout_ms=stored.rebalance_timeout_ms,
            session_timeout_ms=stored.session_timeout_ms,
            protocols=(JoinProtocol(name=protocol or "", metadata=stored.subscription),),
            assignment=stored.assignment,
        )

    def as_stored(self, protocol: str | None, assignment: bytes) -> StoredMember:
        return StoredMember(
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.session_timeout_ms,
            subscription=self.metadata_of(protocol),
            assignment=assignment,
        )

    def as_joined(self, protocol: str | None) -> JoinedMember:
        return JoinedMember(
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            metadata=self.metadata_of(protocol),
        )

    @property
    def protocol_names(self) -> set[str]:
        return {protocol.name for protocol in self.protocols}

    @property
    def is_awaiting_join(self) -> bool:
        return self.join_ticket is not None

    @property
    def is_excused(self) -> bool:
        """Whether no heartbeat is expected because a request of it is parked. A new member still has a timeout: its
        client may have died unnoticed."""
        return not self.is_new and (self.is_awaiting_join or self.sync_ticket is not None)

    def metadata_of(self, protocol: str | None) -> bytes:
        """Empty for a protocol that the member did not name."""
        return next((known.metadata for known in self.protocols if known.name == protocol), b"")

    def vote(self, candidates: Collection[str]) -> str:
        """The candidate that it named first."""
        chosen = next((known.name for known in self.protocols if known.name in candidates), None)
        assert chosen is not None, f"member {self.member_id!r} supports none of {sorted(candidates)}"
        return chosen
