"""A broker of a cluster in this process, on what the cluster's quorum commits; it may be a voter of the quorum, too.

    server = ClusterServer(config, open_source, limits, …)   locks the directory, binds the ports
    await server.start()                                     ready when the controller lets clients in
    await server.stop()                                      leaders move to other brokers first

    source ── committed image ──► broker node ──► replicas: led, or followed by fetchers
    session ── registration, heartbeats ──► active controller ◄── proposals, forwarded requests ── broker node

A node that cannot go on (a damaged metadata log, a registration that is refused) calls `on_end` with the error.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from typing import Final

from broker_core.broker.broker_node import NodePorts
from broker_core.broker.cluster.cluster_node import ClusterBrokerNode, ClusterPorts
from broker_core.broker.cluster.cluster_topics import InternalTopicPlan
from broker_core.broker.settings.broker_config import BrokerConfig
from broker_core.log_directory.meta_properties import MetaProperties
from broker_core.log_directory.partition_lock import LOCK_FILE_NAME, PartitionLock
from broker_core.log_directory.system_ports import SystemEntropy
from broker_core.metadata.broker_lifecycle import LifecycleState
from broker_core.metadata.broker_messages import BrokerIdentity
from broker_core.metadata.controller import random_id
from broker_core.model.client_settings import BrokerAddress
from broker_core.model.exceptions import DirectoryLockedError, QuorumError
from broker_core.model.topic_name import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from broker_core.ports import LockMode
from broker_core.replication.replication_values import ReplicationSettings
from broker_core.server.broker_server import BrokerServer
from broker_core.server.cluster.broker_links import BrokerLinks
from broker_core.server.cluster.controller_link import ControllerLink
from broker_core.server.cluster.controller_session import ControllerSession
from broker_core.server.cluster.leader_fetcher import LeaderFetcher
from broker_core.server.cluster.metadata_source import MetadataSource, OpenSource
from broker_core.server.cluster.replica_limits import ReplicaLimits
from broker_core.server.quorum.peer_dialer import PeerDialer
from broker_core.server.steady_clock import SteadyClock
from broker_core.storage.os_file_system import OsFileSystem

_log: Final = logging.getLogger(__name__)
_CONTROLLER_SECONDS: Final = 30.0
_LEAVING_SESSIONS: Final = 1.5
"""How long a controller may take to move what this broker leads, in sessions: then this one is over anyway."""


class ClusterServer:
    """Create it within a running loop. The constructor raises DirectoryLockedError, DirectoryFormatError,
    BrokerUnavailableError and InvalidConfigError."""

    def __init__(
        self,
        config: BrokerConfig,
        open_source: OpenSource,
        limits: ReplicaLimits,
        *,
        on_end: Callable[[Exception], None],
    ) -> None:
        self._limits = limits
        self._dialer = PeerDialer(limits.links)
        self._on_end = on_end
        self._fs, self._clock = OsFileSystem(), SteadyClock()
        self._log_dir = os.path.abspath(config.log_dir)
        os.makedirs(self._log_dir, exist_ok=True)
        self._lock = PartitionLock(f"{self._log_dir}/{LOCK_FILE_NAME}")
        if not self._lock.acquire(LockMode.EXCLUSIVE, timeout_seconds=0):
            raise DirectoryLockedError(f"{self._log_dir} is used by another process", directory=self._log_dir)
        self._ready = asyncio.Event()
        self._fetchers: dict[int, LeaderFetcher] = {}
        source = self._source = open_source(on_end=on_end, on_committed=self._committed)

        def leader() -> BrokerAddress | None:
            return source.leader_address

        self._proposals = ControllerLink(leader, source.dialer, timeout_seconds=_CONTROLLER_SECONDS)
        self._links = BrokerLinks(self._address_of, self._dialer)
        self._broker = BrokerServer(config, new_node=self._new_node)
        self.config = self._broker.config
        identity = source.identity
        self._session = ControllerSession(
            BrokerIdentity(
                node_id=identity.node_id,
                cluster_id=identity.cluster_id or "",
                incarnation_id=random_id(SystemEntropy()),
                directory_id=identity.directory_id,
                listeners=self.config.endpoints,
                rack=self.config.broker_rack,
                protocols={each.name: each.protocol for each in self.config.listeners},
            ),
            fs=self._fs,
            clock=self._clock,
            log_dir=self._log_dir,
            heartbeat_interval_ms=limits.heartbeat_interval_ms,
            answer_ms=limits.session_timeout_ms // 2,
            leader=leader,
            dialer=source.dialer,
            metadata_offset=lambda: source.committed.offset - 1,
            on_state=self._on_state,
            on_end=on_end,
        )

    @property
    def node(self) -> ClusterBrokerNode:
        assert isinstance(self._broker.node, ClusterBrokerNode)
        return self._broker.node

    @property
    def source(self) -> MetadataSource:
        return self._source

    def _new_node(self, config: BrokerConfig, ports: NodePorts) -> ClusterBrokerNode:
        identity, limits = self._source.identity, self._limits
        cluster = ClusterPorts(
            properties=MetaProperties(
                cluster_id=identity.cluster_id or "",
                directory_id=identity.directory_id,
                node_id=identity.node_id,
                is_ours=False,
            ),
            controller=self._proposals,
            brokers=self._links,
            image_now=lambda: self._source.committed.image,
            broker_epoch=lambda: self._session.broker_epoch,
            replication=ReplicationSettings(max_lag_ms=limits.max_lag_ms, fetch_backoff_ms=limits.fetch_backoff_ms),
            on_follow=self._on_follow,
            internal_plans=_internal_plans(limits),
        )
        return ClusterBrokerNode(config, ports, cluster)

    async def start(self) -> None:
        """Returns when the controller has unfenced the broker. The quorum must have a majority by then. Clients are
        let in a moment before, when the broker has caught up with the metadata log."""
        self._source.start()
        self._session.start()
        await self._broker.start()
        await self._ready.wait()

    async def stop(self) -> None:
        """If it has not started yet, `start` must have ended by a cancellation."""
        await self._session.leave(_LEAVING_SESSIONS * self._limits.session_timeout_ms / 1000)
        self._close_links()
        if self._broker.is_ready:
            await self._broker.stop()
        else:
            self.node.abandon()  # nobody was let in; the start, which was cancelled, has closed the rest
        await self._source.stop()
        self._lock.release()

    async def kill(self) -> None:
        """As if the process had been killed, as far as possible within one."""
        self._close_links()
        await self._broker.kill()
        await self._source.stop()
        self._lock.release()

    def _close_links(self) -> None:
        self._session.close()
        self._proposals.close()
        self._links.close()
        for fetcher in self._fetchers.values():
            fetcher.close()
        self._fetchers.clear()

    # -- events --

    def _committed(self) -> None:
        self.node.learn(self._source.committed.image)

    def _on_state(self, state: LifecycleState) -> None:
        _log.info("node=%d is %s", self.config.node_id, state.name.lower())
        if state is LifecycleState.RUNNING:
            self._ready.set()
        self._committed()  # the registration may be in the image already
        refusal = self._session.lifecycle.refusal
        if state is LifecycleState.ENDED and refusal is not None:
            self._on_end(QuorumError(f"node {self.config.node_id} leaves the cluster: {refusal}"))

    def _on_follow(self, leader_id: int) -> None:
        fetcher = self._fetchers.get(leader_id)
        if fetcher is None:
            fetcher = self._fetchers[leader_id] = LeaderFetcher(
                leader_id,
                self.config.node_id,
                self._limits,
                self.node.replicas,
                address_of=self._address_of,
                dialer=self._dialer,
                broker_epoch=lambda: self._session.broker_epoch,
            )
        fetcher.look()

    def _address_of(self, broker_id: int) -> BrokerAddress | None:
        """Of its listener between brokers."""
        broker = self._source.committed.image.registrations.brokers.get(broker_id)
        for each in () if broker is None else broker.end_points:
            if each.name == self._limits.links.listener:
                return BrokerAddress(host=each.host, port=each.port)
        return None


def _internal_plans(limits: ReplicaLimits) -> dict[str, InternalTopicPlan]:
    return {
        CONSUMER_OFFSETS_TOPIC: InternalTopicPlan(
            partition_count=limits.offsets_partition_count, factor=limits.offsets_factor
        ),
        TRANSACTION_STATE_TOPIC: InternalTopicPlan(
            partition_count=limits.transactions_partition_count,
            factor=limits.transactions_factor,
            configs={"min.insync.replicas": str(limits.transactions_min_in_sync)},
        ),
    }
