"""What the quorum's machines send and hear, as Kafka's messages."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from broker_core.model.client_settings import BrokerAddress
from broker_core.model.exceptions import MalformedMessageError
from broker_core.model.topic_name import CLUSTER_METADATA_TOPIC
from broker_core.protocol.message_builder import build
from broker_core.raft.observer_events import FetchAnswer, SendFetch, SendFetchSnapshot, SnapshotAnswer
from broker_core.raft.quorum_values import NO_NODE, ReplicaIdentity, SnapshotId

METADATA_TOPIC_ID: Final = UUID(int=1)
FETCH_MAX_BYTES: Final = 1024 * 1024
FETCH_VERSION: Final = 18
"""The first with the high watermark, so that a parked fetch is answered when it passes (KIP-1166)."""
OLDER_FETCH_VERSION: Final = 17
"""The first with the directory of the replica."""


def fetch_request(send: SendFetch, identity: ReplicaIdentity, *, version: int = FETCH_VERSION) -> Any:
    """A Fetch of the metadata log as a replica, from the log's end on."""
    from kio.schema.fetch.v17.request import FetchRequest as OlderFetchRequest
    from kio.schema.fetch.v18.request import FetchRequest

    partition = {
        "partition": 0,
        "current_leader_epoch": send.leader_epoch,
        "fetch_offset": send.fetch_offset,
        "last_fetched_epoch": send.last_fetched_epoch,
        "partition_max_bytes": 0,
        "replica_directory_id": identity.directory_id,
        "high_watermark": send.high_watermark,
    }
    values = {
        "cluster_id": identity.cluster_id,
        "replica_state": {"replica_id": identity.node_id, "replica_epoch": -1},
        "max_wait": timedelta(milliseconds=send.max_wait_ms),
        "min_bytes": 0,
        "max_bytes": FETCH_MAX_BYTES,
        "topics": [{"topic_id": METADATA_TOPIC_ID, "partitions": [partition]}],
        "forgotten_topics_data": [],
    }
    return build(FetchRequest if version >= FETCH_VERSION else OlderFetchRequest, values)


def fetch_answer(response: Any) -> FetchAnswer:
    """Raises MalformedMessageError for an answer about something else."""
    endpoints = _endpoints(response.node_endpoints)
    if response.error_code:
        return FetchAnswer(error=response.error_code, endpoints=endpoints)
    partition = _only(response.responses, "Fetch")
    diverging, snapshot = partition.diverging_epoch, partition.snapshot_id
    return FetchAnswer(
        error=partition.error_code,
        leader_id=partition.current_leader.leader_id,
        leader_epoch=partition.current_leader.leader_epoch,
        endpoints=endpoints,
        high_watermark=partition.high_watermark,
        diverging=None if diverging.epoch < 0 or diverging.end_offset < 0 else (diverging.epoch, diverging.end_offset),
        snapshot_id=_snapshot_id(snapshot),
        records=bytes(partition.records or b""),
    )


def fetch_snapshot_request(send: SendFetchSnapshot, identity: ReplicaIdentity) -> Any:
    """A piece of a snapshot from its position on."""
    from kio.schema.fetch_snapshot.v1.request import FetchSnapshotRequest

    snapshot_id = {"end_offset": send.snapshot_id.end_offset, "epoch": send.snapshot_id.epoch}
    partition = {
        "partition": 0,
        "current_leader_epoch": send.leader_epoch,
        "snapshot_id": snapshot_id,
        "position": send.position,
        "replica_directory_id": identity.directory_id,
    }
    return build(
        FetchSnapshotRequest,
        {
            "cluster_id": identity.cluster_id,
            "replica_id": identity.node_id,
            "max_bytes": FETCH_MAX_BYTES,
            "topics": [{"name": CLUSTER_METADATA_TOPIC, "partitions": [partition]}],
        },
    )


def snapshot_answer(response: Any) -> SnapshotAnswer:
    """Raises MalformedMessageError for an answer about something else."""
    endpoints = _endpoints(getattr(response, "node_endpoints", ()))  # not in version 0
    if response.error_code:
        return SnapshotAnswer(error=response.error_code, endpoints=endpoints)
    partition = _only(response.topics, "FetchSnapshot")
    leader = partition.current_leader
    return SnapshotAnswer(
        error=partition.error_code,
        leader_id=NO_NODE if leader is None else leader.leader_id,
        leader_epoch=-1 if leader is None else leader.leader_epoch,
        endpoints=endpoints,
        size_bytes=partition.size,
        position=partition.position,
        chunk=bytes(partition.unaligned_records),
    )


def _snapshot_id(found: Any) -> SnapshotId | None:
    if found.end_offset < 0 or found.epoch < 0:
        return None
    return SnapshotId(end_offset=int(found.end_offset), epoch=int(found.epoch))


def _only(topics: Any, what: str) -> Any:
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        raise MalformedMessageError(f"{what}: the answer is not about one partition")
    return topics[0].partitions[0]


def _endpoints(nodes: Iterable[Any]) -> dict[int, BrokerAddress]:
    return {int(node.node_id): BrokerAddress(host=node.host, port=node.port) for node in nodes}
