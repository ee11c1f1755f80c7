"""A node of the quorum with its listener, on the running loop.

The listener has the TLS and the logins of its settings. Users of SCRAM are those of the committed metadata log: nobody
is known before this node has heard from a leader what is committed.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from broker_core.broker.settings.broker_config import BrokerConfig
from broker_core.controller.requests.broker_heartbeat import BROKER_HEARTBEAT
from broker_core.controller.requests.envelope import ENVELOPE, forwarded_api, request_in, sealed
from broker_core.controller.requests.registry import CONTROLLER_APIS, QUORUM_APIS
from broker_core.handlers.call import Peer, Send
from broker_core.log_directory.committed_image import CommittedImage
from broker_core.log_directory.quorum_directory import open_identity, open_quorum_log
from broker_core.log_directory.system_ports import SystemEntropy
from broker_core.model.client_settings import BrokerAddress
from broker_core.model.exceptions import MalformedMessageError, RequestRefusedError
from broker_core.model.limits import MAX_UNSENT_ANSWER_BYTES
from broker_core.protocol.api_table import api_label, message_types
from broker_core.protocol.connection import Request
from broker_core.protocol.message_builder import build
from broker_core.raft.observer_events import QuorumAnswer
from broker_core.raft.quorum_values import ReplicaIdentity
from broker_core.raft.voter_messages import answer_message, read_request
from broker_core.server.answer_memory import AnswerMemory
from broker_core.server.connection_quota import ConnectionLimits, ConnectionQuota
from broker_core.server.connection_services import ConnectionServices
from broker_core.server.open_connections import OpenConnections
from broker_core.server.quorum.broker_watch import BrokerIncarnation
from broker_core.server.quorum.peer_dialer import PeerDialer
from broker_core.server.quorum.quorum_answers import (
    API_VERSIONS,
    DESCRIBE_CLUSTER,
    DESCRIBE_QUORUM,
    SERVED_BY_CONTROLLERS,
    api_versions,
    describe_cluster,
    describe_quorum,
)
from broker_core.server.quorum.quorum_node import QuorumNode
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
        )

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
            handle=self._handle,
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

    def _handle(self, request: Request, peer: Peer, send: Send, now_ms: int) -> None:
        message, key = request.message, request.api_key
        if message is None or request.api_version not in SERVED_BY_CONTROLLERS.get(key, range(0)):
            if key != API_VERSIONS:
                raise MalformedMessageError(f"{api_label(key)} of version {request.api_version} is not supported")
            refusal = {"error_code": ErrorCode.unsupported_version, "api_keys": api_versions(self.node, 0)["api_keys"]}
            send(build(message_types(API_VERSIONS, 0).response, refusal))
        elif key in (API_VERSIONS, DESCRIBE_CLUSTER):
            values = self._described(key, request.api_version, message)
            send(build(message_types(key, request.api_version).response, values))
        elif key in CONTROLLER_APIS:
            if key == BROKER_HEARTBEAT:
                broker = BrokerIncarnation(message.broker_id, message.broker_epoch)
                self.node.brokers.on_heartbeat(peer.connection_id, request.client_id, broker)
            response = message_types(key, request.api_version).response
            self.node.controller.handle(CONTROLLER_APIS[key], message, lambda reply: send(build(response, reply)))
        elif key == ENVELOPE:
            self._open_envelope(message, send, now_ms)
        else:
            self._on_quorum(request, send, now_ms)

    def _on_quorum(self, request: Request, send: Send, now_ms: int) -> None:
        """What the quorum itself answers."""
        message = request.message
        if request.api_key == DESCRIBE_QUORUM:
            values = describe_quorum(self.node, message, now_ms)
            send(build(message_types(DESCRIBE_QUORUM, request.api_version).response, values))
            return
        asked, cluster_id = read_request(message)
        self.node.receive(asked, cluster_id, partial(_answer, message, send))

    def _open_envelope(self, message: Any, send: Send, now_ms: int) -> None:
        """A client's request that a broker forwards."""
        response = message_types(ENVELOPE, 0).response
        try:
            inner = request_in(message)
        except RequestRefusedError as error:
            send(build(response, {"error_code": error.error_code}))
            return
        if inner.api_key in QUORUM_APIS:
            self._on_quorum(inner, lambda answer: send(build(response, sealed(inner, answer))), now_ms)
            return
        api = forwarded_api(inner)
        self.node.controller.handle(api, inner.message, lambda reply: send(build(response, reply)))

    def _described(self, key: int, version: int, message: Any) -> dict[str, Any]:
        return api_versions(self.node, version) if key == API_VERSIONS else describe_cluster(self.node, message)


def _answer(message: Any, send: Send, answer: QuorumAnswer) -> None:
    send(answer_message(answer, message))
