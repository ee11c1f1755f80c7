"""A dynamic quorum (KIP-853): the simulation of voters, with voters that are added, removed, wiped and moved.

One, three or four nodes are formatted as the first voters, some more join as observers, of which some ask for a vote by
themselves. An administrator asks nodes to add and remove voters, often the wrong ones; a node loses its disk and comes
back as another replica of the same id; a node comes back at another address. Besides everything that holds of static
voters:

    a set of voters differs from the one before it in one voter at most, and is written only when that one is committed
    a leader was elected by a majority of its own latest set, and resigns once that is committed without it
    what is committed was on the devices of a majority of the leader's latest set
    whoever is told that a change is done sees it among the committed ones
"""

from __future__ import annotations

import itertools
from uuid import UUID

from simulation.quorum.voter_disk import VoterDisk
from simulation.quorum.voter_history import QuorumHistory
from simulation.quorum.voter_simulation import LISTENER, VoterSimulation
from simulation.seed_runs import Violation

from broker_core.model.client_settings import BrokerAddress
from broker_core.raft.quorum_values import SnapshotId
from broker_core.raft.quorum_voter import QuorumVoter
from broker_core.raft.voter_events import (
    AddVoterRequest,
    RemoveVoterRequest,
    RequestReceived,
    VersionsAnswer,
    VersionsRequest,
)
from broker_core.raft.voter_set import ReplicaKey, VoterNode, VoterSet
from broker_core.raft.voter_set_history import QuorumControls, VoterSetHistory
from broker_core.raft.voter_table import Role
from broker_core.record.batch_reader import iter_headers

FIRST_SNAPSHOT = SnapshotId(end_offset=0, epoch=0)
HOME_PORT = 9093
MOST_VOTERS = 5


class ChangingHistory(QuorumHistory):
    """`first` are the voters that the first nodes were formatted with."""

    def __init__(self, first):
        super().__init__(())
        self.first = first
        self.wiped = {}
        """By key: the disks that are lost, as they were. What they had counts for what was acknowledged before."""
        self._parsed = {}

    def disk_of(self, key, nodes):
        return self.wiped.get(key) or super().disk_of(key, nodes)

    def voters_of(self, node):
        return [tuple(voter.key) for voter in node.voter.voters.nodes.values()]

    def sets_in(self, batches):
        """The first voters, and those of every record in these batches, with its offset."""
        found = [(-1, self.first)]
        for batch in batches:
            if batch.content not in self._parsed:
                self._parsed[batch.content] = parsed = VoterSetHistory()
                parsed.on_batches(batch.content, [header for _, header in iter_headers(batch.content)])
            history = self._parsed[batch.content]
            if history.latest_offset is not None:
                found.append((history.latest_offset, history.latest))
        return found

    def on_leader(self, node):
        voters, high_watermark = node.voter.voters, node.voter.leading.progress.high_watermark
        is_committed = high_watermark is not None and node.voter.history.latest_offset < high_watermark
        if is_committed and not voters.is_voter(ReplicaKey(*node.key)):
            raise Violation(f"{node.key} leads on, and is none of the committed {voters}")
        if self.voters_of(node) == [node.key]:
            self.on_vote_of_one(node)
        super().on_leader(node)

    def on_vote_of_one(self, node):
        """Who is alone elects itself without a message."""
        self.votes.setdefault((node.key, node.voter.election.leader_epoch), node.key)

    def on_append(self, node, added):
        super().on_append(node, added)
        if node.voter.role is Role.LEADER and len(self.sets_in(added)) > 1:
            self._check_sets(node)

    def _check_sets(self, node):
        """The newest set of a leader, and the one before."""
        appended = [entry for entry in node.voter.history._voters.entries if entry[0] >= -1]
        if len(appended) < 2:
            return
        (earlier_at, earlier), (_, latest) = appended[-2:]
        old, new = ({node.key for node in one.nodes.values()} for one in (earlier, latest))
        if len(old - new) > 1 or len(new - old) > 1 or len(old ^ new) > 1:
            raise Violation(f"{node.node_id} replaces {old} by {new}: more than one voter")
        if old != new and earlier_at >= node.high_watermark:
            raise Violation(f"{node.node_id} replaces {old} by {new}, and {old} are not committed")

    def on_promise(self, is_added, key):
        """A change was confirmed, so it is committed; later changes may be, too."""
        sets = [voters for _, voters in self.sets_in(self.committed)]
        steps = [(before.is_voter(key), after.is_voter(key)) for before, after in itertools.pairwise(sets)]
        if (not is_added, is_added) not in steps:
            raise Violation(f"{'added' if is_added else 'removed'} {key} is confirmed, and not committed: {sets}")


