"""AlterPartition: the leader of a partition asks for another ISR; the checks in Kafka's order.

leader epoch or partition epoch above the controller's   NOT_CONTROLLER: this controller lacks records
leader epoch below it                                    FENCED_LEADER_EPOCH
sent by another broker than the leader                   INVALID_REQUEST
partition epoch below it                                 INVALID_UPDATE_VERSION
an ISR that is no set of replicas, or lacks the leader;  INVALID_REQUEST
more than the leader while it recovers; recovering anew
a member that is not registered in the epoch that was    INELIGIBLE_REPLICA
named, is fenced or stops
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker_core.controller.cluster_facts import ClusterFacts
from broker_core.controller.partition_change import (
    RECOVERED,
    RECOVERING,
    Election,
    PartitionWish,
    plan_partition_change,
)
from broker_core.metadata.metadata_records import PartitionChangeRecord
from broker_core.metadata.partition_state import LEADER_UNCHANGED, PartitionState, changed_state

UNCHECKED_EPOCH: Final = -1
"""Of a member whose broker epoch is not known to the leader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrProposal:
    """What the broker `leader_id` wants. `isr` is (broker id, broker epoch)."""

    leader_id: int
    topic_id: UUID
    number: int
    leader_epoch: int
    partition_epoch: int
    isr: Sequence[tuple[int, int]]
    recovery_state: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrOutcome:
    """`record` is what changes, also with NEW_LEADER_ELECTED; `state` the partition then, None for an error."""

    error: ErrorCode = ErrorCode.none
    record: PartitionChangeRecord | None = None
    state: PartitionState | None = None


def plan_isr_change(facts: ClusterFacts, proposal: IsrProposal) -> IsrOutcome:
    topic = facts.image.topic_by_id(proposal.topic_id)
    if topic is None:
        return IsrOutcome(error=ErrorCode.unknown_topic_id)
    state = facts.image.partition(proposal.topic_id, proposal.number)
    if state is None:
        return IsrOutcome(error=ErrorCode.unknown_topic_or_partition)
    error = _error_of(facts, state, proposal)
    if error is not ErrorCode.none:
        return IsrOutcome(error=error)
    target = PartitionWish(
        isr=tuple(broker_id for broker_id, _ in proposal.isr),
        election=Election.UNCLEAN if facts.is_unclean_allowed(topic.name) else Election.ONLINE,
        recovery_state=proposal.recovery_state,
    )
    rules = facts.rules_of(topic.name, state)
    record = plan_partition_change(proposal.topic_id, proposal.number, state, rules, target)
    if record is None:
        return IsrOutcome(state=state)
    if record.leader not in (LEADER_UNCHANGED, proposal.leader_id):
        return IsrOutcome(error=ErrorCode.new_leader_elected, record=record)
    return IsrOutcome(record=record, state=changed_state(state, record))


def _error_of(facts: ClusterFacts, state: PartitionState, proposal: IsrProposal) -> ErrorCode:
    if proposal.leader_epoch > state.leader_epoch or proposal.partition_epoch > state.partition_epoch:
        return ErrorCode.not_controller
    if proposal.leader_epoch < state.leader_epoch:
        return ErrorCode.fenced_leader_epoch
    if proposal.leader_id != state.leader:
        return ErrorCode.invalid_request
    if proposal.partition_epoch < state.partition_epoch:
        return ErrorCode.invalid_update_version
    if not _is_valid_isr(state, proposal):
        return ErrorCode.invalid_request
    if not all(_is_eligible(facts, broker_id, epoch) for broker_id, epoch in proposal.isr):
        return ErrorCode.ineligible_replica
    return ErrorCode.none


def _is_valid_isr(state: PartitionState, proposal: IsrProposal) -> bool:
    members = [broker_id for broker_id, _ in proposal.isr]
    if len(set(members)) != len(members) or not set(members) <= set(state.replicas):
        return False
    if state.leader not in members or proposal.recovery_state not in (RECOVERED, RECOVERING):
        return False
    if proposal.recovery_state == RECOVERING:
        return len(members) == 1 and state.leader_recovery_state == RECOVERING
    return True


def _is_eligible(facts: ClusterFacts, broker_id: int, broker_epoch: int) -> bool:
    if not facts.is_active(broker_id):
        return False
    return broker_epoch in (UNCHECKED_EPOCH, facts.image.registrations.brokers[broker_id].broker_epoch)
