"""What a voter sends and hears, as Kafka's messages: requests and answers, in both directions.

    Vote 0-2 (pre-votes from 2) · BeginQuorumEpoch 0-1 · EndQuorumEpoch 0-1 · Fetch 17-18 · FetchSnapshot 0-1
    and those of `change_messages`

Fields that a version lacks are left out when it is written, and have their defaults when it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker_core.model.client_settings import BrokerAddress
from broker_core.model.exceptions import MalformedMessageError
from broker_core.model.topic_name import CLUSTER_METADATA_TOPIC
from broker_core.protocol.api_table import message_types
from broker_core.protocol.message_builder import build
from broker_core.raft.change_messages import (
    CHANGE_VERSIONS,
    VERSIONS_ASKED,
    change_answer_values,
    change_values,
    listener_values,
    listeners_of,
    place_values,
    read_change,
    read_change_answer,
)
from broker_core.raft.observer_events import FetchAnswer, QuorumAnswer, SnapshotAnswer
from broker_core.raft.quorum_api import QuorumApi
from broker_core.raft.quorum_messages import METADATA_TOPIC_ID, fetch_answer, snapshot_answer
from broker_core.raft.quorum_values import NO_NODE, SnapshotId
from broker_core.raft.voter_events import (
    AddVoterRequest,
    BeginEpochRequest,
    EndEpochRequest,
    PeerRequest,
    RemoveVoterRequest,
    ReplicaFetchRequest,
    SnapshotFetchRequest,
    UpdateVoterRequest,
    VersionsRequest,
    VoteAnswer,
    VoteRequest,
    VoterRequest,
)
from broker_core.raft.voter_set import ReplicaKey

VOTER_VERSIONS: Final[Mapping[QuorumApi, range]] = {
    QuorumApi.FETCH: range(17, 19),
    QuorumApi.VOTE: range(3),
    QuorumApi.BEGIN_QUORUM_EPOCH: range(2),
    QuorumApi.END_QUORUM_EPOCH: range(2),
    QuorumApi.FETCH_SNAPSHOT: range(2),
    **CHANGE_VERSIONS,
}
"""Of the requests that a voter answers."""

ASKED_VERSIONS: Final = {**VOTER_VERSIONS, QuorumApi.API_VERSIONS: VERSIONS_ASKED}
"""Of the requests that a voter sends."""

PRE_VOTE_VERSION: Final = 2


def api_key_of(request: PeerRequest) -> QuorumApi:
    match request:
        case VoteRequest():
            return QuorumApi.VOTE
        case BeginEpochRequest():
            return QuorumApi.BEGIN_QUORUM_EPOCH
        case EndEpochRequest():
            return QuorumApi.END_QUORUM_EPOCH
        case ReplicaFetchRequest():
            return QuorumApi.FETCH
        case SnapshotFetchRequest():
            return QuorumApi.FETCH_SNAPSHOT
        case AddVoterRequest():
            return QuorumApi.ADD_RAFT_VOTER
        case RemoveVoterRequest():
            return QuorumApi.REMOVE_RAFT_VOTER
        case UpdateVoterRequest():
            return QuorumApi.UPDATE_RAFT_VOTER
        case VersionsRequest():
            return QuorumApi.API_VERSIONS


def request_message(request: PeerRequest, cluster_id: str | None, *, version: int) -> Any:
    """From a node of that cluster."""
    types = message_types(api_key_of(request), version)
    if isinstance(request, VersionsRequest):
        return build(types.request, change_values(request))
    return build(types.request, {"cluster_id": cluster_id, **_values_of(request)})


def _values_of(request: VoterRequest) -> dict[str, Any]:
    partition: dict[str, Any]
    match request:
        case VoteRequest():
            partition = {
                "replica_epoch": request.epoch,
                "replica_id": request.candidate_id,
                "replica_directory_id": request.candidate_directory_id,
                "voter_directory_id": request.voter_directory_id,
                "last_offset_epoch": request.last_epoch,
                "last_offset": request.last_offset,
                "pre_vote": request.is_pre_vote,
            }
            return {"voter_id": request.voter_id, **_one_topic(partition)}
        case BeginEpochRequest():
            partition = {"leader_id": request.leader_id, "leader_epoch": request.epoch}
            partition["voter_directory_id"] = request.voter_directory_id
            leader = {"leader_endpoints": listener_values(request.endpoints)}
            return {"voter_id": request.voter_id, **_one_topic(partition), **leader}
        case EndEpochRequest():
            partition = {
                "leader_id": request.leader_id,
                "leader_epoch": request.epoch,
                "preferred_successors": [key.node_id for key in request.preferred],
                "preferred_candidates": [
                    {"candidate_id": key.node_id, "candidate_directory_id": key.directory_id}
                    for key in request.preferred
                ],
            }
            return {**_one_topic(partition), "leader_endpoints": listener_values(request.endpoints)}
        case ReplicaFetchRequest():
            return _fetch_values(request)
        case SnapshotFetchRequest():
            return _snapshot_values(request)
        case _:
            return change_values(request)


def _fetch_values(request: ReplicaFetchRequest) -> dict[str, Any]:
    partition = {
        "partition": 0,
        "current_leader_epoch": request.epoch,
        "fetch_offset": request.fetch_offset,
        "last_fetched_epoch": request.last_fetched_epoch,
        "replica_directory_id": request.directory_id,
        "high_watermark": request.high_watermark,
    }
    return {
        "replica_state": {"replica_id": request.replica_id, "replica_epoch": -1},
        "max_wait": timedelta(milliseconds=request.max_wait_ms),
        "max_bytes": request.max_bytes,
        "topics": [{"topic_id": METADATA_TOPIC_ID, "partitions": [partition]}],
        "forgotten_topics_data": [],
    }


def _snapshot_values(request: SnapshotFetchRequest) -> dict[str, Any]:
    snapshot_id = {"end_offset": request.snapshot_id.end_offset, "epoch": request.snapshot_id.epoch}
    partition = {
        "partition": 0,
        "current_leader_epoch": request.epoch,
        "snapshot_id": snapshot_id,
        "position": request.position,
        "replica_directory_id": request.directory_id,
    }
    topics = [{"name": CLUSTER_METADATA_TOPIC, "partitions": [partition]}]
    return {"replica_id": request.replica_id, "max_bytes": request.max_bytes, "topics": topics}


def read_request(message: Any) -> tuple[VoterRequest, str | None]:
    """The request and its cluster id. Raises MalformedMessageError for one about another topic."""
    key = message.__api_key__
    if key in CHANGE_VERSIONS:
        return read_change(message), message.cluster_id
    topic = _only(message.topics)
    if key == QuorumApi.FETCH:
        is_metadata = topic.topic_id == METADATA_TOPIC_ID
    else:
        is_metadata = (topic.name if key == QuorumApi.FETCH_SNAPSHOT else topic.topic_name) == CLUSTER_METADATA_TOPIC
    partition = _only(topic.partitions)
    index = partition.partition if key in (QuorumApi.FETCH, QuorumApi.FETCH_SNAPSHOT) else partition.partition_index
    if not is_metadata or index != 0:
        raise MalformedMessageError("a quorum has the one partition of the metadata log")
    return _REQUEST_READERS[key](message, partition), message.cluster_id


def _read_vote(message: Any, partition: Any) -> VoteRequest:
    return VoteRequest(
        epoch=partition.replica_epoch,
        candidate_id=partition.replica_id,
        candidate_directory_id=getattr(partition, "replica_directory_id", None),
        voter_id=getattr(message, "voter_id", NO_NODE),
        voter_directory_id=getattr(partition, "voter_directory_id", None),
        last_epoch=partition.last_offset_epoch,
        last_offset=partition.last_offset,
        is_pre_vote=getattr(partition, "pre_vote", False),
    )


def _read_begin_epoch(message: Any, partition: Any) -> BeginEpochRequest:
    return BeginEpochRequest(
        epoch=partition.leader_epoch,
        leader_id=partition.leader_id,
        voter_id=getattr(message, "voter_id", NO_NODE),
        voter_directory_id=getattr(partition, "voter_directory_id", None),
        endpoints=listeners_of(getattr(message, "leader_endpoints", ())),
    )


def _read_end_epoch(message: Any, partition: Any) -> EndEpochRequest:
    candidates = getattr(partition, "preferred_candidates", None)
    if candidates is None:
        preferred = tuple(ReplicaKey(int(node_id)) for node_id in partition.preferred_successors)
    else:
        preferred = tuple(ReplicaKey(int(each.candidate_id), each.candidate_directory_id) for each in candidates)
    return EndEpochRequest(
        epoch=partition.leader_epoch,
        leader_id=partition.leader_id,
        preferred=preferred,
        endpoints=listeners_of(getattr(message, "leader_endpoints", ())),
    )


def _read_fetch(message: Any, partition: Any) -> ReplicaFetchRequest:
    return ReplicaFetchRequest(
        epoch=partition.current_leader_epoch,
        replica_id=message.replica_state.replica_id,
        directory_id=partition.replica_directory_id,
        fetch_offset=partition.fetch_offset,
        last_fetched_epoch=partition.last_fetched_epoch,
        high_watermark=getattr(partition, "high_watermark", _ANY_HIGH_WATERMARK),
        max_wait_ms=int(message.max_wait / timedelta(milliseconds=1)),
        max_bytes=message.max_bytes,
    )


def _read_snapshot_fetch(message: Any, partition: Any) -> SnapshotFetchRequest:
    return SnapshotFetchRequest(
        epoch=partition.current_leader_epoch,
        replica_id=message.replica_id,
        snapshot_id=SnapshotId(end_offset=partition.snapshot_id.end_offset, epoch=partition.snapshot_id.epoch),
        position=partition.position,
        max_bytes=message.max_bytes,
        directory_id=getattr(partition, "replica_directory_id", None),
    )


_ANY_HIGH_WATERMARK: Final = 2**63 - 1
"""What Fetch before version 18 means: a parked fetch does not wait for a higher one."""

_REQUEST_READERS: Final[Mapping[int, Callable[[Any, Any], VoterRequest]]] = {
    QuorumApi.VOTE: _read_vote,
    QuorumApi.BEGIN_QUORUM_EPOCH: _read_begin_epoch,
    QuorumApi.END_QUORUM_EPOCH: _read_end_epoch,
    QuorumApi.FETCH: _read_fetch,
    QuorumApi.FETCH_SNAPSHOT: _read_snapshot_fetch,
}


def answer_message(answer: QuorumAnswer, request: Any) -> Any:
    """The answer to that message, in its version."""
    types = message_types(request.__api_key__, request.__version__)
    if request.__api_key__ in CHANGE_VERSIONS:
        return build(types.response, change_answer_values(answer))
    if answer.error in (ErrorCode.inconsistent_cluster_id, ErrorCode.cluster_authorization_failed):
        return build(types.response, {"error_code": answer.error})
    endpoints = [{"node_id": node_id, **place_values(address)} for node_id, address in answer.endpoints.items()]
    leader = {"leader_id": answer.leader_id, "leader_epoch": answer.leader_epoch}
    partition: dict[str, Any] = {"error_code": answer.error}
    match answer:
        case FetchAnswer():
            partition |= {"high_watermark": answer.high_watermark, "log_start_offset": 0, "current_leader": leader}
            partition |= {"records": answer.records or None}
            if answer.diverging is not None:
                partition["diverging_epoch"] = dict(zip(("epoch", "end_offset"), answer.diverging, strict=True))
            if answer.snapshot_id is not None:
                partition["snapshot_id"] = _snapshot_values_of(answer.snapshot_id)
            body = {"responses": [{"topic_id": METADATA_TOPIC_ID, "partitions": [partition]}]}
        case SnapshotAnswer():
            asked = _only(_only(request.topics).partitions).snapshot_id
            partition |= {"snapshot_id": _snapshot_values_of(asked), "current_leader": leader}
            partition |= {"size": answer.size_bytes, "position": answer.position, "unaligned_records": answer.chunk}
            body = {"topics": [{"name": CLUSTER_METADATA_TOPIC, "partitions": [partition]}]}
        case _:
            partition |= leader
            if isinstance(answer, VoteAnswer):
                partition["vote_granted"] = answer.is_granted
            body = _one_topic(partition)
    return build(types.response, {**body, "node_endpoints": endpoints})


def read_answer(response: Any) -> QuorumAnswer:
    """Raises MalformedMessageError for an answer about something else."""
    if response.__api_key__ in (*CHANGE_VERSIONS, QuorumApi.API_VERSIONS):
        return read_change_answer(response)
    if response.__api_key__ == QuorumApi.FETCH:
        return fetch_answer(response)
    if response.__api_key__ == QuorumApi.FETCH_SNAPSHOT:
        return snapshot_answer(response)
    is_vote = response.__api_key__ == QuorumApi.VOTE
    kind = VoteAnswer if is_vote else QuorumAnswer
    if response.error_code:
        return kind(error=response.error_code)
    partition = _only(_only(response.topics).partitions)
    nodes = getattr(response, "node_endpoints", ())
    values: dict[str, Any] = {"is_granted": partition.vote_granted} if is_vote else {}
    return kind(
        error=partition.error_code,
        leader_id=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        endpoints={int(node.node_id): BrokerAddress(host=node.host, port=node.port) for node in nodes},
        **values,
    )


def _one_topic(partition: dict[str, Any]) -> dict[str, Any]:
    return {"topics": [{"topic_name": CLUSTER_METADATA_TOPIC, "partitions": [{"partition_index": 0, **partition}]}]}


def _snapshot_values_of(snapshot_id: Any) -> dict[str, int]:
    return {"end_offset": snapshot_id.end_offset, "epoch": snapshot_id.epoch}


def _only(values: Any) -> Any:
    if len(values) != 1:
        raise MalformedMessageError(f"a message of the quorum about {len(values)} things instead of one")
    return values[0]