class ChangingVoterSimulation(VoterSimulation):
    """`machine` is QuorumVoter, or one with a planted bug."""

    fault_ms = 900

    def __init__(self, seed, machine=QuorumVoter):
        super().__init__(seed, machine)
        first_ids = list(range(1, self.dice.choice((1, 3, 3, 4)) + 1))
        self.addresses = {}
        self.nodes = {
            node_id: self.new_node(node_id) for node_id in (*first_ids, *range(11, 11 + self.dice.randint(1, 3)))
        }
        self.bootstrap = tuple(self.home(node_id) for node_id in self.nodes)
        self.mover_id = self.dice.choice([node_id for node_id in self.nodes if node_id > 1])
        """The only node that changes its address. A voter whose address in the log is old cannot be asked for a vote:
        so the others have to be enough for a majority, and are always found at home."""
        self.ports = dict.fromkeys(self.nodes, HOME_PORT)
        self.joins_by_itself = {n for n in self.nodes if n != self.mover_id and self.dice.random() < 0.2}
        first = VoterSet.of([self.as_voter(self.nodes[node_id]) for node_id in first_ids])
        self.history = ChangingHistory(first)
        self.history.voter_ids = tuple(self.nodes)
        for node_id in first_ids:
            self.nodes[node_id].disk.format()
        self.directory_count = 1000
        self.asked = {}
        """By request id: the administrator's request."""
        self.counts |= dict.fromkeys(("added", "removed", "refused", "changes", "wiped", "moved"), 0)

    def totals(self):
        self.counts["changes"] = len(self.history.sets_in(self.history.committed)) - 1
        return super().totals()

    def home(self, node_id):
        return BrokerAddress(host=f"node-{node_id}", port=HOME_PORT)

    def place(self, node_id):
        return BrokerAddress(host=f"node-{node_id}", port=self.ports[node_id])

    def as_voter(self, node):
        return VoterNode(
            node_id=node.node_id, directory_id=node.directory_id, endpoints={LISTENER: self.place(node.node_id)}
        )

    def new_node(self, node_id):
        node = super().new_node(node_id)
        node.disk = ChangingDisk(self.controls_at)
        return node

    def voter_arguments(self, node):
        return {
            "voters": node.disk.load_voters(),
            "endpoints": {LISTENER: self.place(node.node_id)},
            "bootstrap": self.bootstrap,
            "joins_by_itself": node.node_id in self.joins_by_itself,
        }

    def controls_at(self, end_offset):
        included = [batch for batch in self.history.committed if batch.next_offset <= end_offset]
        return QuorumControls(voters=self.history.sets_in(included)[-1][1], kraft_version=1)

    # Messages

    def send_request(self, node, effect):
        if not isinstance(effect.request, VersionsRequest):
            super().send_request(node, effect)
            return
        call = (node.node_id, node.incarnation, effect.request_id, effect.request)
        self.transmit(
            node.node_id, self.node_at(effect.address), ("versions", self.node_at(effect.address), call), call
        )

    def receiver_of(self, effect):
        return self.node_at(effect.address)

    def node_at(self, address):
        """None: nobody listens there."""
        node_id = int(address.host.removeprefix("node-"))
        return node_id if address.port == self.ports[node_id] else None

    def on_versions(self, to, call):
        if to is None or self.nodes[to].voter is None:
            self.on_failure(call, is_gone=True)
        else:
            self.transmit(to, call[0], ("answer", call, VersionsAnswer()), call)

    def send_answer(self, node, request_id, answer):
        asked = self.asked.pop(request_id, None)
        if asked is None:
            super().send_answer(node, request_id, answer)
        elif answer.error:
            self.counts["refused"] += 1
        else:
            is_added = isinstance(asked, AddVoterRequest)
            self.counts["added" if is_added else "removed"] += 1
            key = asked.voter.key if is_added else asked.voter
            if not is_added or asked.is_answered_when_committed:
                self.history.on_promise(is_added, key)

    # What happens

    def faults(self):
        return {**super().faults(), self.fault_wipe: 7, self.fault_move: 4}

    def on_proposal(self, until_ms):
        """The administrator is as busy as the controller."""
        super().on_proposal(until_ms)
        if self.now_ms < until_ms and self.dice.random() < 0.5 and not self.is_calm:
            self.change()

    def change(self):
        """An administrator asks the leader, or whoever takes itself for it; a majority is left that can go on."""
        leaders = [n for n in self.nodes.values() if n.voter is not None and n.voter.role is Role.LEADER]
        if not leaders:
            return
        leader = self.dice.choice(leaders)
        voters = leader.voter.voters
        keys = [voter.key for voter in voters.nodes.values()]
        others = [n for n in self.nodes.values() if not voters.is_voter(ReplicaKey(*n.key))]
        dead = [key for key in keys if self.nodes[key.node_id].key != key]
        sure = [key for key in keys if key not in dead and key.node_id != self.mover_id]
        if dead and self.dice.random() < 0.5:
            request = RemoveVoterRequest(voter=self.dice.choice(dead))
        elif others and len(keys) < MOST_VOTERS and self.dice.random() < 0.6:
            node = self.dice.choice(others)
            if len(sure) + (node.node_id != self.mover_id) <= (len(keys) + 1) // 2:
                return
            request = AddVoterRequest(voter=self.as_voter(node), is_answered_when_committed=self.dice.random() < 0.7)
        elif len(sure) - 1 > (len(keys) - 1) // 2:
            request = RemoveVoterRequest(voter=self.dice.choice(keys))
        else:
            return
        for _ in range(self.dice.choice((1, 1, 1, 2))):
            self.ask(leader, request)

    def ask(self, node, request):
        request_id = next(self.numbers)
        self.asked[request_id] = request
        self.feed(node, node.incarnation, RequestReceived(request_id=request_id, request=request, cluster_id="sim"))

    def fault_snapshot(self, until_ms):
        super().fault_snapshot(until_ms)
        for node in self.nodes.values():
            snapshot_id = node.disk.snapshot_id
            if node.voter is not None and node.voter.log.snapshot_id == snapshot_id and snapshot_id is not None:
                wanted, found = self.controls_at(snapshot_id.end_offset), node.voter.history
                if found.controls_before(snapshot_id.end_offset) != (1, wanted.voters):
                    raise Violation(f"{node.node_id} has other voters at {snapshot_id}: {found.latest}, not {wanted}")

    def fault_wipe(self, until_ms):
        """A new disk, if everything committed is on others, whichever of the sets in any log counts in the end."""
        node = self.dice.choice(list(self.nodes.values()))
        if any(isinstance(asked, AddVoterRequest) and asked.voter.key == node.key for asked in self.asked.values()):
            return  # it may be a voter soon
        for other in self.nodes.values():
            sets = [voters for _, voters in other.disk.load_voters()._voters.entries]
            for voters in sets:
                keys = [tuple(voter.key) for voter in voters.nodes.values()]
                sure = [
                    key for key in keys if self.nodes[key[0]].key == key and key[0] not in (node.node_id, self.mover_id)
                ]
                if node.key in keys and len(sure) <= len(keys) // 2:
                    return
        if node.disk.synced or node.disk.start:
            self.counts["wiped"] += 1
            if node.voter is not None:
                self.crash(node)
            self.history.wiped[node.key] = node.disk
            self.directory_count += 1
            node.directory_id = UUID(int=self.directory_count)
            node.disk = ChangingDisk(self.controls_at)
            self.later(self.dice.choice((1, 400, 2500)), ("start", node))

    def fault_move(self, until_ms):
        node = self.nodes[self.mover_id]
        if node.voter is not None:
            self.counts["moved"] += 1
            self.crash(node)
            self.ports[node.node_id] = self.dice.choice((HOME_PORT, 9094, 9095))
            self.later(self.dice.choice((1, 400, 2500)), ("start", node))

    # The trial

    def try_leader(self):
        """With so many voters alive that one more or less does not matter."""
        leader = self.leader()
        voters = leader.voter.voters.nodes.values()
        alive = [voter for voter in voters if self.nodes[voter.node_id].key == tuple(voter.key)]
        self.history.voter_ids = tuple(voter.node_id for voter in alive)
        if leader.node_id in self.history.voter_ids and len(alive) - 1 > len(voters) // 2:
            super().try_leader()


class ChangingDisk(VoterDisk):
    """With the voters that its log and its snapshots tell; `controls_at` the end of a snapshot."""

    def __init__(self, controls_at):
        super().__init__()
        self.controls_at = controls_at

    def format(self):
        """What `storage format` writes for a first voter."""
        self.snapshot_id = FIRST_SNAPSHOT
        self.snapshots[FIRST_SNAPSHOT] = b""

    def load_voters(self):
        history = VoterSetHistory()
        if self.snapshot_id is not None:
            history.on_snapshot(self.snapshot_id, self.controls_at(self.snapshot_id.end_offset))
        for batch in self.batches:
            history.on_batches(batch.content, [header for _, header in iter_headers(batch.content)])
        return history
