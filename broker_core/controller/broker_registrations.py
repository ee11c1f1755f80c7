"""Brokers register, send heartbeats, fall silent, are unregistered; controllers register. As plans.

The broker epoch is the offset at which the records of a registration begin. A new incarnation of a broker takes the
place of the old one: out of every ISR, and where it does not prove with its last epoch that it was shut down cleanly,
out of the eligible leader replicas too (KIP-966).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker_core.controller.broker_life import (
    BrokerSituation,
    BrokerState,
    next_state,
    state_of,
    wish_of,
)
from broker_core.controller.cluster_facts import LOST_DIRECTORY, ClusterFacts
from broker_core.controller.leader_elections import (
    leads,
    plan_directory_loss,
    plan_removal,
    plan_return,
    plan_unclean_removal,
)
from broker_core.coordinator.contract import CoordinatorResult
from broker_core.metadata.metadata_records import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnregisterBrokerRecord,
)
from broker_core.metadata.metadata_version import (
    CORDONED_DIRECTORIES_LEVEL,
    DIRECTORY_ASSIGNMENT_LEVEL,
    METADATA_VERSION_FEATURE,
    register_broker_version,
)
from broker_core.model.exceptions import RequestRefusedError

_RESERVED_IDS: Final = 100
_FENCE, _UNFENCE = 1, -1


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerApplication:
    """A broker that wants to be registered. `previous_epoch` is that of its last clean shutdown, -1 if there was none,
    None in versions that do not say."""

    broker_id: int
    cluster_id: str
    incarnation_id: UUID
    end_points: tuple[BrokerEndpoint, ...] = ()
    features: tuple[BrokerFeature, ...] = ()
    rack: str | None = None
    log_dirs: tuple[UUID, ...] = ()
    previous_epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerHeartbeat:
    """`metadata_offset` is that of the last record that the broker has replayed and acts on."""

    broker_id: int
    broker_epoch: int
    metadata_offset: int
    want_fence: bool = False
    want_stop: bool = False
    offline_log_dirs: tuple[UUID, ...] = ()
    cordoned_log_dirs: tuple[UUID, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerHeartbeatReply:
    is_caught_up: bool
    state: BrokerState


def check_broker_epoch(
    facts: ClusterFacts,
    broker_id: int,
    broker_epoch: int,
    *,
    if_unknown: ErrorCode = ErrorCode.broker_id_not_registered,
) -> RegisterBrokerRecord:
    """The registration. Raises RequestRefusedError with STALE_BROKER_EPOCH or `if_unknown`."""
    broker = facts.image.registrations.brokers.get(broker_id)
    if broker is None:
        raise RequestRefusedError(f"Broker ID {broker_id} is not currently registered", error_code=if_unknown)
    if broker.broker_epoch != broker_epoch:
        raise RequestRefusedError(
            f"Expected broker epoch {broker.broker_epoch}, but got broker epoch {broker_epoch}",
            error_code=ErrorCode.stale_broker_epoch,
        )
    return broker


# Registration


def plan_registration(
    facts: ClusterFacts,
    application: BrokerApplication,
    *,
    cluster_id: str | None,
    next_offset: int,
    has_live_session: Callable[[int, int], bool],
) -> CoordinatorResult[MetadataRecord, int]:
    """The reply is the broker epoch. Raises RequestRefusedError."""
    if cluster_id is not None and application.cluster_id != cluster_id:
        raise RequestRefusedError(
            f"Expected cluster ID {cluster_id}, but got cluster ID {application.cluster_id}",
            error_code=ErrorCode.inconsistent_cluster_id,
        )
    broker_id = application.broker_id
    existing = facts.image.registrations.brokers.get(broker_id)
    is_same = existing is not None and existing.incarnation_id == application.incarnation_id
    if existing is not None and not is_same and has_live_session(broker_id, existing.broker_epoch):
        raise RequestRefusedError(
            "Another broker is registered with that broker id. If the broker was recently restarted this should"
            " self-resolve once the heartbeat manager expires the broker's session.",
            error_code=ErrorCode.duplicate_broker_registration,
        )
    _check_directories(facts, application)
    _check_features(facts, application)
    cleanup: Sequence[MetadataRecord] = () if is_same else _cleanup(facts, application, existing)
    broker_epoch = existing.broker_epoch if existing is not None and is_same else next_offset
    record = RegisterBrokerRecord(
        broker_id=broker_id,
        incarnation_id=application.incarnation_id,
        broker_epoch=broker_epoch,
        end_points=application.end_points,
        features=application.features,
        rack=application.rack,
        fenced=existing.fenced if existing is not None and is_same else True,
        in_controlled_shutdown=existing.in_controlled_shutdown if existing is not None and is_same else False,
        log_dirs=application.log_dirs if facts.level >= DIRECTORY_ASSIGNMENT_LEVEL else (),
        version=register_broker_version(facts.level),
    )
    return CoordinatorResult(records=(*cleanup, record), reply=broker_epoch)


def _cleanup(
    facts: ClusterFacts, application: BrokerApplication, existing: RegisterBrokerRecord | None
) -> Sequence[MetadataRecord]:
    previous, stored = application.previous_epoch, -2 if existing is None else existing.broker_epoch
    is_clean = previous is None or previous == stored
    if is_clean or not facts.has_eligible_leaders:
        return plan_removal(facts, application.broker_id)
    return plan_unclean_removal(facts, application.broker_id)


def _check_directories(facts: ClusterFacts, application: BrokerApplication) -> None:
    if facts.level < DIRECTORY_ASSIGNMENT_LEVEL:
        return
    log_dirs = application.log_dirs
    if not log_dirs:
        raise _invalid("No directories specified in request")
    if any(directory.int < _RESERVED_IDS for directory in log_dirs):
        raise _invalid("Reserved directory ID in request")
    if len(set(log_dirs)) != len(log_dirs):
        raise _invalid("Duplicate directory ID in request")
    for broker_id, broker in facts.image.registrations.brokers.items():
        for directory in log_dirs:
            if broker_id != application.broker_id and directory in broker.log_dirs:
                raise _invalid(f"Broker {broker_id} is already registered with directory {directory}")


def _check_features(facts: ClusterFacts, application: BrokerApplication) -> None:
    supported = {each.name: each for each in application.features}
    if METADATA_VERSION_FEATURE not in supported:
        raise _invalid("Request features do not contain 'metadata.version'")
    for name, level in facts.image.features.items():
        found = supported.get(name)
        lowest, highest = (0, 0) if found is None else (found.min_supported_version, found.max_supported_version)
        if not lowest <= level <= highest:
            raise RequestRefusedError(
                f"Unable to register because the broker does not support finalized version {level} of {name}. The"
                f" broker wants a version between {lowest} and {highest}, inclusive.",
                error_code=ErrorCode.unsupported_version,
            )


def _invalid(message: str) -> RequestRefusedError:
    return RequestRefusedError(message, error_code=ErrorCode.invalid_registration)


# Heartbeats


def plan_heartbeat(
    facts: ClusterFacts,
    heartbeat: BrokerHeartbeat,
    *,
    register_offset: int,
    is_shutdown_known: Callable[[int], bool],
) -> CoordinatorResult[MetadataRecord, BrokerHeartbeatReply]:
    """`register_offset` is that of the record of its registration. Raises RequestRefusedError."""
    broker_id = heartbeat.broker_id
    broker = check_broker_epoch(facts, broker_id, heartbeat.broker_epoch)
    before = state_of(broker)
    is_caught_up = heartbeat.metadata_offset >= register_offset
    situation = BrokerSituation(
        # No record takes back that a process began to stop: fenced meanwhile, it does not return.
        is_caught_up=is_caught_up and not broker.in_controlled_shutdown,
        leads=leads(facts, broker_id),
        is_shutdown_known=before is BrokerState.CONTROLLED_SHUTDOWN and is_shutdown_known(broker_id),
    )
    after = next_state(before, wish_of(want_fence=heartbeat.want_fence, want_stop=heartbeat.want_stop), situation)
    records = [
        *_records_of_change(facts, broker, before, after),
        *_directory_records(facts, broker, heartbeat),
    ]
    reply = BrokerHeartbeatReply(is_caught_up=is_caught_up, state=after)
    return CoordinatorResult(records=tuple(records), reply=reply)


def plan_fencing(facts: ClusterFacts, broker_id: int) -> CoordinatorResult[MetadataRecord, None]:
    """Its session is over. The record that fences it comes last: a controller that fails between two batches of them
    finds the broker still to be fenced."""
    broker = facts.image.registrations.brokers[broker_id]
    return CoordinatorResult(records=tuple(_fencing(facts, broker)), reply=None)


def plan_unregistration(facts: ClusterFacts, broker_id: int) -> CoordinatorResult[MetadataRecord, None]:
    """Also of a live broker. Raises RequestRefusedError with BROKER_ID_NOT_REGISTERED."""
    broker = facts.image.registrations.brokers.get(broker_id)
    if broker is None:
        raise RequestRefusedError(
            f"Broker ID {broker_id} is not currently registered", error_code=ErrorCode.broker_id_not_registered
        )
    gone = UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.broker_epoch)
    return CoordinatorResult(records=(*plan_removal(facts, broker_id), gone), reply=None)


def plan_controller_registration(
    facts: ClusterFacts, record: RegisterControllerRecord
) -> CoordinatorResult[MetadataRecord, None]:
    """One that is known as it is gives no record."""
    known = facts.image.registrations.controllers.get(record.controller_id)
    return CoordinatorResult(records=() if known == record else (record,), reply=None)


def _records_of_change(
    facts: ClusterFacts, broker: RegisterBrokerRecord, before: BrokerState, after: BrokerState
) -> list[MetadataRecord]:
    broker_id, epoch = broker.broker_id, broker.broker_epoch
    match after:
        case BrokerState.UNFENCED if before is BrokerState.FENCED:
            unfence = BrokerRegistrationChangeRecord(
                broker_id=broker_id, broker_epoch=epoch, fenced=_UNFENCE, version=0
            )
            return [unfence, *plan_return(facts, broker_id)]
        case BrokerState.CONTROLLED_SHUTDOWN if before is BrokerState.UNFENCED:
            leaving = BrokerRegistrationChangeRecord(
                broker_id=broker_id, broker_epoch=epoch, in_controlled_shutdown=1, version=1
            )
            return [leaving, *plan_removal(facts, broker_id)]
        case BrokerState.CONTROLLED_SHUTDOWN:
            return list(plan_removal(facts, broker_id))
        case BrokerState.FENCED | BrokerState.SHUTDOWN_NOW if before is not BrokerState.FENCED:
            return _fencing(facts, broker)
        case _:
            return []


def _fencing(facts: ClusterFacts, broker: RegisterBrokerRecord) -> list[MetadataRecord]:
    fence = BrokerRegistrationChangeRecord(
        broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, fenced=_FENCE, version=0
    )
    return [*plan_removal(facts, broker.broker_id), fence]


def _directory_records(
    facts: ClusterFacts, broker: RegisterBrokerRecord, heartbeat: BrokerHeartbeat
) -> list[MetadataRecord]:
    """Directories that went offline, and those where the broker wants no new replicas."""
    found: list[MetadataRecord] = []
    offline = frozenset(heartbeat.offline_log_dirs) & frozenset(broker.log_dirs)
    if offline and facts.level >= DIRECTORY_ASSIGNMENT_LEVEL:
        left = tuple(directory for directory in broker.log_dirs if directory not in offline)
        changed = BrokerRegistrationChangeRecord(
            broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, log_dirs=left or (LOST_DIRECTORY,), version=2
        )
        found += [*plan_directory_loss(facts, broker.broker_id, offline), changed]
    cordoned = heartbeat.cordoned_log_dirs
    if cordoned is not None and cordoned != broker.cordoned_log_dirs and facts.level >= CORDONED_DIRECTORIES_LEVEL:
        found.append(
            BrokerRegistrationChangeRecord(
                broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, cordoned_log_dirs=cordoned, version=3
            )
        )
    return found
