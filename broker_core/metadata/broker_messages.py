"""What a broker and the controller say to each other about the broker's life, as Kafka's messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from broker_core.metadata.broker_lifecycle import BrokerLifecycle, LifecycleHeartbeat, Registration
from broker_core.metadata.metadata_version import METADATA_VERSION_FEATURE, METADATA_VERSION_LEVEL
from broker_core.model.client_settings import BrokerAddress, SecurityProtocol
from broker_core.protocol.message_builder import build

_OLDEST_LEVEL: Final = 7
"""3.3, the first metadata.version that Kafka 4 knows."""
FEATURES: Final[Mapping[str, tuple[int, int]]] = {
    METADATA_VERSION_FEATURE: (_OLDEST_LEVEL, METADATA_VERSION_LEVEL),
    "kraft.version": (0, 1),
    "group.version": (0, 1),
    "transaction.version": (0, 2),
    "eligible.leader.replicas.version": (0, 1),
    "share.version": (0, 1),
    "streams.version": (0, 1),
}
"""Levels at which a replica keeps what its leader has: a controller refuses a broker that lacks a finalized one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerIdentity:
    """What a broker says of itself when it registers. `incarnation_id`: of this process; `listeners`: the advertised
    addresses; `protocols`: of the listeners that are not PLAINTEXT."""

    node_id: int
    cluster_id: str
    incarnation_id: UUID
    directory_id: UUID
    listeners: Mapping[str, BrokerAddress]
    rack: str | None
    protocols: Mapping[str, SecurityProtocol] = field(default_factory=dict)


def session_message(asked: Registration | LifecycleHeartbeat, identity: BrokerIdentity) -> Any:
    """The request of a broker's session."""
    if isinstance(asked, LifecycleHeartbeat):
        return _heartbeat(asked, node_id=identity.node_id)
    return _registration(asked, identity)


def take_session_answer(
    lifecycle: BrokerLifecycle,
    asked: Registration | LifecycleHeartbeat,
    answer: Any,
    *,
    save_epoch: Callable[[int], None],
    now_ms: int,
) -> None:
    """Tells the lifecycle of an answer. `save_epoch` comes before it: a registration that is not noted would count as
    a lost directory after the next start."""
    if isinstance(asked, LifecycleHeartbeat):
        lifecycle.on_heartbeat(
            answer.error_code, is_fenced=answer.is_fenced, should_shut_down=answer.should_shut_down, now_ms=now_ms
        )
        return
    if not answer.error_code:
        save_epoch(answer.broker_epoch)
    lifecycle.on_registered(answer.error_code, answer.broker_epoch, now_ms)


def _registration(asked: Registration, identity: BrokerIdentity) -> Any:
    """BrokerRegistration 4: the first whose features may begin at level 0."""
    from kio.schema.broker_registration.v4.request import BrokerRegistrationRequest

    values = {
        "broker_id": identity.node_id,
        "cluster_id": identity.cluster_id,
        "incarnation_id": identity.incarnation_id,
        "listeners": [
            {
                "name": name,
                "host": address.host,
                "port": address.port,
                "security_protocol": identity.protocols.get(name, SecurityProtocol.PLAINTEXT).wire_id,
            }
            for name, address in identity.listeners.items()
        ],
        "features": [
            {"name": name, "min_supported_version": low, "max_supported_version": high}
            for name, (low, high) in FEATURES.items()
        ],
        "rack": identity.rack,
        "is_migrating_zk_broker": False,
        "log_dirs": [identity.directory_id],
        "previous_broker_epoch": asked.previous_broker_epoch,
    }
    return build(BrokerRegistrationRequest, values)


def _heartbeat(asked: LifecycleHeartbeat, *, node_id: int) -> Any:
    """LifecycleHeartbeat 1."""
    from kio.schema.broker_heartbeat.v1.request import BrokerHeartbeatRequest

    values = {
        "broker_id": node_id,
        "broker_epoch": asked.broker_epoch,
        "current_metadata_offset": asked.metadata_offset,
        "want_fence": False,
        "want_shut_down": asked.wants_shutdown,
        "offline_log_dirs": [],
    }
    return build(BrokerHeartbeatRequest, values)
