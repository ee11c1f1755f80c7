"""What a test asks a node of a cluster on this machine, over a connection of its own each time: who leads.

Raises OSError if there is no answer in time, MalformedMessageError for one that is none.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import RequestPayload

from broker_core.model.limits import MAX_RESPONSE_FRAME_BYTES
from broker_core.model.topic_name import CLUSTER_METADATA_TOPIC
from broker_core.protocol.connection import ClientSide
from broker_core.protocol.message_builder import build
from broker_core.server.local.local_settings import ADDRESS

_TIMEOUT_SECONDS: Final = 2.0
_READ_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAnswer:
    """As the asked node knows it. `leader_id` is -1 if nobody leads."""

    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: frozenset[int]


def ask_about_partition(port: int, topic: str, partition: int) -> PartitionAnswer | None:
    """None: the broker on that port does not know it."""
    from kio.schema.metadata.v12.request import MetadataRequest

    asked = {"topics": [{"name": topic}], "allow_auto_topic_creation": False}
    answer = _ask(port, build(MetadataRequest, asked))
    for found in (each for one in answer.topics for each in one.partitions):
        if found.partition_index == partition:
            return PartitionAnswer(
                leader_id=int(found.leader_id),
                leader_epoch=int(found.leader_epoch),
                replicas=tuple(map(int, found.replica_nodes)),
                in_sync=frozenset(map(int, found.isr_nodes)),
            )
    return None


def ask_who_leads_quorum(controller_port: int) -> int | None:
    """None: the controller on that port is not the active one, which alone can tell."""
    from kio.schema.describe_quorum.v1.request import DescribeQuorumRequest

    topics = [{"topic_name": CLUSTER_METADATA_TOPIC, "partitions": [{"partition_index": 0}]}]
    answer = _ask(controller_port, build(DescribeQuorumRequest, {"topics": topics}))
    partitions = [found for topic in answer.topics for found in topic.partitions]
    if answer.error_code is not ErrorCode.none or not partitions or partitions[0].error_code is not ErrorCode.none:
        return None
    return int(partitions[0].leader_id)


def _ask(port: int, request: RequestPayload) -> Any:
    protocol = ClientSide(client_id="streamlog-local-cluster", max_frame_bytes=MAX_RESPONSE_FRAME_BYTES)
    protocol.send_request(request)
    with socket.create_connection((ADDRESS, port), timeout=_TIMEOUT_SECONDS) as connection:
        connection.sendall(b"".join(bytes(part) for part in protocol.data_to_send()))
        while (response := protocol.next_response()) is None:
            data = connection.recv(_READ_BYTES)
            if not data:
                raise ConnectionResetError(f"{ADDRESS}:{port} closed the connection")
            protocol.receive_data(data)
    return response.message
