"""Whether a live cluster can be moved to nodes of ours, and what the next step waits for.

    look_at(settings)        what the cluster says of itself: features, brokers, partitions, groups, its quorum
    judge(state, leaving)    findings: in order, not yet, or never like this, each with what to do

`leaving` are the nodes that are to go, as brokers and as voters. The way back is judged alike, with other ids.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker_core.client.broker_errors import broker_error
from broker_core.client.broker_router import BrokerRouter
from broker_core.client.cluster_admin import RegisteredBroker, open_admin
from broker_core.client.deadline import Deadline
from broker_core.client.partition_placements import PartitionPlacement
from broker_core.client.quorum_description import QuorumDescription, QuorumReplica, describe_quorum
from broker_core.controller.release_features import HIGHEST_LEVELS, LOWEST_METADATA_VERSION, RELEASE_OF_LEVEL
from broker_core.metadata.metadata_version import (
    KRAFT_VERSION_FEATURE,
    METADATA_VERSION_FEATURE,
    METADATA_VERSION_LEVEL,
)
from broker_core.model.client_settings import ClientSettings
from broker_core.model.exceptions import UnsupportedVersionError
from broker_core.protocol.message_builder import build

_LATE_MS: Final = 10_000
"""A voter that was not at the leader's end for so long is behind."""
_SERVED_GROUPS: Final = frozenset({"", "classic", "consumer"})
_NAMED_COUNT: Final = 5


class MoveVerdict(enum.Enum):
    OK = "ok"
    WAIT = "not yet"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveFinding:
    """`advice` is "" where all is well."""

    subject: str
    verdict: MoveVerdict
    found: str
    advice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """`features` with their finalized levels; `other_groups`: of a type that is not served here, with the type."""

    cluster_id: str
    features: Mapping[str, int]
    brokers: Sequence[RegisteredBroker]
    placements: Sequence[PartitionPlacement]
    reassignment_count: int
    other_groups: Mapping[str, str]
    quorum: QuorumDescription


def look_at(settings: ClientSettings) -> ClusterState:
    """`settings` name brokers. Raises as `ClusterAdmin` does."""
    with open_admin(settings) as admin:
        brokers, placements = admin.brokers(), admin.placements()
        reassignment_count = len(admin.reassignments())
    router = BrokerRouter(settings)
    try:
        cluster_id, features = router.run("ask for features", lambda deadline: _features(router, deadline))
        other_groups = router.run("list groups", lambda deadline: _other_groups(router, deadline))
    finally:
        router.close()
    return ClusterState(
        cluster_id=cluster_id,
        features=features,
        brokers=brokers,
        placements=placements,
        reassignment_count=reassignment_count,
        other_groups=other_groups,
        quorum=describe_quorum(settings),
    )


def _features(router: BrokerRouter, deadline: Deadline) -> tuple[str, dict[str, int]]:
    from kio.schema.api_versions.v3.request import ApiVersionsRequest
    from kio.schema.describe_cluster.v0.request import DescribeClusterRequest

    described, versions = (
        router.ask_any(request, deadline)
        for request in (
            build(DescribeClusterRequest, {}),
            ApiVersionsRequest(client_software_name="spark-streamlog", client_software_version="1"),
        )
    )
    for answer, what in ((described, "describe the cluster"), (versions, "ApiVersions")):
        if answer.error_code is not ErrorCode.none:
            raise broker_error(answer.error_code, what)
    levels = {str(each.name): int(each.max_version_level) for each in versions.finalized_features}
    return str(described.cluster_id), levels


def _other_groups(router: BrokerRouter, deadline: Deadline) -> dict[str, str]:
    from kio.schema.list_groups.v5.request import ListGroupsRequest

    found: dict[str, str] = {}
    for node_id in sorted(router.view(deadline).brokers):
        try:
            (answer,) = router.ask_node(node_id, [build(ListGroupsRequest, {})], deadline)
        except UnsupportedVersionError:
            continue  # before 3.8 there are no other types
        if answer.error_code is not ErrorCode.none:
            raise broker_error(answer.error_code, "list groups")
        kinds: list[tuple[Any, str]] = [(group, str(group.group_type).lower()) for group in answer.groups]
        found |= {str(group.group_id): kind for group, kind in kinds if kind not in _SERVED_GROUPS}
    return found


def judge(state: ClusterState, leaving: Collection[int] = ()) -> list[MoveFinding]:
    """In the order in which they matter."""
    return [
        *_judge_features(state.features),
        *_judge_groups(state.other_groups),
        _judge_brokers(state.brokers),
        *_judge_partitions(state),
        *_judge_quorum(state.quorum),
        *_judge_leaving(state, leaving),
    ]


def _judge_features(features: Mapping[str, int]) -> Iterator[MoveFinding]:
    for name, level in sorted(features.items()):
        is_release = name == METADATA_VERSION_FEATURE
        lowest = LOWEST_METADATA_VERSION if is_release else 0
        highest = METADATA_VERSION_LEVEL if is_release else HIGHEST_LEVELS.get(name, 0)
        shown = f"{level} ({RELEASE_OF_LEVEL[level]})" if is_release and level in RELEASE_OF_LEVEL else str(level)
        if lowest <= level <= highest:
            yield MoveFinding(subject=name, verdict=MoveVerdict.OK, found=shown)
        else:
            yield MoveFinding(
                subject=name,
                verdict=MoveVerdict.REFUSED,
                found=f"{shown}; nodes of ours know {lowest} to {highest}",
                advice=f"lower it: kafka-features.sh downgrade --feature {name}={highest}",
            )
    if features.get(KRAFT_VERSION_FEATURE, 0) == 0:
        yield MoveFinding(
            subject="voters",
            verdict=MoveVerdict.WAIT,
            found="the quorum is static: brokers can move, voters cannot",
            advice=f"kafka-features.sh upgrade --feature {KRAFT_VERSION_FEATURE}=1",
        )


