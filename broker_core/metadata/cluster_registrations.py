"""The brokers and controllers that are registered in the metadata log: only replay changes them.

A registration is the record that made it, with the changes since: incarnation, broker epoch, endpoints, features, rack,
directories, whether it is fenced or in controlled shutdown. A fenced broker stays known until it is unregistered.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final
from uuid import UUID

from broker_core.metadata.metadata_records import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from broker_core.model.exceptions import InconsistentMetadataError

BrokerRecord = (
    RegisterBrokerRecord
    | UnregisterBrokerRecord
    | FenceBrokerRecord
    | UnfenceBrokerRecord
    | BrokerRegistrationChangeRecord
    | RegisterControllerRecord
)

_HALVES: Final = struct.Struct(">qq")
_FENCED: Final = {0: None, 1: True, -1: False}
_IN_SHUTDOWN: Final = {0: None, 1: True}


class ClusterRegistrations:
    """By node id. Registrations never change; a changed broker gets a new one."""

    def __init__(self) -> None:
        self._brokers: dict[int, RegisterBrokerRecord] = {}
        self._controllers: dict[int, RegisterControllerRecord] = {}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ClusterRegistrations):
            return False
        return self._brokers == other._brokers and self._controllers == other._controllers

    __hash__ = None  # type: ignore[assignment]  # it changes

    @property
    def brokers(self) -> Mapping[int, RegisterBrokerRecord]:
        return MappingProxyType(self._brokers)

    @property
    def controllers(self) -> Mapping[int, RegisterControllerRecord]:
        return MappingProxyType(self._controllers)

    def copy(self) -> ClusterRegistrations:
        other = ClusterRegistrations()
        other._brokers, other._controllers = self._brokers.copy(), self._controllers.copy()
        return other

    def replay(self, record: BrokerRecord) -> None:
        """Raises InconsistentMetadataError for a change of a broker that is not registered in that epoch."""
        match record:
            case RegisterBrokerRecord():
                self._brokers[record.broker_id] = replace(record, log_dirs=_sorted(record.log_dirs))
            case UnregisterBrokerRecord():
                self._brokers.pop(record.broker_id, None)
            case FenceBrokerRecord():
                self._brokers[record.id] = replace(self._current(record.id, record.epoch), fenced=True)
            case UnfenceBrokerRecord():
                self._brokers[record.id] = replace(self._current(record.id, record.epoch), fenced=False)
            case BrokerRegistrationChangeRecord():
                self._brokers[record.broker_id] = self._changed(record)
            case RegisterControllerRecord():
                self._controllers[record.controller_id] = record

    def _changed(self, record: BrokerRegistrationChangeRecord) -> RegisterBrokerRecord:
        current = self._current(record.broker_id, record.broker_epoch)
        if record.fenced not in _FENCED or record.in_controlled_shutdown not in _IN_SHUTDOWN:
            raise InconsistentMetadataError(
                f"broker {record.broker_id}: fenced {record.fenced}, in controlled shutdown"
                f" {record.in_controlled_shutdown} are no known changes"
            )
        fenced, in_shutdown = _FENCED[record.fenced], _IN_SHUTDOWN[record.in_controlled_shutdown]
        cordoned = record.cordoned_log_dirs
        return replace(
            current,
            fenced=current.fenced if fenced is None else fenced,
            in_controlled_shutdown=current.in_controlled_shutdown if in_shutdown is None else in_shutdown,
            log_dirs=_sorted(record.log_dirs) if record.log_dirs else current.log_dirs,
            cordoned_log_dirs=current.cordoned_log_dirs if cordoned is None else cordoned,
        )

    def _current(self, broker_id: int, broker_epoch: int) -> RegisterBrokerRecord:
        broker = self._brokers.get(broker_id)
        if broker is None:
            raise InconsistentMetadataError(f"a change of broker {broker_id}, which is not registered")
        if broker.broker_epoch != broker_epoch:
            raise InconsistentMetadataError(
                f"a change of broker {broker_id} in epoch {broker_epoch}, where its epoch is {broker.broker_epoch}"
            )
        return broker


def _sorted(ids: tuple[UUID, ...]) -> tuple[UUID, ...]:
    """In the order of Kafka's Uuid, whose halves are signed numbers."""
    return tuple(sorted(ids, key=lambda each: _HALVES.unpack(each.bytes)))
