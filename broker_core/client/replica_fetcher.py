"""Fetches from one broker for all replicas that follow it, in a thread of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, Final

from broker_core.client.connection_pool import ConnectionPool
from broker_core.client.deadline import Deadline
from broker_core.client.held_replicas import HeldReplicas
from broker_core.client.replica_settings import ReplicaSettings
from broker_core.model.client_settings import BrokerAddress, ClientSettings
from broker_core.model.exceptions import BrokerUnavailableError, RemoteError
from broker_core.replication.replica_messages import (
    PartitionId,
    bound_of,
    bounds_requests,
    replica_fetch_answers,
    replica_fetch_request,
)
from broker_core.replication.replication_values import FetchPosition

_log: Final = logging.getLogger(__name__)
_IDLE_SECONDS: Final = 0.05
_ANSWER_MS: Final = 5000
"""How long a leader may take to answer, beyond the time that the fetch waits there."""


class ReplicaFetcher:
    """`address_of` and `broker_epoch` are asked at each turn: the leader may move, this broker register again. `on_end`
    is called in the thread if it cannot go on."""

    def __init__(
        self,
        leader_id: int,
        settings: ReplicaSettings,
        replicas: HeldReplicas,
        *,
        address_of: Callable[[int], BrokerAddress | None],
        broker_epoch: Callable[[], int],
        on_end: Callable[[Exception], None],
    ) -> None:
        self._leader_id, self._settings, self._replicas = leader_id, settings, replicas
        self._address_of, self._broker_epoch, self._on_end = address_of, broker_epoch, on_end
        self._stopping = threading.Event()
        self._pool: ConnectionPool | None = None
        self._address: BrokerAddress | None = None
        self._thread = threading.Thread(target=self._run, name=f"fetcher-{leader_id}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Waits until the fetch under way has ended."""
        self._stopping.set()
        self._thread.join((self._settings.fetch_wait_ms + _ANSWER_MS) / 1000)

    def _run(self) -> None:
        try:
            self._fetch_until_stopped()
        except Exception as error:
            _log.exception("node=%d: fetching from broker %d ends", self._settings.node_id, self._leader_id)
            self._on_end(error)

    def _fetch_until_stopped(self) -> None:
        while not self._stopping.is_set():
            positions = self._replicas.positions_at(self._leader_id)
            wanted = self._replicas.wanted_bounds(self._leader_id)
            address = self._address_of(self._leader_id)
            # Before its registration a broker has no epoch by which a leader could tell it from an earlier incarnation.
            if address is None or self._broker_epoch() < 0 or not (positions or wanted):
                self._stopping.wait(_IDLE_SECONDS)
                continue
            self._connect(address)
            try:
                self._fetch(positions)
                for partition, topic, leader_epoch in wanted:
                    self._ask_bounds(partition, topic, leader_epoch)
            except RemoteError as error:
                _log.info("node=%d: broker %d does not answer: %s", self._settings.node_id, self._leader_id, error)
                for partition in positions:
                    self._replicas.on_no_answer(partition)
                for partition, _, leader_epoch in wanted:
                    self._replicas.on_bounds(partition, leader_epoch, None, None)
        if self._pool is not None:
            self._pool.close()

    def _connect(self, address: BrokerAddress) -> None:
        if self._pool is None or address != self._address:
            if self._pool is not None:
                self._pool.close()
            self._pool = ConnectionPool(ClientSettings(bootstrap_servers=(address,), client_id="streamlog-replica"))
            self._address = address

    def _fetch(self, positions: dict[PartitionId, FetchPosition]) -> None:
        if not positions:
            return
        request = replica_fetch_request(
            positions,
            replica_id=self._settings.node_id,
            broker_epoch=self._broker_epoch(),
            max_wait_ms=self._settings.fetch_wait_ms,
            max_bytes=self._settings.response_max_bytes,
            partition_max_bytes=self._settings.partition_max_bytes,
        )
        (response,) = self._ask([request])
        if response.error_code:
            raise BrokerUnavailableError(f"Fetch: {response.error_code.name}", address=str(self._address))
        for partition, answer in replica_fetch_answers(response):
            if partition in positions:
                self._replicas.on_answer(partition, positions[partition], answer)

    def _ask_bounds(self, partition: PartitionId, topic: str, leader_epoch: int) -> None:
        requests = bounds_requests(topic, partition, replica_id=self._settings.node_id, leader_epoch=leader_epoch)
        start, end = (bound_of(response) for response in self._ask(requests))
        self._replicas.on_bounds(partition, leader_epoch, start, end)

    def _ask(self, requests: list[Any]) -> list[Any]:
        assert self._pool is not None and self._address is not None, "not connected"
        deadline = Deadline(self._settings.fetch_wait_ms + _ANSWER_MS, setting="replica.socket.timeout.ms")
        return self._pool.connection(self._address, deadline).ask(requests, deadline)
