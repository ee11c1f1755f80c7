"""What a node of the quorum answers by itself: ApiVersions, DescribeQuorum, DescribeCluster.

DescribeQuorum    the leader's view of voters and observers; other nodes answer NOT_LEADER_OR_FOLLOWER
DescribeCluster   the controllers and which of them leads, for clients that ask for controllers
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker_core.controller.cluster_bootstrap import CONTROLLER_FEATURES
from broker_core.controller.requests.envelope import ENVELOPE
from broker_core.controller.requests.registry import CONTROLLER_APIS
from broker_core.model.client_settings import BrokerAddress
from broker_core.model.topic_name import CLUSTER_METADATA_TOPIC
from broker_core.raft.change_messages import listener_values
from broker_core.raft.leader_progress import ReplicaProgress
from broker_core.raft.leader_role import LeaderRole
from broker_core.raft.voter_messages import VOTER_VERSIONS
from broker_core.raft.voter_set import KRAFT_VERSION_FEATURE
from broker_core.server.quorum.quorum_node import QuorumNode

API_VERSIONS, DESCRIBE_QUORUM, DESCRIBE_CLUSTER = 18, 55, 60
_SASL_HANDSHAKE, _SASL_AUTHENTICATE = 17, 36
LOGIN_APIS: Final = {_SASL_HANDSHAKE: range(2), _SASL_AUTHENTICATE: range(3)}
"""A listener with logins answers them before they get here."""
SERVED_BY_CONTROLLERS: Final[Mapping[int, range]] = {
    **{int(key): versions for key, versions in VOTER_VERSIONS.items()},
    **{key: api.versions for key, api in CONTROLLER_APIS.items()},
    ENVELOPE: range(1),
    **LOGIN_APIS,
    API_VERSIONS: range(5),
    DESCRIBE_QUORUM: range(3),
    DESCRIBE_CLUSTER: range(3),
}
_BROKERS, _CONTROLLERS = 1, 2
_FIRST_VERSION_WITH_LEVEL_0: Final = 4


def api_versions(node: QuorumNode, version: int) -> dict[str, Any]:
    """Clients of old versions take a lowest level of 0 for an error."""
    keys = [
        {"api_key": int(key), "min_version": versions[0], "max_version": versions[-1]}
        for key, versions in sorted(SERVED_BY_CONTROLLERS.items())
    ]
    lowest = 0 if version >= _FIRST_VERSION_WITH_LEVEL_0 else 1
    supported = [
        {
            "name": each.name,
            "min_version": max(lowest, each.min_supported_version),
            "max_version": each.max_supported_version,
        }
        for each in CONTROLLER_FEATURES
    ]
    levels = dict(node.committed.image.features)
    if node.voter.history.is_dynamic:
        levels[KRAFT_VERSION_FEATURE] = node.voter.history.kraft_version
    finalized = [
        {"name": name, "max_version_level": level, "min_version_level": level} for name, level in sorted(levels.items())
    ]
    return {
        "api_keys": keys,
        "supported_features": supported,
        "finalized_features": finalized,
        "finalized_features_epoch": node.committed.offset - 1 if finalized else -1,
    }


def describe_cluster(node: QuorumNode, request: Any) -> dict[str, Any]:
    endpoint_type = getattr(request, "endpoint_type", _BROKERS)
    if endpoint_type != _CONTROLLERS:
        return {
            "error_code": ErrorCode.mismatched_endpoint_type,
            "error_message": f"this is a controller, and endpoint type {endpoint_type} was asked for",
            "endpoint_type": _CONTROLLERS,
        }
    return {
        "endpoint_type": _CONTROLLERS,
        "cluster_id": node.identity.cluster_id or "",
        "controller_id": node.voter.election.leader_id,
        "brokers": [{"broker_id": node_id, **_place(each)} for node_id, each in sorted(_controllers(node).items())],
        "cluster_authorized_operations": -(2**31),
    }


def _controllers(node: QuorumNode) -> dict[int, BrokerAddress]:
    """Those that are registered, which may be observers, and the voters."""
    name = node.settings.listener.name
    found = {
        controller_id: BrokerAddress(host=each.host, port=each.port)
        for controller_id, controller in node.committed.image.registrations.controllers.items()
        for each in controller.end_points
        if each.name.upper() == name
    }
    voters = node.voter.voters.nodes.values()
    return found | {each.node_id: each.endpoints[name] for each in voters if name in each.endpoints}


def describe_quorum(node: QuorumNode, request: Any, now_ms: int) -> dict[str, Any]:
    topics = [
        {
            "topic_name": topic.topic_name,
            "partitions": [
                {"partition_index": each.partition_index}
                | _partition(node, str(topic.topic_name), each.partition_index, now_ms)
                for each in topic.partitions
            ],
        }
        for topic in request.topics
    ]
    nodes = [
        {"node_id": voter.node_id, "listeners": listener_values(voter.endpoints)}
        for voter in node.voter.voters.nodes.values()
    ]
    return {"topics": topics, "nodes": nodes}


def _partition(node: QuorumNode, topic: str, index: int, now_ms: int) -> dict[str, Any]:
    if (topic, index) != (CLUSTER_METADATA_TOPIC, 0):
        return {"error_code": ErrorCode.unknown_topic_or_partition}
    leading = node.voter.leading
    if leading is None:
        leader_id = node.voter.election.leader_id
        who = f"node {leader_id} does" if leader_id >= 0 else "no leader is known"
        return {
            "error_code": ErrorCode.not_leader_or_follower,
            "error_message": f"node {node.settings.node_id} does not lead the quorum; {who}",
        }
    return _as_the_leader(node, leading, now_ms)


def _as_the_leader(node: QuorumNode, leading: LeaderRole, now_ms: int) -> dict[str, Any]:
    progress, own_id = leading.progress, node.settings.node_id
    own = {
        "replica_id": own_id,
        "replica_directory_id": progress.voter_set.directory_of(own_id),
        "log_end_offset": node.voter.log.end,
        "last_fetch_timestamp": -1,
        "last_caught_up_timestamp": now_ms,
    }
    directory_of = progress.voter_set.directory_of
    others = [(node_id, directory_of(node_id), each) for node_id, each in progress.voters.items() if node_id != own_id]
    observers = [(node_id, directory, each) for (node_id, directory), each in progress.observers.items()]
    return {
        "leader_id": own_id,
        "leader_epoch": leading.epoch,
        "high_watermark": -1 if progress.high_watermark is None else progress.high_watermark,
        "current_voters": [*([own] if progress.is_own_voter else []), *_replicas(others)],
        "observers": _replicas(observers),
    }


def _replicas(replicas: Iterable[tuple[int, UUID | None, ReplicaProgress]]) -> list[dict[str, Any]]:
    return [
        {
            "replica_id": node_id,
            "replica_directory_id": directory,
            "log_end_offset": each.log_end_offset,
            "last_fetch_timestamp": each.last_fetch_ms,
            "last_caught_up_timestamp": each.last_caught_up_ms,
        }
        for node_id, directory, each in replicas
    ]


def _place(address: BrokerAddress) -> dict[str, Any]:
    return {"host": address.host, "port": address.port}
