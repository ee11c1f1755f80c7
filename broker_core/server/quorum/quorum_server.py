"""A node of the quorum with its listener, on the running loop.

The listener has the TLS and the logins of its settings. Users of SCRAM are those of the committed metadata log: nobody
is known before this node has heard from a leader what is committed.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from broker_core.broker.settings.broker_config import BrokerConfig
from broker_core.log_directory.committed_image import CommittedImage
from broker_core.log_directory.quorum_directory import first_users, open_identity, open_quorum_log
from broker_core.log_directory.system_ports import SystemEntropy
from broker_core.metadata.access_control_list import AccessControlList
from broker_core.model.client_settings import BrokerAddress
from broker_core.model.limits import MAX_UNSENT_ANSWER_BYTES
from broker_core.raft.quorum_values import ReplicaIdentity
from broker_core.server.answer_memory import AnswerMemory
from broker_core.server.connection_quota import ConnectionLimits, ConnectionQuota
from broker_core.server.connection_services import ConnectionServices
from broker_core.server.open_connections import OpenConnections
from broker_core.server.quorum.peer_dialer import PeerDialer
from broker_core.server.quorum.quorum_node import QuorumNode
from broker_core.server.quorum.quorum_requests import QuorumRequests
from broker_core.server.quorum.quorum_settings import QuorumSettings
from broker_core.server.steady_clock import SteadyClock
from broker_core.server.tcp_listener import TcpListener
from broker_core.storage.os_file_system import OsFileSystem

if TYPE_CHECKING:
    from broker_core.server.client_login import ClientLogin


class QuorumServer:
    """The constructor binds the port and opens the directory; it raises BrokerUnavailableError and
    DirectoryFormatError. `on_end`: the node cannot go on."""

    def __init__(
        self,
        settings: QuorumSettings,
        *,
        cluster_id: str | None,
        on_end: Callable[[Exception], None],
        on_committed: Callable[[], None] = lambda: None,
    ) -> None:
        config = BrokerConfig(listeners=(settings.listener,), node_id=settings.node_id)
        self._clock = SteadyClock()
        self._memory = AnswerMemory(MAX_UNSENT_ANSWER_BYTES)
        self._connections = OpenConnections(self._clock, self._memory, max_idle_ms=config.connections_max_idle_ms)
        self._config = config
        self._listener = TcpListener(settings.listener, config)
        fs, path = OsFileSystem(), os.path.abspath(settings.log_dir)
        os.makedirs(path, exist_ok=True)
        fs.sync_directory(os.path.dirname(path))
        identity = open_identity(fs, path, node_id=settings.node_id, cluster_id=cluster_id, entropy=SystemEntropy())
        log = open_quorum_log(fs, path)
        log.sync()
        self.node = QuorumNode(
            settings,
            identity,
            log,
            clock=self._clock,
            entropy=SystemEntropy(),
            on_end=on_end,
            on_committed=on_committed,
            first_users=first_users(fs, path),
        )
        self._requests = QuorumRequests(self.node, settings.access.authorizer(self._rules))

    def _rules(self) -> AccessControlList:
        return self.node.committed.image.access_control

    @property
    def identity(self) -> ReplicaIdentity:
        return self.node.identity

    @property
    def committed(self) -> CommittedImage:
        return self.node.committed

    @property
    def dialer(self) -> PeerDialer:
        """To controllers."""
        return self.node.dialer

    @property
    def leader_address(self) -> BrokerAddress | None:
        """Of the active controller, None while nobody is known to lead."""
        return self.node.voter.leader_address

    def start(self) -> None:
        services = ConnectionServices(
            handle=self._requests.handle,
            clock=self._clock,
            memory=self._memory,
            observer=None,
            max_frame_bytes=self._config.socket_request_max_bytes,
            on_gone=self.node.brokers.on_connection_closed,
        )
        quota = ConnectionQuota(ConnectionLimits(total=2**31 - 1, per_address=2**31 - 1))
        ids = itertools.count()
        self._listener.start(
            services,
            self._connections,
            quota,
            next_id=partial(next, ids),
            new_login=self._logins(),
            watches_certificates=True,
        )
        self.node.start()

    def _logins(self) -> Callable[[], ClientLogin] | None:
        login = self._listener.listener.login
        if login is None:
            return None
        # Imported only for a listener with a login: the SCRAM libraries load slowly.
        from broker_core.server.listener_logins import new_logins

        committed = self.node.committed
        return new_logins(login, self._config, lambda: committed.image.scram_credentials, SystemEntropy())

    async def stop(self) -> None:
        await self.node.stop()
        await self._listener.stop()
        await self._connections.abort()
