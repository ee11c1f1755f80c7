"""A coordinator's records as a batch of its log."""

from __future__ import annotations

from functools import partial
from typing import Final, Protocol, TypeVar

from broker_core.model.identifiers import CompressionType
from broker_core.record.batch_builder import build_batch
from broker_core.record.batch_reader import Record

Encoded = TypeVar("Encoded", contravariant=True)

_COMPRESSED_FROM_BYTES: Final = 256 * 1024
"""A batch may not exceed segment.bytes; ids and partitions of thousands of transactions deflate to a twentieth."""


class Encoding(Protocol[Encoded]):
    """Turns a planned record into a record of the log."""

    def __call__(self, record: Encoded, /, *, timestamp_ms: int) -> Record: ...


def build_coordinator_batch(
    records: list[Record], *, producer_id: int = -1, producer_epoch: int = -1, is_transactional: bool = False
) -> bytearray:
    """The records as one batch, compressed if it is large."""
    build = partial(
        build_batch,
        records,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=is_transactional,
    )
    batch = build()
    return batch if len(batch) < _COMPRESSED_FROM_BYTES else build(compression=CompressionType.ZSTD)
