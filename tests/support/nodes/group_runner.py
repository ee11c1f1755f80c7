"""What runs a group coordinator, in memory: events, records as bytes, replay, timers, and who was answered what."""

import itertools

from broker_core.cluster import GroupOffset
from broker_core.group.classic.classic_messages import (
    HeartbeatRequest,
    JoinProtocol,
    JoinRequest,
    LeaveRequest,
    LeavingMember,
    SyncRequest,
)
from broker_core.group.coordinator_records import decode_coordinator_record, encode_coordinator_record
from broker_core.group.group_coordinator import GroupCoordinator
from broker_core.group.group_settings import GroupSettings
from broker_core.group.offsets.offset_messages import CommitRequest, DeleteOffsetsRequest, FetchRequest
from broker_core.model.identifiers import TopicPartition

ORDERS = TopicPartition("orders", 0)
ORDERS_SUBSCRIPTION = b"\0\1\0\0\0\1\0\6orders\xff\xff\xff\xff"
RANGE = (JoinProtocol(name="range", metadata=ORDERS_SUBSCRIPTION),)


class GroupRunner:
    """Time stands in `now_ms` until `pass_ms`. `answers` by ticket; `parked` are the tickets that have none."""

    def __init__(self, **settings):
        self.settings = GroupSettings(**settings)
        self._ids = itertools.count(1)
        self._tickets = itertools.count(1)
        self.coordinator = self.fresh()
        self.log = []
        self.now_ms = 1_000_000
        self.timers = {}
        self.answers = {}
        self.parked = set()

    def fresh(self):
        return GroupCoordinator(self.settings, new_id=lambda: f"id{next(self._ids)}")

    # -- events --

    def run(self, result, *, producer_id=-1):
        for record in result.records:
            stored = encode_coordinator_record(record, timestamp_ms=self.now_ms)
            self.log.append((stored.key, stored.value, producer_id))
            self._replay(self.coordinator, len(self.log) - 1)
        for answer in result.reply.answers:
            assert answer.ticket not in self.answers, f"ticket {answer.ticket} was answered twice"
            self.answers[answer.ticket] = answer.reply
            self.parked.discard(answer.ticket)
        for timer in result.reply.timers:
            if timer.at_ms is None:
                self.timers.pop(timer.key, None)
            else:
                self.timers[timer.key] = timer.at_ms

    def ticket(self):
        ticket = next(self._tickets)
        self.parked.add(ticket)
        return ticket

    def join(self, group_id="g", member_id="", **options):
        """The ticket: the answer may come later."""
        given = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 60_000, "client_id": "c", "protocols": RANGE}
        given |= {"protocol_type": "consumer", "client_host": "/127.0.0.1"} | options
        ticket = self.ticket()
        request = JoinRequest(group_id=group_id, member_id=member_id, **given)
        self.run(self.coordinator.on_join(ticket, request, self.now_ms))
        return ticket

    def sync(self, group_id, generation_id, member_id, assignments=None, **options):
        ticket = self.ticket()
        request = SyncRequest(
            group_id=group_id,
            generation_id=generation_id,
            member_id=member_id,
            assignments=assignments or {},
            **options,
        )
        self.run(self.coordinator.on_sync(ticket, request, self.now_ms))
        return ticket

    def heartbeat(self, group_id, generation_id, member_id, **options):
        ticket = self.ticket()
        request = HeartbeatRequest(group_id=group_id, generation_id=generation_id, member_id=member_id, **options)
        self.run(self.coordinator.on_heartbeat(ticket, request, self.now_ms))
        return self.answers[ticket].error_code.name

    def leave(self, group_id, *members):
        """Each a member id, or an instance id after "@"; the errors' names in their order."""
        leaving = tuple(
            LeavingMember(group_instance_id=each[1:]) if each.startswith("@") else LeavingMember(member_id=each)
            for each in members
        )
        ticket = self.ticket()
        request = LeaveRequest(group_id=group_id, members=leaving)
        self.run(self.coordinator.on_leave(ticket, request, self.now_ms))
        reply = self.answers[ticket]
        return [each.error_code.name for each in reply.members] or reply.error_code.name

    def commit(self, group_id="g", generation_id=-1, member_id="", *, offsets=None, producer_id=-1, **options):
        """Error name by partition; one name when it is the same for all."""
        asked = {
            partition: given if isinstance(given, GroupOffset) else GroupOffset(offset=given)
            for partition, given in (offsets or {ORDERS: 5}).items()
        }
        ticket = self.ticket()
        request = CommitRequest(
            group_id=group_id, generation_id=generation_id, member_id=member_id, offsets=asked, **options
        )
        plan = self.coordinator.on_commit_offsets if producer_id == -1 else self.coordinator.on_txn_commit_offsets
        self.run(plan(ticket, request, self.now_ms), producer_id=producer_id)
        names = {partition: error.name for partition, error in self.answers[ticket].errors.items()}
        return names if len(set(names.values())) > 1 else next(iter(names.values()))

    def mark(self, producer_id, *, is_commit=True):
        self.log.append((producer_id, is_commit))
        self._replay(self.coordinator, len(self.log) - 1)

    def fetch(self, group_id="g", partitions=None, **options):
        return self.coordinator.fetch_offsets(FetchRequest(group_id=group_id, partitions=partitions, **options))

    def delete_offsets(self, group_id, *partitions):
        ticket = self.ticket()
        request = DeleteOffsetsRequest(group_id=group_id, partitions=partitions)
        self.run(self.coordinator.delete_offsets(ticket, request))
        reply = self.answers[ticket]
        return {partition: error.name for partition, error in reply.errors.items()} or reply.error_code.name

    def delete_group(self, group_id):
        ticket = self.ticket()
        self.run(self.coordinator.delete_group(ticket, group_id))
        return self.answers[ticket].error_code.name

    def expire_offsets(self):
        self.run(self.coordinator.plan_expire_offsets(self.now_ms))

    def pass_ms(self, duration_ms):
        """Runs the timers that come due on the way, each at its time."""
        until_ms = self.now_ms + duration_ms
        while (due := min(((at, key) for key, at in self.timers.items()), default=(until_ms + 1, ""))) and (
            due[0] <= until_ms
        ):
            at_ms, key = due
            del self.timers[key]
            self.now_ms = max(self.now_ms, at_ms)
            self.run(self.coordinator.on_timer(key, self.now_ms))
        self.now_ms = until_ms

    def restart(self):
        """Only the log is left."""
        self.coordinator = self.replayed()
        self.timers, self.parked = {}, set()
        self.run(self.coordinator.on_loaded(self.now_ms))

    def replayed(self):
        coordinator = self.fresh()
        for at in range(len(self.log)):
            self._replay(coordinator, at)
        return coordinator

    # -- whole walks --

    def reply(self, ticket):
        """None while it is parked."""
        return self.answers.get(ticket)

    def error(self, ticket):
        return self.answers[ticket].error_code.name

    def new_member(self, group_id="g", **options):
        """The id that the member was told, and the ticket of its second join."""
        told = self.answers[self.join(group_id, **options)]
        assert told.error_code.name == "member_id_required"
        return told.member_id, self.join(group_id, told.member_id, **options)

    def stable_group(self, count=1, group_id="g", **options):
        """Ids of the members, the leader first; each is assigned its own id in capitals."""
        members = [self.new_member(group_id, **options) for _ in range(count)]
        self.pass_ms(self.settings.initial_rebalance_delay_ms * 2)
        self.share_out(group_id, [self.answers[ticket] for _, ticket in members])
        return [member_id for member_id, _ in members]

    def share_out(self, group_id, replies):
        """The leader's sync comes last. What the joins were answered is given."""
        leader = next(reply for reply in replies if reply.leader == reply.member_id)
        assignments = {each.member_id: each.member_id.upper().encode() for each in leader.members}
        for reply in sorted(replies, key=lambda each: each is leader):
            self.sync(group_id, reply.generation_id, reply.member_id, assignments if reply is leader else None)

    def group(self, group_id="g"):
        return self.coordinator.classic_groups.get(group_id)

    def state(self, group_id="g"):
        return self.coordinator.describe(group_id).state

    def _replay(self, coordinator, at):
        if len(self.log[at]) == 2:
            producer_id, is_commit = self.log[at]
            coordinator.replay_marker(producer_id, is_commit=is_commit)
        else:
            key, value, producer_id = self.log[at]
            coordinator.replay(decode_coordinator_record(key, value), record_offset=at, producer_id=producer_id)