def _judge_groups(other_groups: Mapping[str, str]) -> Iterator[MoveFinding]:
    if other_groups:
        named = sorted(f"{name} ({kind})" for name, kind in other_groups.items())
        yield MoveFinding(
            subject="groups",
            verdict=MoveVerdict.WAIT,
            found=f"share and streams groups are not served by nodes of ours: {_some(named)}",
            advice="stop and delete them, or leave their partitions of __consumer_offsets to real nodes; their records "
            "are kept",
        )
    else:
        yield MoveFinding(subject="groups", verdict=MoveVerdict.OK, found="no share and no streams group")


def _judge_brokers(brokers: Sequence[RegisteredBroker]) -> MoveFinding:
    fenced = [str(each.broker_id) for each in brokers if each.is_fenced]
    if fenced:
        return MoveFinding(
            subject="brokers",
            verdict=MoveVerdict.WAIT,
            found=f"fenced: {_some(fenced)}",
            advice="start them, or move their replicas away and unregister them (streamlog broker unregister)",
        )
    return MoveFinding(subject="brokers", verdict=MoveVerdict.OK, found=f"{len(brokers)} run")


def _judge_partitions(state: ClusterState) -> Iterator[MoveFinding]:
    leaderless = [str(each.partition) for each in state.placements if each.is_offline]
    lagging = [str(each.partition) for each in state.placements if each.is_under_replicated and not each.is_offline]
    for names, what in ((leaderless, "without a leader"), (lagging, "with replicas that are not in sync")):
        if names:
            yield MoveFinding(
                subject="partitions",
                verdict=MoveVerdict.WAIT,
                found=f"{len(names)} {what}: {_some(names)}",
                advice="wait; streamlog partitions list --under-replicated shows them",
            )
    if state.reassignment_count:
        yield MoveFinding(
            subject="partitions",
            verdict=MoveVerdict.WAIT,
            found=f"{state.reassignment_count} are being reassigned",
            advice="wait; streamlog partitions reassign --list shows them",
        )
    if not (leaderless or lagging or state.reassignment_count):
        found = f"{len(state.placements)}, all replicas in sync"
        yield MoveFinding(subject="partitions", verdict=MoveVerdict.OK, found=found)


def _judge_quorum(quorum: QuorumDescription) -> Iterator[MoveFinding]:
    voters = [each for each in quorum.replicas if each.is_voter]
    behind = _behind(quorum, voters)
    if quorum.leader_id < 0 or behind:
        found = "no controller leads" if quorum.leader_id < 0 else f"voters behind the leader: {_some(behind)}"
        yield MoveFinding(
            subject="quorum", verdict=MoveVerdict.WAIT, found=found, advice="wait; see streamlog quorum describe"
        )
    else:
        ids = ", ".join(str(each.node_id) for each in voters)
        yield MoveFinding(
            subject="quorum", verdict=MoveVerdict.OK, found=f"controller {quorum.leader_id} leads voters {ids}"
        )


def _behind(quorum: QuorumDescription, voters: Sequence[QuorumReplica]) -> list[str]:
    newest_ms = max((each.last_caught_up_ms for each in voters), default=-1)
    return [
        str(each.node_id)
        for each in voters
        if each.node_id != quorum.leader_id and newest_ms - each.last_caught_up_ms > _LATE_MS and quorum.lag_of(each)
    ]


def _judge_leaving(state: ClusterState, leaving: Collection[int]) -> Iterator[MoveFinding]:
    voters = {each.node_id for each in state.quorum.replicas if each.is_voter}
    for node_id in sorted(leaving):
        held = sum(node_id in each.replicas for each in state.placements)
        led = sum(node_id == each.leader_id for each in state.placements)
        if held:
            yield MoveFinding(
                subject=f"node {node_id}",
                verdict=MoveVerdict.WAIT,
                found=f"holds {held} replicas and leads {led} partitions",
                advice="move them: streamlog migrate plan, then streamlog partitions reassign --file",
            )
        elif node_id in voters:
            yield MoveFinding(
                subject=f"node {node_id}",
                verdict=MoveVerdict.WAIT,
                found="holds no replica and is a voter",
                advice="streamlog quorum add the one that replaces it, then streamlog quorum remove",
            )
        else:
            yield MoveFinding(
                subject=f"node {node_id}",
                verdict=MoveVerdict.OK,
                found="holds no replica, has no vote: it may be stopped",
            )


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMED_COUNT
    return ", ".join(names[:_NAMED_COUNT]) + (f" and {more} more" if more > 0 else "")


def moved_replicas(
    placements: Sequence[PartitionPlacement], replacements: Mapping[int, int]
) -> list[tuple[PartitionPlacement, tuple[int, ...]]]:
    """Each partition that has to move, with its replicas where each node of `replacements` is another one: preferred
    leaders stay spread as they are. A partition that has the other one already keeps it once."""
    moved = []
    for each in placements:
        replicas = tuple(dict.fromkeys(replacements.get(replica, replica) for replica in each.replicas))
        if replicas != each.replicas:
            moved.append((each, replicas))
    return moved
