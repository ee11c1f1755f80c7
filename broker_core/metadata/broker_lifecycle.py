"""The life of a broker at the controller: it registers, catches up with the metadata log, is unfenced, goes in order.

    REGISTERING ── an epoch ──► FENCED ── caught up, says the controller ──► RUNNING
         │                        │  ◄───────── fenced by the controller ───────┘ │
         │                        └─────────────── asked to stop ────────────────┤
         └── refused for good ──► ENDED ◄── the controller lets it go ── STOPPING ◄┘

A machine: `next_request` is what to ask the controller now; its answer comes back as an event. One request is under
way at a time. The controller compares the heartbeat's metadata offset with that of the registration, so a broker is
unfenced once it has replayed its own registration, not the end of a log that never ends (KAFKA-13955).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kio.schema.errors import ErrorCode

NO_BROKER_EPOCH: Final = -1


class LifecycleState(enum.Enum):
    """What the broker is to the controller, as far as it knows."""

    REGISTERING = enum.auto()
    FENCED = enum.auto()
    """Registered: its replicas follow, none leads."""
    RUNNING = enum.auto()
    STOPPING = enum.auto()
    """Controlled shutdown: the controller moves its leaderships away."""
    ENDED = enum.auto()


REFUSED_FOR_GOOD: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.inconsistent_cluster_id: "the controller belongs to another cluster",
    ErrorCode.invalid_registration: "the controller calls the registration invalid",
    ErrorCode.unsupported_version: "a feature of the cluster is not known to this version",
    ErrorCode.cluster_authorization_failed: "this broker is not allowed to register (CLUSTER_ACTION)",
    ErrorCode.stale_broker_epoch: "another process has registered with this node.id",
    ErrorCode.broker_id_not_registered: "this broker was unregistered",
}
"""DUPLICATE_BROKER_REGISTRATION is none of them: the session of the process before ends after a while."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """Register, and say which registration the directory had before, -1 if none."""

    previous_broker_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleHeartbeat:
    """`metadata_offset` is that of the last record that was replayed."""

    broker_epoch: int
    metadata_offset: int
    wants_shutdown: bool


class BrokerLifecycle:
    """`heartbeat_interval_ms` is broker.heartbeat.interval.ms."""

    def __init__(
        self,
        *,
        previous_broker_epoch: int,
        heartbeat_interval_ms: int = 2000,
        registration_pause_ms: int = 500,
        fenced_interval_ms: int = 100,
    ) -> None:
        self.state = LifecycleState.REGISTERING
        self.broker_epoch = NO_BROKER_EPOCH
        self.refusal: str | None = None
        """Why it ended, if not because it was asked to."""
        self.next_request_ms = 0
        self._previous_broker_epoch = previous_broker_epoch
        self._heartbeat_interval_ms = heartbeat_interval_ms
        self._registration_pause_ms = registration_pause_ms
        self._fenced_interval_ms = fenced_interval_ms

    def next_request(self, now_ms: int, *, metadata_offset: int) -> Registration | LifecycleHeartbeat | None:
        """None: not now, see `next_request_ms`, or never more."""
        if self.state is LifecycleState.ENDED or now_ms < self.next_request_ms:
            return None
        if self.state is LifecycleState.REGISTERING:
            return Registration(previous_broker_epoch=self._previous_broker_epoch)
        return LifecycleHeartbeat(
            broker_epoch=self.broker_epoch,
            metadata_offset=metadata_offset,
            wants_shutdown=self.state is LifecycleState.STOPPING,
        )

    def stop(self, now_ms: int) -> None:
        """A broker that is not registered has nothing to give away."""
        is_registered = self.state is not LifecycleState.REGISTERING
        if self.state is not LifecycleState.ENDED:
            self.state = LifecycleState.STOPPING if is_registered else LifecycleState.ENDED
            self.next_request_ms = now_ms

    def on_registered(self, error: ErrorCode, broker_epoch: int, now_ms: int) -> None:
        """The answer to a Registration."""
        if self._is_refused(error) or self.state is not LifecycleState.REGISTERING:
            return
        if error:
            self.next_request_ms = now_ms + self._registration_pause_ms
        else:
            self.state, self.broker_epoch = LifecycleState.FENCED, broker_epoch
            self.next_request_ms = now_ms

    def on_heartbeat(self, error: ErrorCode, *, is_fenced: bool, should_shut_down: bool, now_ms: int) -> None:
        """The answer to a LifecycleHeartbeat."""
        if self._is_refused(error):
            return
        if error:
            self.on_no_answer(now_ms)
        elif self.state is LifecycleState.STOPPING:
            self.state = LifecycleState.ENDED if should_shut_down else self.state
            self.next_request_ms = now_ms + self._fenced_interval_ms
        else:
            self.state = LifecycleState.FENCED if is_fenced else LifecycleState.RUNNING
            self.next_request_ms = now_ms + (self._fenced_interval_ms if is_fenced else self._heartbeat_interval_ms)

    def on_no_answer(self, now_ms: int) -> None:
        """The controller is gone, or another one leads: the next try finds it."""
        self.next_request_ms = now_ms + self._fenced_interval_ms

    def _is_refused(self, error: ErrorCode) -> bool:
        if error not in REFUSED_FOR_GOOD:
            return False
        self.state, self.refusal = LifecycleState.ENDED, f"{REFUSED_FOR_GOOD[error]}: error {error.name}"
        return True
