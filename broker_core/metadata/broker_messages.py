"""What a broker and the controller say to each other about the broker's life, as Kafka's messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from broker_core.metadata.broker_lifecycle import LifecycleHeartbeat, Registration
from broker_core.metadata.metadata_version import METADATA_VERSION_FEATURE, METADATA_VERSION_LEVEL
from broker_core.model.client_settings import BrokerAddress
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
_PLAINTEXT: Final = 0


def registration_message(
    asked: Registration,
    *,
    node_id: int,
    cluster_id: str,
    incarnation_id: UUID,
    directory_id: UUID,
    listeners: Mapping[str, BrokerAddress],
    rack: str | None,
) -> Any:
    """BrokerRegistration 4: the first whose features may begin at level 0."""
    from kio.schema.broker_registration.v4.request import BrokerRegistrationRequest

    values = {
        "broker_id": node_id,
        "cluster_id": cluster_id,
        "incarnation_id": incarnation_id,
        "listeners": [
            {"name": name, "host": address.host, "port": address.port, "security_protocol": _PLAINTEXT}
            for name, address in listeners.items()
        ],
        "features": [
            {"name": name, "min_supported_version": low, "max_supported_version": high}
            for name, (low, high) in FEATURES.items()
        ],
        "rack": rack,
        "is_migrating_zk_broker": False,
        "log_dirs": [directory_id],
        "previous_broker_epoch": asked.previous_broker_epoch,
    }
    return build(BrokerRegistrationRequest, values)


def heartbeat_message(asked: LifecycleHeartbeat, *, node_id: int) -> Any:
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
