"""Fetches from one broker for all replicas of this one that follow it, on a connection of its own.

    positions that have changed ─► Fetch, which waits there for records ─► answers ─► all writes are durable ─► again

A replica that begins to follow interrupts the fetch that waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker_core.broker.cluster.cluster_replicas import ClusterReplicas
from broker_core.model.client_settings import BrokerAddress
from broker_core.model.exceptions import BrokerUnavailableError
from broker_core.replication.replica_fetch_session import ReplicaFetchSession
from broker_core.replication.replica_messages import (
    PartitionId,
    bound_of,
    bounds_requests,
    replica_fetch_answers,
    replica_fetch_request,
)
from broker_core.replication.replication_values import FetchPosition
from broker_core.server.cluster.moving_connection import MovingConnection, ask_once
from broker_core.server.cluster.replica_limits import ReplicaLimits
from broker_core.server.quorum.peer_connection import NO_ANSWER
from broker_core.server.quorum.peer_dialer import PeerDialer

_log: Final = logging.getLogger(__name__)
_SESSION_ERRORS: Final = frozenset(
    {
        ErrorCode.fetch_session_id_not_found,
        ErrorCode.invalid_fetch_session_epoch,
        ErrorCode.fetch_session_topic_id_error,
    }
)
"""The leader has dropped the session, for others or in a restart: the next fetch begins one."""
_IDLE_SECONDS: Final = 0.25
_FAILED_SECONDS: Final = 0.05
_ANSWER_SECONDS: Final = 5.0
"""How long a leader may take to answer, beyond the time that the fetch waits there."""


class LeaderFetcher:
    """`address_of` and `broker_epoch` are asked at each turn: the leader may move, this broker register again."""

    def __init__(
        self,
        leader_id: int,
        own_id: int,
        limits: ReplicaLimits,
        replicas: ClusterReplicas,
        *,
        address_of: Callable[[int], BrokerAddress | None],
        dialer: PeerDialer,
        broker_epoch: Callable[[], int],
    ) -> None:
        self._leader_id, self._own_id, self._limits, self._replicas = leader_id, own_id, limits, replicas
        self._broker_epoch = broker_epoch
        self._connection = MovingConnection(lambda: address_of(leader_id), dialer)
        self._session = ReplicaFetchSession()
        self._news = asyncio.Event()
        self._is_looking = False
        self._asked: set[PartitionId] = set()
        self._fetching: asyncio.Task[None] | None = None
        self._task = asyncio.get_running_loop().create_task(self._run())

    def look(self) -> None:
        """A replica that follows the broker may fetch now: it began to, or its write is durable."""
        self._news.set()
        if self._fetching is not None and not self._is_looking:
            # Thousands of replicas may begin in one turn of the loop.
            self._is_looking = True
            asyncio.get_running_loop().call_soon(self._maybe_interrupt)

    def _maybe_interrupt(self) -> None:
        self._is_looking = False
        fetching = self._fetching
        if fetching is not None and self._replicas.positions_at(self._leader_id).keys() - self._asked:
            fetching.cancel()

    def close(self) -> None:
        self._task.cancel()
        self._connection.close()

    async def _run(self) -> None:
        while True:
            try:
                await self._take_turn()
            except Exception:
                # A fault in the handling of one replica must not end the fetching of all.
                _log.exception("node=%d: fetching from broker %d failed", self._own_id, self._leader_id)
                self._hang_up()
                await asyncio.sleep(_IDLE_SECONDS)

    async def _take_turn(self) -> None:
        self._news.clear()
        positions = self._replicas.positions_at(self._leader_id)
        wanted = self._replicas.wanted_bounds(self._leader_id)
        connection = self._connection.current()
        # Before its registration a broker has no epoch by which a leader could tell it from an earlier incarnation.
        is_ready = connection is not None and self._broker_epoch() >= 0 and bool(positions or wanted)
        if not is_ready or self._replicas.is_writing(self._leader_id):
            await self._rest(_IDLE_SECONDS)
            return
        try:
            await self._fetch(positions)
            for partition_id, topic, leader_epoch in wanted:
                await self._ask_bounds(partition_id, topic, leader_epoch)
        except (*NO_ANSWER, TimeoutError) as error:
            _log.info("node=%d: broker %d does not answer: %r", self._own_id, self._leader_id, error)
            self._hang_up()
            for partition_id in positions:
                self._replicas.on_no_answer(partition_id)
            for partition_id, _, leader_epoch in wanted:
                self._replicas.on_bounds(partition_id, leader_epoch, None, None)
            await asyncio.sleep(_FAILED_SECONDS)

    def _hang_up(self) -> None:
        """What the leader has seen of the last request is not known."""
        self._connection.close()
        self._session.end()

    async def _rest(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            pass

    async def _fetch(self, positions: dict[PartitionId, FetchPosition]) -> None:
        if not positions:
            return
        self._asked = set(positions)
        fetching = self._fetching = asyncio.get_running_loop().create_task(self._fetch_and_hand_on(positions))
        try:
            await asyncio.wait({fetching})
        except asyncio.CancelledError:
            fetching.cancel()
            raise
        finally:
            self._fetching = None
        if fetching.cancelled():
            # By `look`: the connection has an answer that nobody waits for.
            self._hang_up()
        else:
            fetching.result()

    async def _fetch_and_hand_on(self, positions: dict[PartitionId, FetchPosition]) -> None:
        limits = self._limits
        request = replica_fetch_request(
            self._session.next_request(positions),
            replica_id=self._own_id,
            broker_epoch=self._broker_epoch(),
            max_wait_ms=limits.fetch_wait_ms,
            max_bytes=limits.response_max_bytes,
            partition_max_bytes=limits.partition_max_bytes,
        )
        response = await self._ask(request)
        # From here on nothing is awaited: an answer is handed on as a whole.
        self._fetching = None
        if response.error_code in _SESSION_ERRORS:
            self._session.end()
            return
        if response.error_code is not ErrorCode.none:
            raise BrokerUnavailableError(f"Fetch: {response.error_code.name}", address=str(self._leader_id))
        self._session.on_answer(response.session_id)
        for partition_id, answer in replica_fetch_answers(response):
            if partition_id in positions:
                self._replicas.on_answer(partition_id, positions[partition_id], answer)

    async def _ask_bounds(self, partition_id: PartitionId, topic: str, leader_epoch: int) -> None:
        requests = bounds_requests(topic, partition_id, replica_id=self._own_id, leader_epoch=leader_epoch)
        start, end = [bound_of(await self._ask(request)) for request in requests]
        self._replicas.on_bounds(partition_id, leader_epoch, start, end)

    async def _ask(self, request: Any) -> Any:
        connection = self._connection.current()
        if connection is None:
            raise BrokerUnavailableError(f"broker {self._leader_id} is not registered", address=str(self._leader_id))
        async with asyncio.timeout(self._limits.fetch_wait_ms / 1000 + _ANSWER_SECONDS):
            answer = await ask_once(connection, request)
        if answer is None:
            raise BrokerUnavailableError(
                f"broker {self._leader_id} does not support the requests of followers", address=str(self._leader_id)
            )
        return answer
