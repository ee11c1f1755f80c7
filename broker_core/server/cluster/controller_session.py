"""The broker's session with the active controller: registration and heartbeats (`metadata/broker_lifecycle`)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from broker_core.log_directory.broker_epoch import stored_broker_epoch, write_broker_epoch
from broker_core.metadata.broker_lifecycle import BrokerLifecycle, LifecycleHeartbeat, LifecycleState, Registration
from broker_core.metadata.broker_messages import BrokerIdentity, session_message, take_session_answer
from broker_core.model.client_settings import BrokerAddress
from broker_core.ports import Clock, FileSystem
from broker_core.server.cluster.moving_connection import MovingConnection, ask_once
from broker_core.server.quorum.peer_connection import NO_ANSWER, PeerConnection
from broker_core.server.quorum.peer_dialer import PeerDialer

_PAUSE_SECONDS: Final = 0.025
_REGISTRATION_PAUSE_MS: Final = 100
"""A controller that was just elected refuses registrations until its first records are committed."""
_log: Final = logging.getLogger(__name__)


class ControllerSession:
    """`leader` is the active controller's address, None while nobody is known to lead; `metadata_offset` that of the
    last record that was replayed. `on_state` is called with each new state, `on_end` with an unexpected error."""

    def __init__(
        self,
        identity: BrokerIdentity,
        *,
        fs: FileSystem,
        clock: Clock,
        log_dir: str,
        heartbeat_interval_ms: int,
        answer_ms: int,
        leader: Callable[[], BrokerAddress | None],
        dialer: PeerDialer,
        metadata_offset: Callable[[], int],
        on_state: Callable[[LifecycleState], None],
        on_end: Callable[[Exception], None],
    ) -> None:
        self._on_end = on_end
        self._identity, self._fs, self._clock, self._log_dir = identity, fs, clock, log_dir
        self._answer_ms = answer_ms
        self._connection = MovingConnection(leader, dialer)
        self._metadata_offset, self._on_state = metadata_offset, on_state
        self._task: asyncio.Task[None] | None = None
        self.lifecycle = BrokerLifecycle(
            previous_broker_epoch=stored_broker_epoch(fs, log_dir),
            heartbeat_interval_ms=heartbeat_interval_ms,
            registration_pause_ms=_REGISTRATION_PAUSE_MS,
        )

    @property
    def broker_epoch(self) -> int:
        """-1 before the registration."""
        return self.lifecycle.broker_epoch

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._talk())
        self._task.add_done_callback(self._on_over)

    def _on_over(self, task: asyncio.Task[None]) -> None:
        """Without heartbeats the broker is fenced, and would serve on without knowing why."""
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            _log.error("node=%d: the session with the controller ends", self._identity.node_id, exc_info=error)
            self._on_end(error)

    async def leave(self, timeout_seconds: float) -> None:
        """Asks the controller to move what this broker leads; returns when it has, or the time is over."""
        self.lifecycle.stop(self._clock.now_ms())
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=timeout_seconds)

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self._connection.close()

    async def _talk(self) -> None:
        seen: LifecycleState | None = None
        while True:
            if self.lifecycle.state is not seen:
                seen = self.lifecycle.state
                self._on_state(seen)
            if seen is LifecycleState.ENDED:
                return
            now_ms = self._clock.now_ms()
            asked = self.lifecycle.next_request(now_ms, metadata_offset=self._metadata_offset())
            connection = self._connection.current()
            if asked is None or connection is None:
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            try:
                async with asyncio.timeout(self._answer_ms / 1000):
                    await self._ask(connection, asked)
            except (*NO_ANSWER, TimeoutError) as error:
                _log.info("node=%d: controller %s does not answer: %r", *(self._node_id, connection.address, error))
                connection.give_up()
                self.lifecycle.on_no_answer(self._clock.now_ms())

    @property
    def _node_id(self) -> int:
        return self._identity.node_id

    async def _ask(self, connection: PeerConnection, asked: Registration | LifecycleHeartbeat) -> None:
        answer = await ask_once(connection, session_message(asked, self._identity))
        now_ms = self._clock.now_ms()
        if answer is None:
            self.lifecycle.on_no_answer(now_ms)
            return
        take_session_answer(
            self.lifecycle,
            asked,
            answer,
            save_epoch=lambda broker_epoch: write_broker_epoch(self._fs, self._log_dir, broker_epoch),
            now_ms=now_ms,
        )
