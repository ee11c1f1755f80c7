"""A broker of a Kafka cluster that only follows: registered, unfenced, its replicas in sync, without clients.

    caller's thread   follows the metadata log (`QuorumFollower`); each replayed change goes to the replicas
    session           registration and heartbeats
    fetchers          one for each broker that leads a replica of this one

Nobody can read from this broker or produce to it. If the controller elects it as a leader, it asks the controller to
move its leaderships away (controlled shutdown), and `run` raises QuorumError with the partition's name.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from broker_core.broker.partition.image_assignments import standings_of
from broker_core.client.broker_session import BrokerSession
from broker_core.client.deadline import Deadline
from broker_core.client.held_replicas import HeldReplicas
from broker_core.client.quorum_description import cluster_id_of
from broker_core.client.quorum_follower import QuorumFollower
from broker_core.client.replica_fetcher import ReplicaFetcher
from broker_core.client.replica_settings import ReplicaSettings
from broker_core.log_directory.partition_lock import LOCK_FILE_NAME, PartitionLock
from broker_core.log_directory.quorum_directory import open_identity, open_quorum_log
from broker_core.log_directory.system_ports import SystemClock, SystemEntropy
from broker_core.metadata.broker_lifecycle import LifecycleState
from broker_core.metadata.controller import random_id
from broker_core.model.client_settings import BrokerAddress, ClientSettings
from broker_core.model.exceptions import DirectoryLockedError, QuorumError
from broker_core.ports import LockMode
from broker_core.raft.quorum_values import ReplicaIdentity
from broker_core.storage.os_file_system import OsFileSystem

_log: Final = logging.getLogger(__name__)
_LEAVING_MS: Final = 20_000
"""How long a controller that does not answer is waited for; after it the session ends by its timeout."""


class FollowingBroker:
    """Created by `open_following_broker`. `on_state`: called in the session's thread."""

    def __init__(
        self,
        settings: ReplicaSettings,
        identity: ReplicaIdentity,
        follower: QuorumFollower,
        on_state: Callable[[LifecycleState], None],
    ) -> None:
        self._settings, self._follower = settings, follower
        clock, fs = SystemClock(), OsFileSystem()
        self._replicas = HeldReplicas(settings, fs, clock)
        self._fetchers: dict[int, ReplicaFetcher] = {}
        self._brokers: dict[int, BrokerAddress] = {}
        self._controller: BrokerAddress | None = None
        self._image_offset = -1
        self._refusal: str | None = None
        self._session = BrokerSession(
            settings,
            identity,
            fs=fs,
            clock=clock,
            incarnation_id=random_id(SystemEntropy()),
            controller=lambda: self._controller,
            metadata_offset=lambda: self._image_offset - 1,
            on_state=on_state,
            on_end=self._end,
        )

    def run(self, *, until: Callable[[], bool]) -> None:
        """Follows until that is true, then leaves in order. Raises QuorumError when it cannot go on."""

        leaving: Deadline | None = None

        def is_over() -> bool:
            nonlocal leaving
            self._maybe_learn()
            if leaving is None and (self._refusal is not None or until()):
                leaving = Deadline(_LEAVING_MS, setting="controlled shutdown")
                self._session.stop()
            is_late = leaving is not None and leaving.is_over
            return is_late or self._session.state is LifecycleState.ENDED

        try:
            self._follower.run(until=is_over)
        finally:
            self._session.abandon()
            for fetcher in self._fetchers.values():
                fetcher.stop()
            self._replicas.close()
        refusal = self._refusal or self._session.refusal
        if refusal is not None:
            raise QuorumError(f"node {self._settings.node_id} leaves the cluster: {refusal}")

    def _end(self, error: Exception) -> None:
        """Of a thread that cannot go on."""
        self._refusal = self._refusal or f"{type(error).__name__}: {error}"

    def _maybe_learn(self) -> None:
        """After each event of the metadata log."""
        if self._follower.image_offset == self._image_offset:
            return
        image = self._follower.image
        self._learn_nodes()
        self._replicas.learn(image, standings_of(image))
        for leader_id in self._replicas.leaders() - self._fetchers.keys():
            self._fetchers[leader_id] = ReplicaFetcher(
                leader_id,
                self._settings,
                self._replicas,
                address_of=lambda broker_id: self._brokers.get(broker_id),
                broker_epoch=lambda: self._session.broker_epoch,
                on_end=self._end,
            )
        self._refuse_to_lead()
        # Only now: the controller unfences a broker whose replicas are there.
        self._image_offset = self._follower.image_offset

    def _learn_nodes(self) -> None:
        registrations = self._follower.image.registrations
        self._brokers = {
            broker_id: BrokerAddress(host=each.host, port=each.port)
            for broker_id, broker in registrations.brokers.items()
            for each in broker.end_points
            if each.name == self._settings.listener
        }
        leading = registrations.controllers.get(self._follower.observer.election.leader_id)
        for each in () if leading is None else leading.end_points:
            if each.name == self._settings.controller_listener:
                self._controller = BrokerAddress(host=each.host, port=each.port)

    def _refuse_to_lead(self) -> None:
        led = self._replicas.led_here()
        if led and self._refusal is None:
            self._refusal = f"it was elected to lead {led[0]}, and it only follows"
            _log.error("node=%d %s: asking the controller to elect others", self._settings.node_id, self._refusal)


@contextmanager
def open_following_broker(
    settings: ReplicaSettings, *, on_state: Callable[[LifecycleState], None] = lambda state: None
) -> Iterator[FollowingBroker]:
    """Makes the directory if it is missing, and holds its lock. Raises DirectoryLockedError, DirectoryFormatError for a
    directory that is not of this node and cluster, RemoteError if no controller answers."""
    client = ClientSettings(bootstrap_servers=settings.controllers)
    cluster_id = cluster_id_of(client)
    fs, path = OsFileSystem(), settings.log_dir
    os.makedirs(path, exist_ok=True)
    lock = PartitionLock(f"{path}/{LOCK_FILE_NAME}")
    if not lock.acquire(LockMode.EXCLUSIVE, timeout_seconds=0):
        raise DirectoryLockedError(f"{path} is used by another process", directory=path)
    try:
        identity = open_identity(fs, path, node_id=settings.node_id, cluster_id=cluster_id, entropy=SystemEntropy())
        with QuorumFollower(client, identity, open_quorum_log(fs, path, is_voter=False)) as follower:
            yield FollowingBroker(settings, identity, follower, on_state)
    finally:
        lock.release()
