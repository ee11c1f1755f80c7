"""What must hold in every history of a quorum, looked at after each event."""

from __future__ import annotations

from uuid import UUID

from simulation.seed_runs import Violation


class QuorumHistory:
    """Knows everything that happened anywhere. Voters are static here: the nodes with these ids."""

    def __init__(self, voter_ids):
        self.voter_ids = voter_ids
        self.leaders = {}
        self.votes = {}
        self.written = {}
        self.committed = []
        """Every batch that was committed, in order."""
        self.committing_epochs = []
        """In which epoch each of them was: that of its leader, which may be a later one than that of the batch."""
        self.positions = {}

    def voters_of(self, node):
        """The replicas whose majority counts for that node now, by key."""
        return [(node_id, UUID(int=node_id)) for node_id in self.voter_ids]

    @property
    def committed_end(self):
        return self.committed[-1].next_offset if self.committed else 0

    def on_leader(self, node):
        """One leader in an epoch, and it has everything that was committed in earlier ones."""
        epoch = node.voter.election.leader_epoch
        if epoch not in self.leaders:
            voters = self.voters_of(node)
            voted = [key for key in voters if self.votes.get((key, epoch)) == node.key]
            if len(voted) < len(voters) // 2 + 1:
                raise Violation(f"{node.node_id} leads epoch {epoch} by the votes of {voted} alone")
            count = sum(committing < epoch for committing in self.committing_epochs)
            before = self.committed[count - 1] if count else None
            is_there = before is None or node.disk.start >= before.next_offset
            if not is_there and node.disk.epoch_at(before.base_offset) != before.epoch:
                raise Violation(f"{node.node_id} leads epoch {epoch} without the committed {before}")
        if self.leaders.setdefault(epoch, node.node_id) != node.node_id:
            raise Violation(f"epoch {epoch} has two leaders, {self.leaders[epoch]} and {node.node_id}")

    def on_vote(self, node, epoch, candidate):
        """A vote is given once in an epoch, and is on the device when others learn of it."""
        if self.votes.setdefault((node.key, epoch), candidate) != candidate:
            first = self.votes[node.key, epoch]
            raise Violation(f"{node.key} voted for {first} and {candidate} in epoch {epoch}")
        saved = node.disk.election
        if (saved.leader_epoch, saved.voted_id) != (epoch, candidate[0]):
            raise Violation(f"{node.key} voted for {candidate} in epoch {epoch}, and its file says {saved}")

    def on_candidacy(self, node, request):
        """What a candidate says to have cannot be lost by a crash."""
        if request.last_offset > node.disk.synced_end:
            end = node.disk.synced_end
            raise Violation(f"{node.node_id} asks for votes with {request.last_offset}, of which {end} is synced")

    def on_saved(self, node, old, new):
        """The file never goes back, and a vote in it stays."""
        if new.leader_epoch < old.leader_epoch:
            raise Violation(f"{node.node_id} saved epoch {new.leader_epoch} over {old.leader_epoch}")
        if new.leader_epoch > old.leader_epoch:
            return
        if old.voted_id >= 0 and new.voted_id != old.voted_id and new.leader_id != node.node_id:
            raise Violation(f"{node.node_id} saved {new} over {old}")
        if old.leader_id >= 0 and new.leader_id != old.leader_id:
            raise Violation(f"{node.node_id} saved {new} over {old}")

    def on_append(self, node, added):
        """Batches of one epoch at one offset are the same everywhere, and so is what is before them."""
        disk = node.disk
        count = len(disk.batches) - len(added)
        previous = disk.batches[count - 1].epoch if count else disk.start_epoch
        for batch in added:
            key = (batch.epoch, batch.base_offset)
            if self.written.setdefault(key, (batch.content, previous)) != (batch.content, previous):
                raise Violation(f"{node.node_id} has another batch at {key}, or behind another one")
            previous = batch.epoch

    def on_truncate(self, node, end_offset):
        """A leader has everything that was committed up to its epoch, so nothing of that is truncated for it. A node
        that still follows an older leader may lose what was committed without it."""
        epoch = node.voter.election.leader_epoch
        for batch in node.disk.batches:
            if batch.next_offset <= end_offset or not self._is_committed(batch):
                continue
            if self.committing_epochs[self.positions[batch.base_offset]] <= epoch:
                raise Violation(f"{node.node_id} truncates to {end_offset}, below the committed {batch}")

    def on_high_watermark(self, node, nodes, high_watermark):
        if high_watermark <= node.high_watermark:
            raise Violation(f"{node.node_id}: high watermark {high_watermark} after {node.high_watermark}")
        if high_watermark > node.disk.end:
            raise Violation(f"{node.node_id}: high watermark {high_watermark}, log end {node.disk.end}")
        for batch in node.disk.batches:
            if not node.high_watermark < batch.next_offset <= high_watermark:
                continue
            if batch.base_offset >= self.committed_end:
                self._commit(batch, nodes, node)
            elif not self._is_committed(batch):
                raise Violation(f"{node.node_id}: another batch than the committed one, {batch}")
        node.high_watermark = high_watermark
        if high_watermark > self.committed_end:
            raise Violation(f"{node.node_id}: high watermark {high_watermark} is inside a batch")

    def _commit(self, batch, nodes, node):
        epoch, voters = node.voter.election.leader_epoch, self.voters_of(node)
        holders = [key for key in voters if _has_synced(self.disk_of(key, nodes), batch)]
        if len(holders) < len(voters) // 2 + 1:
            raise Violation(f"{batch} is committed, and on the devices of {holders} alone")
        if batch.base_offset != self.committed_end:
            raise Violation(f"{batch} is committed at {self.committed_end}")
        self.positions[batch.base_offset] = len(self.committed)
        self.committed.append(batch)
        self.committing_epochs.append(epoch)

    def disk_of(self, key, nodes):
        return nodes[key[0]].disk

    def _is_committed(self, batch):
        place = self.positions.get(batch.base_offset)
        return place is not None and self.committed[place] == batch

    def snapshot_at(self, end_offset):
        """What a snapshot of everything below holds, and the epoch of its last batch."""
        included = [batch for batch in self.committed if batch.next_offset <= end_offset]
        if not included or included[-1].next_offset != end_offset:
            raise Violation(f"a snapshot at {end_offset}, which is inside a batch or not committed")
        return b"".join(batch.content for batch in included), included[-1].epoch


def _has_synced(disk, batch):
    return disk.start >= batch.next_offset or batch in reversed(disk.synced)
