"""What must hold in every history of a partition, looked at after each event."""

from __future__ import annotations

from simulation.seed_runs import Violation

MOST_ATTEMPTS = 8


class ReplicationHistory:
    """Knows everything that happened anywhere. After an unclean election only what it does not break is held."""

    def __init__(self, nodes, controller):
        self.nodes = nodes
        self.controller = controller
        self.written = {}
        self.committed = []
        """Every batch that was committed, in order."""
        self.places = {}
        self.leaders = {}
        self.deleted_below = 0
        self.acknowledged_count = 0

    @property
    def is_clean(self):
        return self.controller.unclean_count == 0

    @property
    def committed_end(self):
        return self.committed[-1].next_offset if self.committed else 0

    def is_committed(self, batch):
        place = self.places.get(batch.base_offset)
        return place is not None and self.committed[place] == batch

    def on_controller(self):
        """One leader in an epoch; epochs only grow, and the leader's only with another leader; whoever may be elected
        has everything that is committed."""
        (before, _), (now, _) = self.controller.versions[-2:]
        if now.partition_epoch < before.partition_epoch or now.leader_epoch < before.leader_epoch:
            raise Violation(f"{now} after {before}")
        if (now.leader_epoch == before.leader_epoch) != (now.leader_id == before.leader_id):
            raise Violation(f"the leader epoch says nothing about the leader: {now} after {before}")
        if self.leaders.setdefault(now.leader_epoch, now.leader_id) != now.leader_id:
            raise Violation(f"epoch {now.leader_epoch} has two leaders")
        if self.is_clean:
            for broker_id in self.controller.holders:
                self._require_all_committed(broker_id)

    def _require_all_committed(self, broker_id):
        node = self.nodes[broker_id]
        if node.is_wiped:
            return  # the controller learns of it when it registers
        for batch in reversed(self.committed):
            if batch.next_offset <= node.disk.start:
                break
            if not node.disk.has_synced(batch):
                raise Violation(f"{broker_id} may be elected, and its device lacks the committed {batch}")

    def on_append(self, node, added, count_before):
        """Batches of one epoch at one offset are the same everywhere, and so is what is before them, unless a leader
        has deleted that: it does not know its epoch any more."""
        batches = node.disk.batches
        previous = batches[count_before - 1].epoch if count_before else None
        for batch in added:
            key = (batch.epoch, batch.base_offset)
            if batch.base_offset <= self.deleted_below:
                previous = None
            content, epoch = self.written.setdefault(key, (batch.content, previous))
            if content != batch.content or (None not in (epoch, previous) and epoch != previous):
                raise Violation(f"{node.broker_id} has another batch at {key}, or behind another one")
            previous = batch.epoch

    def on_truncate(self, node, end_offset):
        """Nothing that is committed, by a node that may be elected or has shown it. Any other one may follow the answer
        of a leader before the last one, and catches up before it may be elected."""
        if not self.is_clean:
            node.watermark = min(node.watermark, end_offset)
            return
        may_be_elected = node.broker_id in self.controller.holders
        for batch in node.disk.batches:
            is_held = may_be_elected or batch.next_offset <= node.watermark
            if batch.next_offset > end_offset and is_held and self.is_committed(batch):
                raise Violation(f"{node.broker_id} truncates to {end_offset}, below the committed {batch}")

    def on_attempt(self, node, what):
        """A follower that does the same again and again under one leader gets nowhere."""
        key = (node.replica.follower.leader_epoch, what)
        node.attempts[key] = node.attempts.get(key, 0) + 1
        if node.attempts[key] > MOST_ATTEMPTS:
            raise Violation(f"{node.broker_id} tries {what} in epoch {key[0]} again and again")

    def on_watermark(self, node, high_watermark):
        if high_watermark <= node.watermark:
            raise Violation(f"{node.broker_id}: high watermark {high_watermark} after {node.watermark}")
        if high_watermark > node.disk.end:
            raise Violation(f"{node.broker_id}: high watermark {high_watermark}, log end {node.disk.end}")
        for batch in node.disk.batches:
            if node.watermark < batch.next_offset <= high_watermark and self.is_clean:
                self._on_visible(node, batch)
        node.watermark = high_watermark

    def _on_visible(self, node, batch):
        """A reader may see it from now on: everybody sees the same there, for ever."""
        if self.is_committed(batch):
            return
        if batch.base_offset < self.committed_end:
            raise Violation(f"{node.broker_id} shows another batch than the committed one, {batch}")
        if batch.base_offset != self.committed_end:
            raise Violation(f"{batch} is committed at {self.committed_end}")
        if node.replica.leader is None:
            raise Violation(f"{node.broker_id}, a follower, commits {batch}")
        self.places[batch.base_offset] = len(self.committed)
        self.committed.append(batch)
        for broker_id in self.controller.holders:
            if not self.nodes[broker_id].is_wiped and not self.nodes[broker_id].disk.has_synced(batch):
                raise Violation(f"{batch} is committed, and {broker_id} may be elected without it")

    def on_acknowledged(self, node, batch):
        """An append with acks=all was answered without an error."""
        self.acknowledged_count += 1
        if self.is_clean and not self.is_committed(batch):
            raise Violation(f"{node.broker_id} acknowledged {batch}, which is not committed")
