"""The broker's session with the active controller: registration and heartbeats, in a thread of their own, so that
nothing else can make them late."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final
from uuid import UUID

from broker_core.client.connection_pool import ConnectionPool
from broker_core.client.deadline import Deadline
from broker_core.client.replica_settings import ReplicaSettings
from broker_core.log_directory.broker_epoch import stored_broker_epoch, write_broker_epoch
from broker_core.metadata.broker_lifecycle import BrokerLifecycle, LifecycleHeartbeat, LifecycleState, Registration
from broker_core.metadata.broker_messages import BrokerIdentity, session_message, take_session_answer
from broker_core.model.client_settings import BrokerAddress, ClientSettings
from broker_core.model.exceptions import RemoteError
from broker_core.ports import Clock, FileSystem
from broker_core.raft.quorum_values import ReplicaIdentity

_log: Final = logging.getLogger(__name__)

_ANSWER_MS: Final = 4500
"""Half of Kafka's broker.session.timeout.ms: a controller that does not answer is given up in time to ask another."""
_PAUSE_SECONDS: Final = 0.025


class BrokerSession:
    """`controller` is the active one as the metadata log tells, None before it does; `metadata_offset` that of the last
    record that was replayed. `on_end` is called in the thread if it cannot go on."""

    def __init__(
        self,
        settings: ReplicaSettings,
        identity: ReplicaIdentity,
        *,
        fs: FileSystem,
        clock: Clock,
        incarnation_id: UUID,
        controller: Callable[[], BrokerAddress | None],
        metadata_offset: Callable[[], int],
        on_state: Callable[[LifecycleState], None],
        on_end: Callable[[Exception], None],
    ) -> None:
        assert identity.cluster_id is not None, "a broker registers in a cluster that it knows"
        self._settings, self._fs, self._clock = settings, fs, clock
        self._identity = BrokerIdentity(
            node_id=settings.node_id,
            cluster_id=identity.cluster_id,
            incarnation_id=incarnation_id,
            directory_id=identity.directory_id,
            listeners={settings.listener: settings.address},
            rack=settings.rack,
        )
        self._controller, self._metadata_offset = controller, metadata_offset
        self._on_state, self._on_end = on_state, on_end
        self._lock = threading.Lock()
        self._is_abandoned = False
        self._lifecycle = BrokerLifecycle(
            previous_broker_epoch=stored_broker_epoch(fs, settings.log_dir),
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
        )
        self._thread = threading.Thread(target=self._run, name="broker-session", daemon=True)
        self._thread.start()

    @property
    def broker_epoch(self) -> int:
        """-1 before the registration."""
        return self._lifecycle.broker_epoch

    @property
    def state(self) -> LifecycleState:
        return self._lifecycle.state

    @property
    def refusal(self) -> str | None:
        return self._lifecycle.refusal

    def stop(self) -> None:
        """Asks the controller to let this broker go; `state` is ENDED when it has."""
        with self._lock:
            if self._lifecycle.state is not LifecycleState.STOPPING:
                self._lifecycle.stop(self._clock.now_ms())

    def abandon(self) -> None:
        """Says nothing more: the session ends by its timeout."""
        self._is_abandoned = True
        self._thread.join(_ANSWER_MS / 1000)

    def _run(self) -> None:
        try:
            self._talk()
        except Exception as error:
            _log.exception("node=%d: the session with the controller ends", self._settings.node_id)
            self._on_end(error)

    def _talk(self) -> None:
        pool = ConnectionPool(
            ClientSettings(bootstrap_servers=self._settings.controllers, client_id="streamlog-broker")
        )
        seen: LifecycleState | None = None
        while not self._is_abandoned and self._lifecycle.state is not LifecycleState.ENDED:
            if self._lifecycle.state is not seen:
                seen = self._lifecycle.state
                self._on_state(seen)
            address = self._controller()
            with self._lock:
                offset = self._metadata_offset()
                asked = self._lifecycle.next_request(self._clock.now_ms(), metadata_offset=offset)
            if asked is None or address is None:
                time.sleep(_PAUSE_SECONDS)
                continue
            try:
                self._ask(pool, address, asked)
            except RemoteError as error:
                _log.info("node=%d: controller %s does not answer: %s", self._settings.node_id, address, error)
                with self._lock:
                    self._lifecycle.on_no_answer(self._clock.now_ms())
        pool.close()

    def _ask(self, pool: ConnectionPool, address: BrokerAddress, asked: Registration | LifecycleHeartbeat) -> None:
        deadline = Deadline(_ANSWER_MS, setting="broker.session.timeout.ms")
        (answer,) = pool.connection(address, deadline).ask([session_message(asked, self._identity)], deadline)
        settings = self._settings
        with self._lock:
            take_session_answer(
                self._lifecycle,
                asked,
                answer,
                save_epoch=lambda broker_epoch: write_broker_epoch(self._fs, settings.log_dir, broker_epoch),
                now_ms=self._clock.now_ms(),
            )
