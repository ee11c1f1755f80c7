"""A broker in a thread of this process: for tests and notebooks.

    with BrokerThread(config) as broker:
        broker.bootstrap_servers

It can be stopped, killed and restarted; it keeps its ports.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from broker_core.broker.settings.broker_config import BrokerConfig
from broker_core.server.broker_server import BrokerServer


class BrokerThread:
    """The constructor starts it, and raises what creating or starting a `BrokerServer` raises. `new_server` is called
    on the broker's loop."""

    def __init__(
        self, config: BrokerConfig, *, new_server: Callable[[BrokerConfig], BrokerServer] = BrokerServer
    ) -> None:
        self._config = config
        self._new_server = new_server
        self._thread: threading.Thread | None = None
        self._server: BrokerServer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.start()

    @property
    def config(self) -> BrokerConfig:
        """With the bound ports."""
        return self._config

    @property
    def bootstrap_servers(self) -> str:
        """The address of the first listener, in the form that clients use."""
        return str(self._config.listeners[0].advertised)

    @property
    def path(self) -> str:
        """The log directory."""
        return self._config.log_dir

    @property
    def is_running(self) -> bool:
        return self._thread is not None

    def start(self) -> None:
        """Returns once clients can connect."""
        assert self._thread is None, "the broker is already running"
        started = threading.Event()
        error: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, args=(started, error), name="streamlog-broker", daemon=True)
        self._thread.start()
        started.wait()
        if error:
            self._thread.join()
            self._thread = None
            raise error[0]
        assert self._server is not None, "the broker started without a server"
        self._config = self._with_taken_ports(self._server.config)

    def stop(self) -> None:
        """A clean stop: the next start has nothing to recover. Does nothing if the broker is not running."""
        if self._server is not None:
            self._end(self._server.stop())

    def kill(self) -> None:
        """Breaks connections; answers nothing and flushes nothing. The next start recovers."""
        if self._server is not None:
            self._end(self._server.kill())

    def restart(self) -> None:
        """Restarts it on the same ports and the same log."""
        self.stop()
        self.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self, started: threading.Event, error: list[BaseException]) -> None:
        with asyncio.Runner() as runner:
            self._loop = runner.get_loop()
            try:
                self._server = runner.run(self._start_server())
            except BaseException as caught:
                error.append(caught)
                return
            finally:
                started.set()
            self._loop.run_forever()

    def _end(self, ending: Coroutine[Any, Any, None]) -> None:
        assert self._loop is not None and self._thread is not None, "the broker has a server but no thread"
        try:
            asyncio.run_coroutine_threadsafe(ending, self._loop).result()
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._thread = self._server = self._loop = None

    async def _start_server(self) -> BrokerServer:
        server = self._new_server(self._config)
        await server.start()
        return server

    def _with_taken_ports(self, served: BrokerConfig) -> BrokerConfig:
        return replace(self._config, listeners=served.listeners)


async def _start(config: BrokerConfig) -> BrokerServer:
    server = BrokerServer(config)
    await server.start()
    return server
