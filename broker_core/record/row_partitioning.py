"""The partition of each row of an Arrow column, and the rows of each partition."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from broker_core.record.active_kernel import KERNEL
from broker_core.record.column_input import index_buffer, key_or_value_column, partition_column
from broker_core.record.faults import KernelFault, error_of_fault
from broker_core.record.kernel_protocol import Kernel


def partition_rows(
    row_count: int,
    *,
    partition_count: int,
    sticky: int,
    key: Any = None,
    explicit: Any = None,
    kernel: Kernel = KERNEL,
) -> pa.Int32Array:
    """A partition per row: the `explicit` column's where it is not null, else by the key's hash, else `sticky`.

    `key` and `explicit` are Arrow arrays of `row_count` rows, or None. Raises InvalidRecordError for an explicit
    partition that the topic does not have.
    """
    assert partition_count > 0 and 0 <= sticky < partition_count, f"sticky {sticky} of {partition_count} partitions"
    keys = None if key is None else key_or_value_column("key", key)
    chosen = None if explicit is None else partition_column(explicit)
    output = pa.allocate_buffer(4 * row_count)
    try:
        kernel.assign_partitions(row_count, keys, chosen, partition_count, sticky, output)
    except KernelFault as fault:
        raise error_of_fault(fault, position=0, offset=-1) from None
    return pa.Array.from_buffers(pa.int32(), row_count, [None, output], 0)


def group_rows(partitions: pa.Int32Array, partition_count: int, *, kernel: Kernel = KERNEL) -> list[pa.Int32Array]:
    """The row indices of each partition, ascending, as slices of one array; empty for a partition without rows."""
    row_count = len(partitions)
    rows = pa.allocate_buffer(4 * row_count)
    bounds = memoryview(bytearray(8 * (partition_count + 1))).cast("q")
    try:
        kernel.group_rows(index_buffer(partitions), row_count, partition_count, rows, bounds)
    except KernelFault as fault:
        raise error_of_fault(fault, position=0, offset=-1) from None
    grouped = pa.Array.from_buffers(pa.int32(), row_count, [None, rows], 0)
    return [grouped.slice(bounds[p], bounds[p + 1] - bounds[p]) for p in range(partition_count)]
