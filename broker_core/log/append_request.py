"""One append as a value, from its caller to the store that writes it.

handlers/produce ─┐
coordinators ─────┼─► Replica ─► AppendQueue ─► WritablePartition ─► PartitionLog.plan_append
embedded ─────────┘            (a group of them)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from broker_core.cluster import AppendResult
from broker_core.log.producer_state import AppendOrigin
from broker_core.model.exceptions import InvalidRecordError, StreamlogError
from broker_core.record.batch_header import ATTRIBUTES_POSITION, COMPRESSION_MASK, BatchHeader, WritableBytes

_BASE_OFFSET: Final = slice(0, 8)
_CODEC_POSITION: Final = ATTRIBUTES_POSITION + 1
"""The lower byte of a batch's attributes."""


def _ignore(_: object) -> None:
    return None


class AppendRequest(NamedTuple):
    """Offsets are written into `batches` in place. `header`: that of the only batch, if it was already read.

    A broker calls `on_done` or `on_error` on its loop; a store returns the outcome instead. A client's batch must have
    base offset 0, as in Kafka, unless `ignores_claimed_offset`. `awaits_replication` (acks=all): `on_done` is called
    when all in-sync replicas have it. `leader_epoch` None: the newest epoch of the log.
    """

    batches: WritableBytes
    origin: AppendOrigin = AppendOrigin.CLIENT
    header: BatchHeader | None = None
    on_done: Callable[[AppendResult], None] = _ignore
    on_error: Callable[[StreamlogError], None] = _ignore
    ignores_claimed_offset: bool = False
    awaits_replication: bool = True
    leader_epoch: int | None = None

    @property
    def size_bytes(self) -> int:
        return len(self.batches)

    @property
    def is_plain(self) -> bool:
        """The first batch is not compressed: its records can be read without decoding. A client's append has only one
        batch; coordinators never compress."""
        batches = self.batches
        return len(batches) > _CODEC_POSITION and not batches[_CODEC_POSITION] & COMPRESSION_MASK

    def require_no_claimed_offset(self, log_name: str) -> None:
        """Raises InvalidRecordError."""
        if self.origin is AppendOrigin.CLIENT and not self.ignores_claimed_offset and any(self.batches[_BASE_OFFSET]):
            claimed = int.from_bytes(self.batches[_BASE_OFFSET], "big", signed=True)
            raise InvalidRecordError(f"{log_name}: the base offset of a produced batch must be 0, not {claimed}")
