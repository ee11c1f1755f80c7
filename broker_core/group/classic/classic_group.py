"""One classic group: its members, the protocols they support, its leader, and what the log stores of it.

Events change members, tickets and deadlines through the methods below; `replay` applies a stored record. A record is
stored, and replayed at once, when a generation is complete (the leader's assignment has arrived, or no member joined)
and when a static member takes a new id. A rebalance in progress is soft state: if the broker dies, the previous
generation continues.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from kio.schema.errors import ErrorCode

from broker_core.group.classic.classic_group_records import NO_STATE_TIMESTAMP, StoredGroup
from broker_core.group.classic.classic_member import ClassicMember
from broker_core.group.classic.classic_messages import JoinedMember, JoinProtocol
from broker_core.group.classic.classic_states import REBALANCING, ClassicState, assert_may_follow
from broker_core.group.subscribed_topics import CONSUMER_PROTOCOL_TYPE, subscribed_topics

MAX_GENERATION: Final = 2**31 - 1
"""Of a signed 32-bit number; 1 follows, as 0 is a group that never had one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InitialDelay:
    """How long the running part of a first rebalance's delay is, and what may follow it when more members come."""

    delay_ms: int
    remaining_ms: int


class ClassicGroup:
    """Members keep the order in which they came."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.state = ClassicState.EMPTY
        self.previous_state = ClassicState.DEAD
        self.state_timestamp_ms = NO_STATE_TIMESTAMP
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.pending_joins: set[str] = set()
        """Member ids that were assigned but not used yet (KIP-394)."""
        self.pending_syncs: set[str] = set()
        self.initial_delay: InitialDelay | None = None
        self.has_grown = False
        """A member came while the initial delay was running."""
        self.deadlines: dict[str, int] = {}
        """Deadlines by timer key. A timer that is missing here was cancelled."""
        self._static_members: dict[str, str] = {}
        self._support: Counter[str] = Counter()
        self._topics: frozenset[str] | None = None

    # -- what is known --

    @property
    def is_empty(self) -> bool:
        return self.state is ClassicState.EMPTY

    @property
    def is_consumer_group(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def awaiting_join_count(self) -> int:
        return sum(member.is_awaiting_join for member in self.members.values())

    @property
    def has_everybody_joined(self) -> bool:
        return not self.pending_joins and self.awaiting_join_count == len(self.members)

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def static_member_id(self, group_instance_id: str | None) -> str | None:
        return None if group_instance_id is None else self._static_members.get(group_instance_id)

    def supports(self, protocol_type: str, protocols: Iterable[JoinProtocol]) -> bool:
        """Whether a member of these could be in the group: one of its protocols is known to all."""
        names = {protocol.name for protocol in protocols}
        if self.is_empty:
            return bool(protocol_type and names)
        return self.protocol_type == protocol_type and any(self._support[name] == len(self.members) for name in names)

    def is_subscribed_to(self, topic: str) -> bool:
        """True also for a consumer group whose members' subscriptions cannot be parsed."""
        return self.is_consumer_group if self._topics is None else topic in self._topics

    @property
    def knows_its_topics(self) -> bool:
        return self._topics is not None

    def select_protocol(self) -> str:
        """The protocol with the most votes among those that all members support; on a tie the one voted for first."""
        candidates = {name for name, count in self._support.items() if count == len(self.members)}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def joined_members(self) -> tuple[JoinedMember, ...]:
        return tuple(member.as_joined(self.protocol_name) for member in self.members.values())

    def as_stored(self, assignments: Mapping[str, bytes] | None = None) -> StoredGroup:
        """`assignments` by member id; None: those that the members have."""
        return StoredGroup(
            protocol_type=self.protocol_type or "",
            generation_id=self.generation_id,
            protocol=self.protocol_name,
            leader=self.leader_id,
            state_timestamp_ms=self.state_timestamp_ms,
            members=tuple(
                member.as_stored(
                    self.protocol_name, member.assignment if assignments is None else assignments.get(member_id, b"")
                )
                for member_id, member in self.members.items()
            ),
        )

    def as_empty(self, now_ms: int) -> StoredGroup:
        """The value to store when the next generation has no members."""
        return StoredGroup(
            protocol_type=self.protocol_type or "",
            generation_id=self._next_generation(),
            state_timestamp_ms=now_ms,
        )

    def refusal_of(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Why no member has this id; `none` if one does."""
        if group_instance_id is not None:
            holder = self._static_members.get(group_instance_id)
            if holder is not None and holder != member_id:
                return ErrorCode.fenced_instance_id
            if holder is None:
                return ErrorCode.unknown_member_id
        return ErrorCode.none if member_id in self.members else ErrorCode.unknown_member_id

    # -- soft changes --

    def transition_to(self, state: ClassicState, now_ms: int) -> None:
        assert_may_follow(state, self.state, self.group_id)
        self.previous_state, self.state = self.state, state
        self.state_timestamp_ms = now_ms

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        """The caller has checked that the group `supports` the member and that its instance id is free."""
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self._put(member)
        self.pending_joins.discard(member.member_id)

    def remove(self, member_id: str) -> ClassicMember | None:
        """The caller answers its parked requests. If the leader leaves, the member that joined first leads."""
        self.pending_joins.discard(member_id)
        self.pending_syncs.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is not None:
            self._withdraw(member)
            if member.group_instance_id is not None:
                del self._static_members[member.group_instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        return member

    def replace_static(self, old_member_id: str, new_member_id: str) -> ClassicMember:
        """The static member under its new id, with nothing parked."""
        was_leader = self.leader_id == old_member_id
        member = self.remove(old_member_id)
        assert member is not None, f"group {self.group_id!r} has no member {old_member_id!r} to replace"
        member.member_id, member.is_new, member.join_ticket, member.sync_ticket = new_member_id, False, None, None
        self._put(member)
        if was_leader:
            self.leader_id = new_member_id
        return member

    def update(self, member: ClassicMember, protocols: tuple[JoinProtocol, ...]) -> None:
        self._withdraw(member)
        member.protocols = protocols
        self._support.update(member.protocol_names)

    def maybe_elect_joined_leader(self) -> bool:
        """Whether a member that joined leads: the leader, or else the first member that joined."""
        leader = self.members.get(self.leader_id or "")
        if leader is None or not leader.is_awaiting_join:
            leader = next((member for member in self.members.values() if member.is_awaiting_join), None)
        if leader is not None:
            self.leader_id = leader.member_id
        return leader is not None

    def begin_generation(self, now_ms: int) -> None:
        """Of the current members."""
        self.generation_id = self._next_generation()
        self.protocol_name = self.select_protocol()
        self._topics = self._subscriptions()
        self.pending_syncs.clear()
        self.transition_to(ClassicState.COMPLETING_REBALANCE, now_ms)

    # -- replay --

    def replay(self, stored: StoredGroup) -> None:
        """Sets the group to the record. What the record does not contain of a known member stays as it is.

        A record without members that arrives during a rebalance with members is older than the rebalance: it is a
        group's first record, written while its first member is joining."""
        if not stored.members and self.members and self.state in REBALANCING:
            return
        self.generation_id = stored.generation_id
        self.protocol_type = stored.protocol_type or None
        self.protocol_name = stored.protocol
        self.leader_id = stored.leader
        known, self.members = self.members, {}
        self._static_members, self._support = {}, Counter()
        for each in stored.members:
            member = known.get(each.member_id)
            if member is None or member.as_stored(stored.protocol, each.assignment) != each:
                member = ClassicMember.from_stored(each, stored.protocol)
            member.assignment = each.assignment
            self._put(member)
        self._topics = self._subscriptions()
        self.previous_state, self.state = self.state, ClassicState.STABLE if self.members else ClassicState.EMPTY
        self.state_timestamp_ms = stored.state_timestamp_ms

    def _put(self, member: ClassicMember) -> None:
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self._static_members, f"two members {member.group_instance_id!r}"
            self._static_members[member.group_instance_id] = member.member_id
        self.members[member.member_id] = member
        self._support.update(member.protocol_names)

    def _withdraw(self, member: ClassicMember) -> None:
        self._support = self._support - Counter(member.protocol_names)

    def _next_generation(self) -> int:
        return self.generation_id + 1 if self.generation_id < MAX_GENERATION else 1

    def _subscriptions(self) -> frozenset[str] | None:
        if not self.is_consumer_group:
            return None
        found = [subscribed_topics(member.metadata_of(self.protocol_name)) for member in self.members.values()]
        known = [topics for topics in found if topics is not None]
        return frozenset().union(*known) if len(known) == len(found) else None
