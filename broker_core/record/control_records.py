"""Control records, which a coordinator writes into a data partition. They use offsets and are hidden from readers.

    key    int16 version, int16 type (0 abort, 1 commit, 2 leader change, 3-6 of the metadata quorum)
    value  of an end-transaction marker: int16 version, int32 coordinator epoch

Newer versions may have more fields after these; as in Kafka the known ones are read and the rest is ignored.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass

from typing_extensions import Buffer

from broker_core.model.exceptions import CorruptBatchError
from broker_core.record.batch_builder import build_batch
from broker_core.record.batch_reader import Record, records_of
from broker_core.record.faults import corrupt_batch

_KEY = struct.Struct(">hh")
_MARKER = struct.Struct(">hi")
_VERSION = 0


class ControlType(enum.IntEnum):
    """The types of control records. Readers skip unknown ones, which newer versions may add."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransactionMarker:
    """The end of a producer's transaction in one partition."""

    is_commit: bool
    coordinator_epoch: int


def control_type(key: bytes | None) -> ControlType | None:
    """The type in a control record's key, None for an unknown type or version.

    Raises CorruptBatchError for an invalid key.
    """
    if key is None or len(key) < _KEY.size:
        raise CorruptBatchError(f"control record has a key of {len(key or b'')} bytes instead of {_KEY.size}")
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise CorruptBatchError(f"control record has the key version {version}")
    return ControlType(number) if number in set(ControlType) else None


def read_control_type(buffer: Buffer, position: int = 0) -> ControlType | None:
    """The type of the control batch at `position`, by its first record. None if it is empty or of an unknown type."""
    for record in records_of(buffer, position):
        try:
            return control_type(record.key)
        except CorruptBatchError as error:
            raise corrupt_batch(error.message, position=position, offset=record.offset) from None
    return None


def read_end_transaction_marker(buffer: Buffer, position: int = 0) -> EndTransactionMarker | None:
    """The marker in the control batch at `position`; None if the batch holds no marker. Raises CorruptBatchError."""
    for record in records_of(buffer, position):
        kind = control_type(record.key)
        if kind not in (ControlType.ABORT, ControlType.COMMIT):
            return None
        if record.value is None or len(record.value) < _MARKER.size:
            what = f"end-transaction marker has a value of {len(record.value or b'')} bytes, not {_MARKER.size}"
            raise corrupt_batch(what, position=position, offset=record.offset)
        version, coordinator_epoch = _MARKER.unpack_from(record.value)
        if version < 0:
            raise corrupt_batch(
                f"end-transaction marker has version {version}", position=position, offset=record.offset
            )
        return EndTransactionMarker(is_commit=kind is ControlType.COMMIT, coordinator_epoch=coordinator_epoch)
    return None


def build_end_transaction_marker(
    marker: EndTransactionMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    """The control batch that ends the producer's transaction: one record, no sequence, as Kafka writes it."""
    kind = ControlType.COMMIT if marker.is_commit else ControlType.ABORT
    record = Record(
        key=_KEY.pack(_VERSION, kind),
        value=_MARKER.pack(_VERSION, marker.coordinator_epoch),
        timestamp_ms=timestamp_ms,
    )
    return build_batch(
        [record],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )
