"""Messages that change the voters, and the question about versions that belongs to it (KIP-853).

    AddRaftVoter 0-1 (answered before it is committed: from 1) · RemoveRaftVoter 0 · UpdateRaftVoter 0
    ApiVersions, asked by the leader: which levels of kraft.version a new voter knows

Names of listeners are upper case, as Kafka compares them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, Final

from broker_core.model.client_settings import BrokerAddress
from broker_core.raft.observer_events import QuorumAnswer
from broker_core.raft.quorum_api import QuorumApi
from broker_core.raft.quorum_values import NO_NODE
from broker_core.raft.voter_events import (
    AddVoterRequest,
    ChangeAnswer,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VersionsAnswer,
    VersionsRequest,
)
from broker_core.raft.voter_set import KRAFT_VERSION_FEATURE, ReplicaKey, VoterNode

CHANGE_VERSIONS: Final[Mapping[QuorumApi, range]] = {
    QuorumApi.ADD_RAFT_VOTER: range(2),
    QuorumApi.REMOVE_RAFT_VOTER: range(1),
    QuorumApi.UPDATE_RAFT_VOTER: range(1),
}
VERSIONS_ASKED: Final = range(4, 5)
"""Of ApiVersions: the first that tells features whose lowest level is 0."""

_TIMEOUT: Final = timedelta(seconds=2)
"""In AddRaftVoter, of a node that joins by itself; the leader has a time of its own."""

Change = AddVoterRequest | RemoveVoterRequest | UpdateVoterRequest | VersionsRequest


def change_values(request: Change) -> dict[str, Any]:
    """The fields of the message, without the cluster."""
    match request:
        case AddVoterRequest(voter=voter):
            acknowledgement = {"ack_when_committed": request.is_answered_when_committed, "timeout": _TIMEOUT}
            return {**_key_values(voter.key), "listeners": listener_values(voter.endpoints), **acknowledgement}
        case RemoveVoterRequest(voter=key):
            return _key_values(key)
        case UpdateVoterRequest(voter=voter):
            lowest, highest = voter.kraft_versions
            return {
                **_key_values(voter.key),
                "current_leader_epoch": request.epoch,
                "listeners": listener_values(voter.endpoints),
                "k_raft_version_feature": {"min_supported_version": lowest, "max_supported_version": highest},
            }
        case VersionsRequest():
            return {"client_software_name": "spark-streamlog", "client_software_version": "1"}


def read_change(message: Any) -> AddVoterRequest | RemoveVoterRequest | UpdateVoterRequest:
    """Any of `CHANGE_VERSIONS`."""
    key = ReplicaKey(int(message.voter_id), message.voter_directory_id)
    if message.__api_key__ == QuorumApi.REMOVE_RAFT_VOTER:
        return RemoveVoterRequest(voter=key)
    endpoints = listeners_of(message.listeners)
    if message.__api_key__ == QuorumApi.ADD_RAFT_VOTER:
        return AddVoterRequest(
            voter=VoterNode(node_id=key.node_id, directory_id=key.directory_id, endpoints=endpoints),
            is_answered_when_committed=getattr(message, "ack_when_committed", True),
        )
    versions = message.k_raft_version_feature
    return UpdateVoterRequest(
        epoch=int(message.current_leader_epoch),
        voter=VoterNode(
            node_id=key.node_id,
            directory_id=key.directory_id,
            endpoints=endpoints,
            kraft_versions=(int(versions.min_supported_version), int(versions.max_supported_version)),
        ),
    )


def change_answer_values(answer: QuorumAnswer) -> dict[str, Any]:
    if isinstance(answer, ChangeAnswer):
        return {"error_code": answer.error, "error_message": answer.message}
    address = answer.endpoints.get(answer.leader_id)
    leader = {"leader_id": answer.leader_id, "leader_epoch": answer.leader_epoch}
    if address is not None:
        leader |= place_values(address)
    return {"error_code": answer.error, "current_leader": leader}


def read_change_answer(response: Any) -> QuorumAnswer:
    """The answer to any `Change`."""
    match response.__api_key__:
        case QuorumApi.API_VERSIONS:
            found = [each for each in response.supported_features if each.name == KRAFT_VERSION_FEATURE]
            versions = [(int(each.min_version), int(each.max_version)) for each in found]
            return VersionsAnswer(error=response.error_code, kraft_versions=versions[0] if versions else None)
        case QuorumApi.UPDATE_RAFT_VOTER:
            leader = response.current_leader
            is_known = leader is not None and leader.leader_id != NO_NODE and leader.host
            return QuorumAnswer(
                error=response.error_code,
                leader_id=NO_NODE if leader is None else int(leader.leader_id),
                leader_epoch=-1 if leader is None else int(leader.leader_epoch),
                endpoints={int(leader.leader_id): _address(leader)} if is_known else {},
            )
        case _:
            return ChangeAnswer(error=response.error_code, message=response.error_message)


def listener_values(endpoints: Mapping[str, BrokerAddress]) -> list[dict[str, Any]]:
    return [{"name": name, **place_values(address)} for name, address in endpoints.items()]


def listeners_of(listeners: Iterable[Any]) -> dict[str, BrokerAddress]:
    return {str(each.name).upper(): _address(each) for each in listeners}


def place_values(address: BrokerAddress) -> dict[str, Any]:
    return {"host": address.host, "port": address.port}


def _address(place: Any) -> BrokerAddress:
    return BrokerAddress(host=str(place.host), port=int(place.port))


def _key_values(key: ReplicaKey) -> dict[str, Any]:
    return {"voter_id": key.node_id, "voter_directory_id": key.directory_id}
