"""A broker in this process: a node, its listeners and their connections, on the running loop.

    server = BrokerServer(config)   binds the ports
    await server.start()            opens and recovers the log, then accepts clients
    await server.stop()             takes no more requests, answers those in progress, closes the log cleanly

The order of a stop: no new connections and requests; the node writes its pending appends and answers their producers;
connections close; threads end. Fetches that wait for records are not answered any more: their clients retry elsewhere.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from broker_core.broker.broker_node import BrokerNode, NodePorts
from broker_core.broker.settings.broker_config import BrokerConfig
from broker_core.broker.settings.listener_settings import Listener, reachable
from broker_core.handlers.call import Peer, Send
from broker_core.handlers.dispatch import dispatch
from broker_core.log_directory.system_ports import SystemEntropy
from broker_core.model.limits import MAX_UNSENT_ANSWER_BYTES
from broker_core.protocol.connection import Request
from broker_core.server.answer_memory import AnswerMemory
from broker_core.server.connection_quota import ConnectionLimits, ConnectionQuota
from broker_core.server.connection_services import ConnectionServices
from broker_core.server.descriptor_limit import DescriptorShares, descriptor_limit
from broker_core.server.host_name import host_name
from broker_core.server.node_timer import NodeTimer
from broker_core.server.open_connections import OpenConnections
from broker_core.server.request_observer import RequestObserver
from broker_core.server.served_listeners import ServedListeners
from broker_core.server.steady_clock import SteadyClock
from broker_core.server.thread_jobs import ThreadJobs
from broker_core.server.thread_syncs import ThreadSyncs
from broker_core.storage.os_file_system import OsFileSystem

if TYPE_CHECKING:
    from broker_core.metadata.scram_credentials import ScramCredentials
    from broker_core.server.client_login import ClientLogin
    from broker_core.server.metrics_endpoint import MetricsEndpoint

_SYNC_THREAD_COUNT: Final = 8
"""If Python's threads sync. More of them than lanes, because each may also wait for the GIL."""

_log: Final = logging.getLogger(__name__)


class ServedNode(Protocol):
    """The part of `broker.BrokerNode` that a server needs."""

    def start(self, on_ready: Callable[[], None], on_error: Callable[[Exception], None]) -> None: ...

    def stop(self, on_done: Callable[[], None]) -> None: ...

    @property
    def is_closed_cleanly(self) -> bool:
        """After a stop: whether everything is durable, so that the next start has nothing to recover."""
        ...

    def abandon(self) -> None:
        """Closes files and releases the directory without a flush or a clean-shutdown mark: the next start recovers.
        Blocks."""
        ...

    def on_settings(self, callback: Callable[[BrokerConfig], None]) -> None:
        """`callback` is called on the loop with the effective config, whenever settings were changed while the node
        runs."""
        ...

    def forget_client(self, connection_id: int) -> None:
        """The connection is closed: its waiting requests need no answer any more."""
        ...

    def throttle_ms_of(self, address: str, now_ms: int) -> int:
        """A new connection of the address: 0, or for how long it is kept before it is closed."""
        ...

    @property
    def is_full(self) -> bool:
        """Appends that wait for the disk have reached their memory limit: no more requests for now."""
        ...

    def next_timer_ms(self) -> int | None: ...

    def on_time(self, now_ms: int) -> None: ...


NewNode = Callable[[BrokerConfig, NodePorts], ServedNode]
Dispatch = Callable[..., None]
"""The signature of `handlers.dispatch.dispatch`."""


