"""Record batches to Arrow columns and back: the fast path of readers and writers, in one place to import from.

    decode(buffer, from_offset=…)            batches of a fetched buffer -> one Arrow record batch, and next position
    encode(record_batch, …)                  Arrow rows -> record batches to append
    partition_rows(…), group_rows(…)         which partition each row goes to; the rows of each partition
    partition_for_key                        the same for one key
    AbortedFilter                            hides aborted transactions; one per sequential read of a partition

The native kernel does the work, or its slow twin if that was not built or STREAMLOG_PURE_KERNEL=1 is set;
`KERNEL_NAME` is the one in use. No function here keeps state, and none creates a Python object per record.
"""

from __future__ import annotations

from broker_core.record.aborted_filter import AbortedFilter
from broker_core.record.active_kernel import KERNEL_NAME
from broker_core.record.batch_decoder import DEFAULT_COLUMNS, DecodedBatches, decode
from broker_core.record.batch_encoder import EncodedBatches, Producer, encode
from broker_core.record.column_buffers import ALL_COLUMNS, DECODED_SCHEMA
from broker_core.record.partitioner import partition_for_key
from broker_core.record.row_partitioning import group_rows, partition_rows

__all__ = [
    "ALL_COLUMNS",
    "DECODED_SCHEMA",
    "DEFAULT_COLUMNS",
    "KERNEL_NAME",
    "AbortedFilter",
    "DecodedBatches",
    "EncodedBatches",
    "Producer",
    "decode",
    "encode",
    "group_rows",
    "partition_for_key",
    "partition_rows",
]
