"""The listeners of a server: bound together, changed one by one while it runs.

    listeners = ServedListeners(config)      binds the addresses of all, or of none
    listeners.start(...)                     accepts clients
    listeners.apply(config)                  what the settings are now: certificates too, if their files have changed
    listeners.check(old, new)                before that: whether new ones can be bound, and certificates be loaded
    await listeners.stop()                   accepts no more; connections stay

A listener that is gone closes its connections. What fails while a change is applied is logged, and leaves the others
alone: it was checked before, so that something has changed meanwhile.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from broker_core.broker.settings.broker_config import BrokerConfig
from broker_core.broker.settings.listener_settings import Listener
from broker_core.model.exceptions import BrokerUnavailableError, InvalidConfigError, StreamlogError
from broker_core.server.connection_quota import ConnectionQuota
from broker_core.server.connection_services import ConnectionServices
from broker_core.server.open_connections import OpenConnections
from broker_core.server.tcp_listener import TcpListener, check_address
from broker_core.server.tls_settings import server_tls_context

if TYPE_CHECKING:
    from broker_core.server.client_login import ClientLogin

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Services:
    """What a listener needs to accept clients. `login_of` gives what makes the logins of a listener, or None."""

    services: ConnectionServices
    quota: ConnectionQuota
    next_id: Callable[[], int]
    login_of: Callable[[Listener], Callable[[], ClientLogin] | None]


class ServedListeners:
    """Raises BrokerUnavailableError if an address cannot be bound, InvalidConfigError for invalid certificates."""

    def __init__(self, config: BrokerConfig, connections: OpenConnections) -> None:
        self._connections = connections
        self._services: _Services | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._listeners: dict[str, TcpListener] = {}
        try:
            for listener in config.listeners:
                self._listeners[listener.name] = TcpListener(listener, config)
        except BaseException:
            self.close()
            raise

    def __iter__(self) -> Iterator[TcpListener]:
        return iter(self._listeners.values())

    def start(
        self,
        services: ConnectionServices,
        quota: ConnectionQuota,
        login_of: Callable[[Listener], Callable[[], ClientLogin] | None],
    ) -> None:
        self._services = _Services(
            services=services, quota=quota, next_id=partial(next, itertools.count()), login_of=login_of
        )
        for tcp_listener in self:
            self._start(tcp_listener, self._services)

    def check(self, old: Sequence[Listener], new: Sequence[Listener]) -> None:
        """Raises InvalidConfigError for what could not be applied."""
        known = {one.name: one for one in old}
        ports = {one.port for one in old}
        for listener in new:
            before, served = known.get(listener.name), self._listeners.get(listener.name)
            if listener.tls is not None and (before is None or before.tls != listener.tls):
                server_tls_context(listener.name, listener.tls)
                if served is not None:
                    served.check_tls(listener.tls)
            # The port of another listener is free once that has moved.
            if listener.port not in ports:
                _check_address(listener)

    def apply(self, config: BrokerConfig) -> None:
        wanted = {one.name: one for one in config.listeners}
        for name, tcp_listener in tuple(self._listeners.items()):
            listener = wanted.get(name)
            if listener is None or not tcp_listener.is_at(listener):
                del self._listeners[name]
                self._close(tcp_listener)
        for name, listener in wanted.items():
            try:
                self._apply_one(name, listener, config)
            except StreamlogError as error:
                _log.error("listener=%s: a change of settings could not be applied: %s", name, error)

    async def stop(self) -> None:
        """Accepts no more connections; existing ones stay open."""
        for tcp_listener in self:
            await tcp_listener.stop()
        await asyncio.gather(*self._closing)

    def close(self) -> None:
        """Releases the addresses of listeners that were not started."""
        for tcp_listener in self:
            tcp_listener.close()

    def _apply_one(self, name: str, listener: Listener, config: BrokerConfig) -> None:
        if name in self._listeners:
            new_login = None if self._services is None else self._services.login_of(listener)
            self._listeners[name].change(listener, new_login)
            return
        tcp_listener = self._listeners[name] = TcpListener(listener, config)
        if self._services is not None:
            self._start(tcp_listener, self._services)
        _log.info("listener=%s added: %s", name, listener)

    def _start(self, tcp_listener: TcpListener, services: _Services) -> None:
        tcp_listener.start(
            services.services,
            self._connections,
            services.quota,
            next_id=services.next_id,
            new_login=services.login_of(tcp_listener.listener),
        )

    def _close(self, tcp_listener: TcpListener) -> None:
        name = tcp_listener.listener.name
        tcp_listener.close()
        task = asyncio.get_running_loop().create_task(tcp_listener.stop())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        for connection in self._connections:
            if connection.peer.listener == name:
                connection.abort()
        _log.info("listener=%s removed", name)


def _check_address(listener: Listener) -> None:
    if not listener.port:
        raise InvalidConfigError(f"listeners: {listener.name} is added while the broker runs and needs a port, not 0")
    try:
        check_address(listener)
    except BrokerUnavailableError as error:
        raise InvalidConfigError(error.message) from error
