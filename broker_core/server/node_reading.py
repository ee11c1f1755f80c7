"""Reads a node for its metrics, on its loop, a few partitions per turn so that requests do not wait for it."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from functools import partial
from typing import Any, Final, Protocol
from uuid import UUID

from broker_core.broker.settings.broker_config import BrokerConfig
from broker_core.group.group_coordinator import GroupCoordinator
from broker_core.model.exceptions import StreamlogError
from broker_core.model.identifiers import OWN_GROUP_PREFIXES, TopicPartition
from broker_core.model.topic_name import partition_folder
from broker_core.server.answer_memory import AnswerMemory
from broker_core.server.node_metrics import NodeReading, PartitionReading
from broker_core.server.open_connections import OpenConnections

_PARTITIONS_AT_A_TIME: Final = 100
GroupOffsetReading = tuple[str, TopicPartition, int]


class ReadableServer(Protocol):
    """The part of a server that is read. `state` is "starting", "ready" or "stopping"; `node` is a `BrokerNode`."""

    state: str
    config: BrokerConfig
    node: Any

    @property
    def is_ready(self) -> bool: ...

    @property
    def connections(self) -> OpenConnections: ...

    @property
    def memory(self) -> AnswerMemory: ...

    @property
    def unfinished_job_count(self) -> int: ...


async def read_node(server: ReadableServer) -> NodeReading:
    """Before the node is ready, only connections are read."""
    connections = Counter(connection.peer.listener for connection in server.connections)
    waiting = sum(connection.open_request_count for connection in server.connections)
    if not server.is_ready:
        return NodeReading(connections=tuple(connections.items()))
    node: Any = server.node
    return NodeReading(
        partitions=await _partitions(node, server.config.log_dir),
        group_offsets=await _group_offsets(node),
        parked=(("Fetch", len(node.parked_fetches)), ("Group", node.groups.waiting_count), ("Request", waiting)),
        connections=tuple((one.name, connections[one.name]) for one in server.config.listeners),
        unsent_answer_bytes=server.memory.held_bytes,
        unsynced_bytes=node.replicas.budget.held_bytes,
        jobs=server.unfinished_job_count,
        is_ready=True,
    )


def topic_name_of(node: Any, topic_id: UUID) -> str | None:
    """For requests that contain topic ids."""
    topic = node.topics.image.topic_by_id(topic_id)
    return None if topic is None else str(topic.name)


async def _partitions(node: Any, log_dir: str) -> tuple[PartitionReading, ...]:
    found: list[PartitionReading] = []
    for number, replica in enumerate(node.replicas.all()):
        if number % _PARTITIONS_AT_A_TIME == _PARTITIONS_AT_A_TIME - 1:
            await asyncio.sleep(0)
        where: TopicPartition = replica.topic_partition
        found.append(
            PartitionReading(
                partition=where,
                log_start_offset=replica.bounds.log_start_offset,
                log_end_offset=replica.bounds.log_end_offset,
                is_offline=replica.error is not None,
                size_bytes=partial(_size_bytes, f"{log_dir}/{partition_folder(where)}"),
            )
        )
    return tuple(found)


async def _group_offsets(node: Any) -> tuple[GroupOffsetReading, ...]:
    """Of the groups whose coordinator is here; empty while one is loading."""
    answered: asyncio.Future[tuple[GroupOffsetReading, ...]] = asyncio.get_running_loop().create_future()

    def on_error(error: StreamlogError) -> None:
        answered.set_result(())

    def on_reply(found: list[GroupOffsetReading]) -> None:
        answered.set_result(tuple(found))

    node.groups.look_all(_all_offsets, on_reply, on_error)
    return await answered


def _all_offsets(coordinator: GroupCoordinator) -> tuple[GroupOffsetReading, ...]:
    offsets = coordinator.offsets
    return tuple(
        (group, where, one.offset)
        for group in offsets.groups()
        # There is no lag: the commits are no positions in a topic.
        if not group.startswith(OWN_GROUP_PREFIXES)
        for where, one in offsets.fetch(group).items()
    )


def _size_bytes(folder: str) -> int:
    """The size of the batches; 0 if the folder does not exist (any more)."""
    try:
        with os.scandir(folder) as entries:
            return sum(entry.stat().st_size for entry in entries if entry.name.endswith(".log"))
    except OSError:
        return 0
