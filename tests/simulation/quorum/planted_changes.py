"""Voters of a dynamic quorum with one planted bug each: what the simulation must catch."""

from __future__ import annotations

from broker_core.raft.leader_progress import LeaderProgress
from broker_core.raft.leader_role import LeaderRole
from broker_core.raft.quorum_values import NO_NODE
from broker_core.raft.quorum_voter import QuorumVoter
from broker_core.raft.voter_changes import VoterChanges
from broker_core.raft.voter_core import VoterCore
from broker_core.raft.voter_set import ReplicaKey
from broker_core.raft.voter_set_history import VoterSetHistory


class ReplicasToldApartByIdAlone(QuorumVoter):
    """A node with a new disk answers for the one that it was, and is counted for it."""

    def _is_addressee(self, request):
        return request.voter_id in (NO_NODE, self._core.node_id)

    def _become(self, role, *, again=None):
        if isinstance(role, LeaderRole):
            role.progress.__class__ = _ProgressByIdAlone
        super()._become(role, again=again)


class _ProgressByIdAlone(LeaderProgress):
    def on_fetch(self, key, **others):
        directory_id = self.voter_set.directory_of(key.node_id) or key.directory_id
        super().on_fetch(ReplicaKey(key.node_id, directory_id), **others)


class _PlantedLeader(QuorumVoter):
    """With other changes of the voters, progress or role of a leader."""

    changes, progress, leader = VoterChanges, LeaderProgress, LeaderRole

    def _become(self, role, *, again=None):
        if isinstance(role, LeaderRole):
            role.__class__, role.progress.__class__, role.changes.__class__ = self.leader, self.progress, self.changes
        super()._become(role, again=again)


class _NotWaiting(VoterChanges):
    def _are_voters_committed(self):
        return True

    def _is_pending(self):
        self._pending = None
        return False


class ChangeBeforeTheLastIsCommitted(_PlantedLeader):
    changes = _NotWaiting


class _BeforeTheFirstCommit(VoterChanges):
    """As if all that this leader found were committed."""

    def _refusal_of_any(self):
        return None if self._core.history.is_dynamic and self._pending is None else super()._refusal_of_any()


class ChangeBeforeTheEpochsFirstCommit(_PlantedLeader):
    """The bug in the first description of single-server changes (raft-dev, 2015)."""

    changes = _BeforeTheFirstCommit


class _ConfirmingAtTheAppend(VoterChanges):
    def _write(self, voters):
        super()._write(voters)
        self._answer(0, None)


class ChangeConfirmedBeforeItIsCommitted(_PlantedLeader):
    changes = _ConfirmingAtTheAppend


class _CountingTheOldVoters(LeaderProgress):
    def set_voters(self, voters, now_ms):
        pass


class NewVotersCountNotYet(_PlantedLeader):
    """The leader goes on counting the voters of its epoch's start."""

    progress = _CountingTheOldVoters


class _LeadingOn(LeaderRole):
    @property
    def must_resign(self):
        return False

    @must_resign.setter
    def must_resign(self, value):
        pass


class RemovedLeaderLeadsOn(_PlantedLeader):
    leader = _LeadingOn


class _Untruncated(VoterSetHistory):
    def truncate(self, end_offset):
        pass


class VotersOfTruncatedRecordsKept(QuorumVoter):
    def __init__(self, *, voters, **others):
        voters.__class__ = _Untruncated
        super().__init__(voters=voters, **others)


class _WithoutSnapshots(VoterSetHistory):
    def on_snapshot(self, snapshot_id, controls):
        self._voters.truncate(-1)


class VotersOfSnapshotsIgnored(QuorumVoter):
    """Goes on with those that it knew, or with none."""

    def __init__(self, *, voters, **others):
        voters.__class__ = _WithoutSnapshots
        super().__init__(voters=voters, **others)


class _StandingAsAVoterAlone(VoterCore):
    @property
    def may_stand(self):
        return self.is_voter


class RemovedVoterNeverStands(QuorumVoter):
    """Kafka 4.3: a leader that crashes with the only copy of its own removal blocks the quorum."""

    def __init__(self, **arguments):
        super().__init__(**arguments)
        self._core.__class__ = _StandingAsAVoterAlone


PLANTED = {
    ReplicasToldApartByIdAlone: 6,
    ChangeBeforeTheLastIsCommitted: 0,
    ChangeBeforeTheEpochsFirstCommit: 2,
    ChangeConfirmedBeforeItIsCommitted: 0,
    NewVotersCountNotYet: 0,
    RemovedLeaderLeadsOn: 2,
    VotersOfTruncatedRecordsKept: 167,
    VotersOfSnapshotsIgnored: 21,
    RemovedVoterNeverStands: 1,
}
"""Each bug, and the first seed that shows it."""