class BrokerServer:
    """Create it within a running loop. The constructor binds the ports of all listeners: it raises
    BrokerUnavailableError if one cannot be bound, InvalidConfigError for invalid certificates."""

    def __init__(
        self, config: BrokerConfig, *, new_node: NewNode = BrokerNode, dispatch_request: Dispatch = dispatch
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._clock = SteadyClock()
        self._shares = DescriptorShares.of(descriptor_limit())
        self._entropy = SystemEntropy()
        self._memory = AnswerMemory(MAX_UNSENT_ANSWER_BYTES, is_node_full=self._is_node_full)
        self._connections = OpenConnections(self._clock, self._memory, max_idle_ms=config.connections_max_idle_ms)
        self._listeners = ServedListeners(config, self._connections)
        name = host_name()
        listeners = tuple(reachable(one.listener, one.port, name) for one in self._listeners)
        self.config = replace(config, listeners=listeners, machine_name=name)
        """With the bound port, where the config has port 0."""
        self._jobs = ThreadJobs(self._loop, thread_count=config.num_io_threads, after_each=self._after_jobs)
        sync_jobs = ThreadJobs(
            self._loop, thread_count=_SYNC_THREAD_COUNT, thread_name="streamlog-sync", after_each=self._after_jobs
        )
        self._syncs = ThreadSyncs(self._loop, sync_jobs, after_turn=self._after_jobs)
        ports = NodePorts(
            jobs=self._jobs,
            loop_writes=self._syncs,
            clock=self._clock,
            entropy=self._entropy,
            file_system=OsFileSystem(),
            answer_room_bytes=lambda: self._memory.room_bytes,
            max_open_count=self._shares.open_partition_count,
            check_listeners=self._listeners.check,
            stopwatch_ns=time.perf_counter_ns,
        )
        self.node = new_node(self.config, ports)
        self._quota = ConnectionQuota(
            self._connection_limits(),
            throttle_ms_of=lambda address: self.node.throttle_ms_of(address, self._clock.now_ms()),
        )
        self.node.on_settings(self._settings_changed)
        self._dispatch = dispatch_request
        self._timer = NodeTimer(self._loop, self.node, self._clock)
        self._sweeper: asyncio.Task[None] | None = None
        self._metrics: MetricsEndpoint | None = None
        self.state = "starting"

    @property
    def is_ready(self) -> bool:
        """Clients are let in."""
        return self.state == "ready"

    @property
    def unfinished_job_count(self) -> int:
        return self._jobs.unfinished_count + self._syncs.unfinished_count

    @property
    def connections(self) -> OpenConnections:
        return self._connections

    @property
    def memory(self) -> AnswerMemory:
        return self._memory

    async def start(self) -> None:
        """Raises the errors of the log directory; then everything is released."""
        for note in self.config.notes:
            _log.info("%s", note)
        observer: RequestObserver | None = None
        try:
            if self.config.metrics_listener is not None:
                # Imported only if metrics are configured.
                from broker_core.server.metrics_endpoint import MetricsEndpoint

                self._metrics = MetricsEndpoint(self)
                await self._metrics.start(self.config.metrics_listener)
                observer = self._metrics.observer
            await self._start_node()
        except BaseException:
            await self._give_up()
            raise
        self._open(observer)

    async def stop(self) -> None:
        self.state = "stopping"
        await self._close_doors()
        stopped = self._loop.create_future()
        try:
            self.node.stop(partial(_resolve, stopped))
            await stopped
        except Exception:
            _log.exception("node=%d could not stop cleanly: the next start will recover the log", self.config.node_id)
        await self._connections.close()
        await self._end()

    async def kill(self) -> None:
        """As if the process had been killed, as far as possible within one: nothing is answered or flushed. Waits for
        the work that threads have begun."""
        self.state = "stopping"
        await self._close_doors()
        await self._connections.abort()
        await self._end()
        self.node.abandon()

    def _open(self, observer: RequestObserver | None) -> None:
        services = ConnectionServices(
            handle=self._handle,
            clock=self._clock,
            memory=self._memory,
            observer=observer,
            max_frame_bytes=self.config.socket_request_max_bytes,
            on_gone=self.node.forget_client,
        )
        self._listeners.start(services, self._quota, self._login_of)
        self._sweeper = self._loop.create_task(self._connections.sweep_forever())
        self._timer.look()
        self.state = "ready"
        _log.info("node=%d serving %s", self.config.node_id, ", ".join(map(str, self.config.listeners)))

    async def _start_node(self) -> None:
        started: asyncio.Future[None] = self._loop.create_future()
        self.node.start(partial(_resolve, started), partial(_reject, started))
        self._timer.look()
        await started

    def _handle(self, request: Request, peer: Peer, send: Send, now_ms: int) -> None:
        self._dispatch(self.node, request, peer, send, now_ms)
        self._timer.look()

    def _login_of(self, listener: Listener) -> Callable[[], ClientLogin] | None:
        if listener.login is None:
            return None
        # Imported only for listeners with a login: the SCRAM libraries load slowly.
        from broker_core.server.listener_logins import new_logins

        return new_logins(listener.login, self.config, self._scram_users, self._entropy)

    def _scram_users(self) -> ScramCredentials:
        node: Any = self.node  # a started BrokerNode: only such a one has listeners with a login
        users: ScramCredentials = node.topics.image.scram_credentials
        return users

    def _connection_limits(self) -> ConnectionLimits:
        return ConnectionLimits(
            total=min(self.config.max_connections, self._shares.connection_count),
            per_address=self.config.max_connections_per_ip,
            by_address=self.config.max_connections_per_ip_overrides,
        )

    def _settings_changed(self, config: BrokerConfig) -> None:
        self.config = config
        self._jobs.set_thread_count(config.num_io_threads)
        self._listeners.apply(config)
        self._quota.set_limits(self._connection_limits())

    def _after_jobs(self) -> None:
        self._timer.look()
        self._memory.look()

    def _is_node_full(self) -> bool:
        return self.is_ready and self.node.is_full

    async def _close_doors(self) -> None:
        await self._listeners.stop()
        for connection in self._connections:
            connection.stop_taking()

    async def _give_up(self) -> None:
        await self._listeners.stop()
        await self._end()

    async def _end(self) -> None:
        self._timer.stop()
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._metrics is not None:
            await self._metrics.stop()
        # Threads may be writing.
        await asyncio.to_thread(self._jobs.close)
        self._syncs.stop()
        await asyncio.to_thread(self._syncs.close)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _reject(future: asyncio.Future[None], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
