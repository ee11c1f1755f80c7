"""A controller of one partition that does what Kafka's does: registrations, fencing, elections, AlterPartition, ELR.

Every change is a new version of the partition's metadata; brokers hear of versions late, and may miss some in between.
"""

from __future__ import annotations

from dataclasses import replace

from kio.schema.errors import ErrorCode

from broker_core.replication.replication_values import BrokerStanding, IsrAnswer, PartitionAssignment


class PartitionController:
    """`may_elect_uncleanly`: a replica that is not in sync may lead when no other can (unclean.leader.election)."""

    def __init__(self, replicas, *, min_in_sync_count, may_elect_uncleanly, on_change):
        self.min_count = min(min_in_sync_count, len(replicas))
        self.may_elect_uncleanly = may_elect_uncleanly
        self.on_change = on_change
        self.brokers = {}
        self.incarnations = {}
        self.assignment = PartitionAssignment(
            leader_id=-1, leader_epoch=-1, partition_epoch=-1, replicas=tuple(replicas), isr=tuple(replicas)
        )
        self.elr = frozenset()
        self.last_epoch = 0
        self.versions = [(self.assignment, {})]
        self.unclean_count = 0

    @property
    def version(self):
        return len(self.versions) - 1

    @property
    def holders(self):
        """Everybody who may be elected cleanly."""
        return frozenset(self.assignment.isr) | self.elr

    def _publish(self):
        self.versions.append((self.assignment, dict(self.brokers)))
        self.on_change()

    # Brokers

    def register(self, broker_id, incarnation, *, has_kept_disk):
        """A new incarnation fences the old one; the same one gets the same epoch again."""
        if self.incarnations.get(broker_id) == incarnation:
            return self.brokers[broker_id].broker_epoch
        self.incarnations[broker_id] = incarnation
        if broker_id in self.brokers:
            self.fence(broker_id)
        if not has_kept_disk and broker_id in self.holders:
            self.elr -= {broker_id}
            self._change(isr=[one for one in self.assignment.isr if one != broker_id], removed=())
        self.last_epoch += 1
        self.brokers[broker_id] = BrokerStanding(broker_epoch=self.last_epoch, is_fenced=True)
        self._publish()
        return self.last_epoch

    def is_current(self, broker_id, broker_epoch):
        standing = self.brokers.get(broker_id)
        return standing is not None and standing.broker_epoch == broker_epoch

    def unfence(self, broker_id):
        standing = self.brokers[broker_id]
        if standing.is_fenced and not standing.is_stopping:
            self.brokers[broker_id] = replace(standing, is_fenced=False)
            self._publish()
            self.elect_if_needed()

    def fence(self, broker_id):
        standing = self.brokers[broker_id]
        if not standing.is_fenced:
            self.brokers[broker_id] = replace(standing, is_fenced=True)
            self._remove(broker_id)
            self._publish()

    def stop(self, broker_id):
        """A controlled shutdown begins."""
        standing = self.brokers[broker_id]
        if standing.is_alive:
            self.brokers[broker_id] = replace(standing, is_stopping=True)
            self._remove(broker_id)
            self._publish()

    def _remove(self, broker_id):
        members = [one for one in self.assignment.isr if one != broker_id]
        if len(members) < len(self.assignment.isr) or self.assignment.leader_id == broker_id:
            self._change(isr=members, removed=[broker_id])

    # The partition

    def is_alive(self, broker_id):
        standing = self.brokers.get(broker_id)
        return standing is not None and standing.is_alive

    def _change(self, *, isr, removed, leader_id=None):
        """Other members, and another leader if the present one cannot lead."""
        before = self.assignment
        gone = (set(before.isr) - set(isr)) & set(removed)
        self.elr = frozenset() if len(isr) >= self.min_count else (self.elr | gone) - set(isr)
        if leader_id is None:
            leader_id = before.leader_id
            if not (self.is_alive(leader_id) and leader_id in isr):
                leader_id, isr = self._elected(isr)
        is_other = leader_id != before.leader_id
        self.assignment = replace(
            before,
            leader_id=leader_id,
            isr=tuple(isr),
            leader_epoch=before.leader_epoch + is_other,
            partition_epoch=before.partition_epoch + 1,
        )

    def _elected(self, isr):
        in_sync = [one for one in self.assignment.replicas if one in isr and self.is_alive(one)]
        if in_sync:
            return in_sync[0], isr
        eligible = [one for one in self.assignment.replicas if one in self.elr and self.is_alive(one)]
        if eligible:
            self.elr -= {eligible[0]}
            return eligible[0], [eligible[0]]
        return -1, isr

    def elect_if_needed(self):
        if self.assignment.leader_id >= 0:
            return
        leader_id, isr = self._elected(list(self.assignment.isr))
        if leader_id >= 0:
            self._change(isr=isr, removed=(), leader_id=leader_id)
            self._publish()

    def elect(self, leader_id):
        """Another living member, as a preferred election does."""
        if leader_id in self.assignment.isr and self.is_alive(leader_id) and leader_id != self.assignment.leader_id:
            self._change(isr=list(self.assignment.isr), removed=(), leader_id=leader_id)
            self._publish()

    def elect_uncleanly(self):
        alive = [one for one in self.assignment.replicas if self.is_alive(one)]
        if self.may_elect_uncleanly and self.assignment.leader_id < 0 and alive:
            self.unclean_count += 1
            self.elr = frozenset()
            self._change(isr=[alive[0]], removed=(), leader_id=alive[0])
            self._publish()

    def alter(self, sender, broker_epoch, proposal):
        """Kafka's checks in Kafka's order; None: the request as a whole is refused."""
        if not self.is_current(sender, broker_epoch):
            return None
        now, isr = self.assignment, [broker_id for broker_id, _ in proposal.members]
        if proposal.leader_epoch > now.leader_epoch or proposal.partition_epoch > now.partition_epoch:
            return IsrAnswer(error=ErrorCode.not_controller)
        if proposal.leader_epoch < now.leader_epoch:
            return IsrAnswer(error=ErrorCode.fenced_leader_epoch)
        if sender != now.leader_id or sender not in isr or not set(isr) <= set(now.replicas):
            return IsrAnswer(error=ErrorCode.invalid_request)
        if proposal.partition_epoch < now.partition_epoch:
            return IsrAnswer(error=ErrorCode.invalid_update_version)
        for broker_id, epoch in proposal.members:
            is_known = epoch == -1 or self.is_current(broker_id, epoch)
            if not self.is_alive(broker_id) or not is_known:
                return IsrAnswer(error=ErrorCode.ineligible_replica)
        self._change(isr=isr, removed=now.isr)
        self._publish()
        now = self.assignment
        return IsrAnswer(leader_epoch=now.leader_epoch, partition_epoch=now.partition_epoch, isr=now.isr)
