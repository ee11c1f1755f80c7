"""The interface of the native kernel and its slow twin, and the tables that they exchange.

A kernel walks bytes and fills buffers that its caller allocated. It uses neither Arrow nor the project's exceptions
(it raises KernelFault). Buffers are any objects with the buffer protocol; numbers in them are little-endian or
native, as in Arrow.

The batch table has one row of 16 int64 per batch, see `Cell`. `scan_batches` writes it with `PAYLOAD_BUFFER` 0, the
scanned buffer itself. The caller points the rows of compressed batches at inflated payloads, and hides batches from
`measure_records` and `fill_records` by `PAYLOAD_BUFFER` -1. Control batches never produce rows.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from typing_extensions import Buffer

TABLE_COLUMN_COUNT = 16
HIDDEN = -1
MAX_INT64 = 2**63 - 1
TIMESTAMP_MS_LIMIT = MAX_INT64 // 1000
"""The largest absolute timestamp that fits into microseconds of 64 bits."""


class Cell(enum.IntEnum):
    """Columns of the batch table."""

    POSITION = 0
    SIZE_BYTES = 1
    BASE_OFFSET = 2
    LAST_OFFSET_DELTA = 3
    ATTRIBUTES = 4
    BASE_TIMESTAMP = 5
    MAX_TIMESTAMP = 6
    PRODUCER_ID = 7
    PRODUCER_EPOCH = 8
    BASE_SEQUENCE = 9
    RECORD_COUNT = 10
    LEADER_EPOCH = 11
    PAYLOAD_BUFFER = 12
    PAYLOAD_START = 13
    PAYLOAD_END = 14
    CRC = 15


class ScanFault(NamedTuple):
    """The reason of a scan that stopped before the end: the batch at `position` is invalid."""

    fault: int
    position: int
    base_offset: int
    found: int
    bound: int


class Measured(NamedTuple):
    """The totals of the wanted records of a table.

    `batches_done` is the count of completed rows of the table; `next_offset` is the first offset that is not completed.
    `header_lists` is the count of records with at least one header. The last four cover every wanted record, for
    inspection.
    """

    row_count: int
    batches_done: int
    next_offset: int
    key_bytes: int
    key_nulls: int
    value_bytes: int
    value_nulls: int
    header_lists: int
    header_count: int
    header_key_bytes: int
    header_value_bytes: int
    header_value_nulls: int
    has_wide_header_keys: int
    max_timestamp: int
    max_timestamp_offset: int
    gap_count: int


class Outputs(NamedTuple):
    """Writable buffers for `fill_records`, of exactly the measured sizes; None for unwanted columns.

    Validity bitmaps are None if there are no nulls. `timestamps` are in microseconds.
    """

    offsets: Buffer | None = None
    timestamps: Buffer | None = None
    timestamp_types: Buffer | None = None
    key_validity: Buffer | None = None
    key_offsets: Buffer | None = None
    key_data: Buffer | None = None
    value_validity: Buffer | None = None
    value_offsets: Buffer | None = None
    value_data: Buffer | None = None
    list_validity: Buffer | None = None
    list_offsets: Buffer | None = None
    header_key_offsets: Buffer | None = None
    header_key_data: Buffer | None = None
    header_value_validity: Buffer | None = None
    header_value_offsets: Buffer | None = None
    header_value_data: Buffer | None = None


class BinaryColumn(NamedTuple):
    """An Arrow binary array: offsets of `offset_width` (4 or 8) bytes, the first row at index `start`."""

    validity: Buffer | None
    offsets: Buffer
    data: Buffer | None
    start: int
    offset_width: int


class NumberColumn(NamedTuple):
    """An Arrow array of int64 (timestamps in ms) or int32 (partitions), the first row at index `start`."""

    validity: Buffer | None
    data: Buffer
    start: int


class HeaderColumn(NamedTuple):
    """An Arrow list<struct<key, value>>: int32 list offsets into the two child columns."""

    validity: Buffer | None
    offsets: Buffer
    start: int
    keys: BinaryColumn
    values: BinaryColumn


class RecordColumns(NamedTuple):
    """Rows to encode. A missing column is null throughout; a null timestamp is `default_timestamp_ms`.

    `rows` are int32 row indices, taken in their order; without them all of `row_count` rows are.
    """

    row_count: int
    key: BinaryColumn | None
    value: BinaryColumn | None
    timestamp: NumberColumn | None
    headers: HeaderColumn | None
    rows: Buffer | None
    default_timestamp_ms: int


class BatchStamp(NamedTuple):
    """The header fields of each written batch besides its records. `base_sequence` -1: no sequences."""

    attributes: int
    producer_id: int
    producer_epoch: int
    base_sequence: int


class Kernel(Protocol):
    """The functions of both kernels. All raise KernelFault and change nothing except their outputs."""

    KERNEL_NAME: str

    def scan_batches(
        self,
        buffer: Buffer,
        position: int,
        from_offset: int,
        until_offset: int,
        max_bytes: int,
        check_crc: bool,
    ) -> tuple[bytearray, int, tuple[int, int, int, int, int] | None]:
        """(batch table, position after the last batch in it, ScanFault or None).

        Batches completely below `from_offset` are skipped; only their headers are checked. Stops at `until_offset`,
        before an incomplete batch, before a fault, and before exceeding `max_bytes` of batches (at least one batch).
        """
        ...

    def measure_records(
        self, payloads: Sequence[Buffer], table: Buffer, from_offset: int, until_offset: int, max_rows: int
    ) -> tuple[int, ...]:
        """`Measured` of the records in [from_offset, until_offset), at most `max_rows`. Checks all bytes that it
        walks."""
        ...

    def inspect_plain(self, batch: Buffer) -> tuple[int, int] | None:
        """(largest timestamp of the records in ms, count of those without a key), if `batch` is exactly one plain
        batch: format 2, uncompressed data with create time, a correct CRC, and well-formed records, as many as its
        header says, with offset deltas 0, 1, 2, … None for all others, which need a full check."""
        ...

    def find_refused(
        self, payload: Buffer, row: Buffer, needs_key: bool, earliest_ms: int, latest_ms: int, max_count: int
    ) -> list[tuple[int, bool, int]]:
        """(index, whether it has no key, timestamp in ms) of the first `max_count` records without a key (if
        `needs_key`) or with a timestamp outside of the range. `row`: the batch's row of a table. -1 is no timestamp."""
        ...

    def fill_records(
        self,
        payloads: Sequence[Buffer],
        table: Buffer,
        from_offset: int,
        until_offset: int,
        row_count: int,
        outputs: Outputs,
    ) -> None:
        """Writes the measured `row_count` records. Raises KernelFault(CHANGED_BUFFER) rather than overrun an output."""
        ...

    def plan_batches(self, columns: RecordColumns, max_batch_bytes: int) -> bytearray:
        """Rows of four int64 per batch to write: record count, size in bytes, base timestamp, max timestamp."""
        ...

    def new_buffer(self, size: int) -> bytearray:
        """Bytes of any content, for `write_batches` to fill: clearing megabytes first would cost as much as writing."""
        ...

    def write_batches(
        self, columns: RecordColumns, plan: Buffer, stamp: BatchStamp, with_crc: bool, output: Buffer
    ) -> None:
        """Writes the planned batches consecutively, with base offsets from 0 and uncompressed records."""
        ...

    def assign_partitions(
        self,
        row_count: int,
        key: BinaryColumn | None,
        explicit: NumberColumn | None,
        partition_count: int,
        sticky: int,
        output: Buffer,
    ) -> None:
        """int32 per row: the explicit partition, or else the key's by murmur2, or else `sticky`."""
        ...

    def group_rows(
        self, partitions: Buffer, row_count: int, partition_count: int, rows: Buffer, bounds: Buffer
    ) -> None:
        """Stable counting sort: int32 `rows` by partition; int64 `bounds` (count + 1) are the starts of each."""
        ...

    def murmur2(self, data: Buffer) -> int:
        """Java Kafka's hash, signed."""
        ...

    def mark_keys(self, row_count: int, key: BinaryColumn, blocks: Buffer) -> None:
        """Sets the bits of every non-null key in the blocks of a key filter, see `key_places`."""
        ...
