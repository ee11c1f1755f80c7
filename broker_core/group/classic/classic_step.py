"""One event of one classic group while it is handled: its answers, timers and records."""

from __future__ import annotations

from collections.abc import Mapping

from kio.schema.errors import ErrorCode

from broker_core.coordinator.contract import CoordinatorResult
from broker_core.group.classic.classic_group import ClassicGroup
from broker_core.group.classic.classic_group_records import StoredGroup, encode_stored_group
from broker_core.group.classic.classic_member import ClassicMember
from broker_core.group.classic.classic_messages import JoinReply, SyncReply
from broker_core.group.group_effects import Answer, GroupEffects, GroupResult, TimerChange
from broker_core.group.group_records import GroupMetadataRecord
from broker_core.group.group_settings import GroupSettings
from broker_core.group.timer_keys import JOIN, SESSION, SYNC, ClassicTimer


class ClassicStep:
    """Created for one event and dropped after `result()`."""

    def __init__(self, group: ClassicGroup, settings: GroupSettings, now_ms: int) -> None:
        self.group = group
        self.settings = settings
        self.now_ms = now_ms
        self._answers: list[Answer] = []
        self._timers: dict[str, TimerChange] = {}
        self._records: list[GroupMetadataRecord] = []

    def result(self) -> GroupResult:
        effects = GroupEffects(answers=tuple(self._answers), timers=tuple(self._timers.values()))
        return CoordinatorResult(records=tuple(self._records), reply=effects)

    # -- answers --

    def answer(self, ticket: int, reply: object) -> None:
        self._answers.append(Answer(ticket=ticket, reply=reply))

    def answer_join(self, member: ClassicMember, reply: JoinReply) -> None:
        """Answers the member's parked join, if it has one."""
        if member.join_ticket is not None:
            self.answer(member.join_ticket, reply)
            member.join_ticket = None

    def answer_sync(self, member: ClassicMember, reply: SyncReply) -> bool:
        """Answers the member's parked sync; returns whether it had one."""
        if member.sync_ticket is None:
            return False
        self.answer(member.sync_ticket, reply)
        member.sync_ticket = None
        return True

    def park_join(self, member: ClassicMember, ticket: int) -> None:
        """A member has one parked join at a time: an earlier one, which its client gave up, is answered to retry."""
        self.answer_join(member, JoinReply(member_id=member.member_id, error_code=ErrorCode.rebalance_in_progress))
        member.join_ticket = ticket

    def park_sync(self, member: ClassicMember, ticket: int) -> None:
        """As with joins."""
        self.answer_sync(member, SyncReply(error_code=ErrorCode.rebalance_in_progress))
        member.sync_ticket = ticket

    def remove(self, member_id: str) -> None:
        """Removes the member; its parked requests are answered with UNKNOWN_MEMBER_ID, so that it joins again."""
        self.cancel(SESSION, member_id)
        member = self.group.remove(member_id)
        if member is not None:
            self.answer_join(member, JoinReply(error_code=ErrorCode.unknown_member_id))
            self.answer_sync(member, SyncReply(error_code=ErrorCode.unknown_member_id))

    # -- timers --

    def expect_session(self, member_id: str, timeout_ms: int) -> None:
        self._set(ClassicTimer(kind=SESSION, group_id=self.group.group_id, member_id=member_id), timeout_ms)

    def expect_heartbeat(self, member: ClassicMember) -> None:
        self.expect_session(member.member_id, member.session_timeout_ms)

    def expect_joins(self, timeout_ms: int) -> None:
        self._set(ClassicTimer(kind=JOIN, group_id=self.group.group_id), timeout_ms)

    def expect_syncs(self, timeout_ms: int) -> None:
        self._set(ClassicTimer(kind=SYNC, group_id=self.group.group_id), timeout_ms)

    def cancel(self, kind: str, member_id: str = "") -> None:
        self.cancel_key(ClassicTimer(kind=kind, group_id=self.group.group_id, member_id=member_id).key)

    def cancel_key(self, key: str) -> None:
        if self.group.deadlines.pop(key, None) is not None:
            self._timers[key] = TimerChange(key=key, at_ms=None)

    def repeat(self, key: str, at_ms: int) -> None:
        """The timer fired too early: its replacement has not reached the runner yet."""
        self._timers[key] = TimerChange(key=key, at_ms=at_ms)

    def _set(self, timer: ClassicTimer, timeout_ms: int) -> None:
        at_ms = self.now_ms + timeout_ms
        self.group.deadlines[timer.key] = at_ms
        self._timers[timer.key] = TimerChange(key=timer.key, at_ms=at_ms)

    # -- records --

    def maybe_store_members(self, assignments: Mapping[str, bytes] | None = None) -> bool:
        """Stores the group with these assignments. Returns False and stores nothing if it is too large for the log."""
        record = _record_of(self.group.group_id, self.group.as_stored(assignments))
        if len(record.value or b"") > self.settings.max_record_bytes:
            return False
        self._records.append(record)
        return True

    def store_empty(self) -> None:
        """The next generation has no members; replay makes the group Empty."""
        self._records.append(_record_of(self.group.group_id, self.group.as_empty(self.now_ms)))

    def store_new(self) -> None:
        """Stores that the group exists, with generation 0, whatever its current state is."""
        self._records.append(_record_of(self.group.group_id, StoredGroup(state_timestamp_ms=self.now_ms)))


def _record_of(group_id: str, stored: StoredGroup) -> GroupMetadataRecord:
    return GroupMetadataRecord(group_id=group_id, value=encode_stored_group(stored))
