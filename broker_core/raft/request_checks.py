"""What can be said of a request by itself."""

from __future__ import annotations

from broker_core.raft.voter_events import (
    AddVoterRequest,
    BeginEpochRequest,
    EndEpochRequest,
    RemoveVoterRequest,
    ReplicaFetchRequest,
    SnapshotFetchRequest,
    UpdateVoterRequest,
    VoteRequest,
    VoterRequest,
)
from broker_core.raft.voter_table import RequestKind


def kind_of(request: VoterRequest) -> RequestKind:
    """The column of the table."""
    match request:
        case VoteRequest(is_pre_vote=is_pre_vote):
            return RequestKind.PRE_VOTE if is_pre_vote else RequestKind.VOTE
        case BeginEpochRequest():
            return RequestKind.BEGIN_EPOCH
        case EndEpochRequest():
            return RequestKind.END_EPOCH
        case ReplicaFetchRequest():
            return RequestKind.FETCH
        case SnapshotFetchRequest():
            return RequestKind.FETCH_SNAPSHOT
        case UpdateVoterRequest():
            return RequestKind.UPDATE_VOTER
        case AddVoterRequest():
            return RequestKind.ADD_VOTER
        case RemoveVoterRequest():
            return RequestKind.REMOVE_VOTER


def epoch_of(request: VoterRequest, own_epoch: int) -> int:
    """Of a request that has none, the own one: it is for whoever leads."""
    return own_epoch if isinstance(request, AddVoterRequest | RemoveVoterRequest) else request.epoch


def is_valid(request: VoterRequest) -> bool:
    """Whether any node can have sent it: a candidate has no record of the epoch that it stands for."""
    if epoch_of(request, 0) < 0:
        return False
    if not isinstance(request, VoteRequest):
        return True
    highest = request.epoch if request.is_pre_vote else request.epoch - 1
    return min(request.candidate_id, request.last_offset) >= 0 and 0 <= request.last_epoch <= highest
