"""One listener: accepts connections, up to the limits, and creates their `ClientConnection`s.

The constructor binds the address, so that a port in use is reported before anything else happens. `start` begins to
accept connections. A failed TLS handshake is only logged. `change` is for new connections: those that are open keep
what they were accepted with.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from broker_core.broker.settings.broker_config import BrokerConfig
from broker_core.broker.settings.listener_security import ListenerTls
from broker_core.broker.settings.listener_settings import Listener
from broker_core.handlers.call import Peer
from broker_core.model.access_control import ANONYMOUS
from broker_core.model.exceptions import AuthenticationError, BrokerUnavailableError, InvalidConfigError
from broker_core.model.limits import MAX_DELAYED_CLOSES, MAX_TLS_HANDSHAKE_MS
from broker_core.server.client_connection import ClientConnection
from broker_core.server.connection_quota import ConnectionQuota
from broker_core.server.connection_services import ConnectionServices
from broker_core.server.open_connections import OpenConnections
from broker_core.server.tls_settings import (
    certificate_of,
    check_replacement,
    principal_of_certificate,
    server_tls_context,
)
from broker_core.tls.pem_files import FileStamps, file_stamps

if TYPE_CHECKING:
    from broker_core.server.client_login import ClientLogin

_PAUSE_SECONDS: Final = 0.1
"""The pause before accepting again when the process has no file descriptors left."""

_NO_DESCRIPTOR: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

_log: Final = logging.getLogger(__name__)


class TcpListener:
    """Raises BrokerUnavailableError if the address cannot be bound, InvalidConfigError for invalid certificates."""

    def __init__(self, listener: Listener, config: BrokerConfig) -> None:
        self.listener = listener
        self._config = config
        self._new_login: Callable[[], ClientLogin] | None = None
        self._tls: ssl.SSLContext | None = None
        self._stamps: FileStamps = ()
        self._certificate: bytes | None = None
        """The certificate that new connections get, in DER."""
        self._allowed_by = listener.tls
        if listener.tls is not None:
            self._load_tls(listener.tls)
        self._socket = _bound_socket(listener)
        _set_buffers(self._socket, config)
        self.port: int = self._socket.getsockname()[1]
        self._accepting: asyncio.Task[None] | None = None
        self._greeting: set[asyncio.Task[None]] = set()
        self._watches_certificates = False

    def start(
        self,
        services: ConnectionServices,
        connections: OpenConnections,
        quota: ConnectionQuota,
        *,
        next_id: Callable[[], int],
        new_login: Callable[[], ClientLogin] | None,
        watches_certificates: bool = False,
    ) -> None:
        """`new_login` creates the login of one connection; None if the listener requires no login.
        `watches_certificates`: files that were replaced are read before the next connection, without a change."""
        self._watches_certificates = watches_certificates
        self._services = services
        self._connections = connections
        self._quota = quota
        self._next_id = next_id
        self._new_login = new_login
        self._socket.listen(self._config.socket_listen_backlog_size)
        self._accepting = asyncio.get_running_loop().create_task(self._accept())

    def is_at(self, listener: Listener) -> bool:
        """Whether it is bound to this address."""
        return listener.host == self.listener.host and listener.port in (self.listener.port, self.port)

    def check_tls(self, tls: ListenerTls) -> None:
        """Raises InvalidConfigError if its certificate may not replace the one in use."""
        check_replacement(self.listener.name, self._certificate, tls, allowed_by=self._allowed_by)

    def change(self, listener: Listener, new_login: Callable[[], ClientLogin] | None) -> None:
        """The same address with other settings, or with other content of the files that they name. Raises
        InvalidConfigError for invalid certificates; then the old ones are kept."""
        before = self.listener
        self.listener = listener
        self._new_login = new_login
        if listener.tls is None or (listener.tls == before.tls and file_stamps(listener.tls.identity) == self._stamps):
            return
        if self._accepting is None:
            # No client has seen the certificate of the properties file.
            self._allowed_by = listener.tls
        else:
            self.check_tls(listener.tls)
        self._load_tls(listener.tls)

    async def stop(self) -> None:
        """Accepts no more connections; existing ones stay open."""
        tasks = [task for task in (self._accepting, *self._greeting) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.close()

    def close(self) -> None:
        """Releases the address."""
        if self._accepting is not None and self._socket.fileno() >= 0:
            # Its number may soon be another socket's.
            asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()

    def _load_tls(self, tls: ListenerTls) -> None:
        # Of before: a file that is replaced meanwhile is loaded again.
        stamps = file_stamps(tls.identity)
        self._tls = server_tls_context(self.listener.name, tls)
        self._stamps = stamps
        self._certificate = certificate_of(tls)

    def _look_at_certificates(self) -> None:
        tls = self.listener.tls
        if tls is None or file_stamps(tls.identity) == self._stamps:
            return
        try:
            self.change(self.listener, self._new_login)
        except InvalidConfigError as error:
            # Until the files change again.
            self._stamps = file_stamps(tls.identity)
            _log.error("listener=%s keeps its certificate: %s", self.listener.name, error)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        name = self.listener.name
        while True:
            await self._quota.wait_for_room(name, lambda: self.listener.max_connection_count)
            try:
                accepted, address = await loop.sock_accept(self._socket)
            except OSError as error:
                if error.errno not in _NO_DESCRIPTOR:
                    # The client disconnected before it was accepted.
                    continue
                _log.error("listener=%s: accepting a connection failed: %s", name, error)
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            throttle_ms = self._quota.throttle_ms_of(address[0])
            if throttle_ms:
                self._close_later(accepted, throttle_ms)
                continue
            if not self._quota.admit(name, address[0]):
                _log.warning("listener=%s peer=%s:%d refused: max.connections.per.ip", name, address[0], address[1])
                accepted.close()
                continue
            if self._watches_certificates:
                self._look_at_certificates()
            task = loop.create_task(self._greet(accepted, address))
            self._greeting.add(task)
            task.add_done_callback(self._greeting.discard)

    def _close_later(self, accepted: socket.socket, throttle_ms: int) -> None:
        """Its address opens connections too fast."""
        quota = self._quota
        if quota.delayed_close_count >= MAX_DELAYED_CLOSES:
            accepted.close()
            return

        def close() -> None:
            quota.delayed_close_count -= 1
            accepted.close()

        quota.delayed_close_count += 1
        asyncio.get_running_loop().call_later(throttle_ms / 1000, close)

    async def _greet(self, accepted: socket.socket, address: tuple[Any, ...]) -> None:
        listener, host, port = self.listener, str(address[0]), int(address[1])
        peer = Peer(
            client_host=host,
            client_port=port,
            listener=listener.name,
            principal=ANONYMOUS,
            connection_id=self._next_id(),
        )
        login = None if self._new_login is None else self._new_login()
        tls_context = self._tls
        is_made = False

        def on_made(connection: ClientConnection, transport: asyncio.Transport) -> None:
            nonlocal is_made
            is_made = True
            self._connections.add(connection)
            if listener.tls is None or login is not None:
                return
            tls: ssl.SSLObject = transport.get_extra_info("ssl_object")
            try:
                connection.know(principal_of_certificate(listener.tls, tls.getpeercert(binary_form=True)))
            except AuthenticationError as error:
                connection.refuse(error.message)

        def on_closed(connection: ClientConnection) -> None:
            self._connections.remove(connection)
            self._quota.release(listener.name, host)

        def new_connection() -> ClientConnection:
            direct = accepted if tls_context is None else None
            return ClientConnection(
                self._services, peer, login=login, on_made=on_made, on_closed=on_closed, direct=direct
            )

        try:
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            await asyncio.get_running_loop().connect_accepted_socket(
                new_connection,
                accepted,
                ssl=tls_context,
                ssl_handshake_timeout=MAX_TLS_HANDSHAKE_MS / 1000 if tls_context is not None else None,
            )
        except OSError as error:
            if tls_context is not None:
                _log.warning("listener=%s peer=%s closed: TLS handshake: %s", listener.name, peer, error)
            # The error's frames keep it, and the handshake's buffers, alive until the next garbage collection.
            error.__traceback__ = error.__context__ = None
        finally:
            if not is_made:
                # The loop closes the socket in every case.
                self._quota.release(listener.name, host)


def check_address(listener: Listener) -> None:
    """Raises BrokerUnavailableError if the address cannot be bound."""
    _bound_socket(listener).close()


def _bound_socket(listener: Listener) -> socket.socket:
    """An address without a host means all addresses, including IPv6 if the system has it."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            listener.host or None, listener.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        if not listener.host and socket.has_dualstack_ipv6():
            family, address = socket.AF_INET6, ("::", listener.port, 0, 0)
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        raise BrokerUnavailableError(f"listeners: cannot listen on {listener}: {error}") from error
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6 and not listener.host:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        bound.setblocking(False)
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise BrokerUnavailableError(f"listeners: cannot listen on {listener}: {error.strerror}") from error
    return bound


def _set_buffers(bound: socket.socket, config: BrokerConfig) -> None:
    """Accepted connections inherit these options."""
    for option, size in (
        (socket.SO_SNDBUF, config.socket_send_buffer_bytes),
        (socket.SO_RCVBUF, config.socket_receive_buffer_bytes),
    ):
        if size > 0:
            bound.setsockopt(socket.SOL_SOCKET, option, size)
