"""The errors of a batch, shared by the native kernel, its twin and the readers of single batches.

Kernels raise `KernelFault` with a code and two numbers; `columns` and `batch_reader` know the batch's position and
turn it into one of the project's exceptions by `error_of_fault`.
"""

from __future__ import annotations

import enum

from broker_core.model.exceptions import (
    CorruptBatchError,
    CorruptDataError,
    InvalidRecordError,
    InvalidRequestError,
    RecordTooLargeError,
    StreamlogError,
    UnsupportedFormatError,
)


class Fault(enum.IntEnum):
    """Codes shared with kernel.pyx, which repeats the numbers; a test compares them."""

    HEADER_LENGTH = 1
    LEGACY_MAGIC = 2
    UNKNOWN_MAGIC = 3
    UNKNOWN_CODEC = 4
    CRC = 5
    HEADER_OFFSETS = 6
    RECORD_COUNT = 7
    BATCH_ORDER = 8
    VARINT = 10
    RECORD_LENGTH = 11
    KEY_LENGTH = 13
    VALUE_LENGTH = 14
    HEADER_COUNT = 15
    HEADER_KEY_LENGTH = 16
    HEADER_VALUE_LENGTH = 17
    RECORD_TRAILING = 18
    BATCH_TRAILING = 19
    TIMESTAMP_RANGE = 21
    CHANGED_BUFFER = 22
    ROW_INDEX = 30
    RECORD_TOO_LARGE = 31
    TIMESTAMP_SPAN = 32
    NULL_HEADER_KEY = 33
    TOO_MANY_HEADERS = 34
    ARROW_OFFSETS = 35
    PARTITION_RANGE = 36


FAULT_TEXT: dict[Fault, str] = {
    Fault.HEADER_LENGTH: "batch length {found} is below the {bound} bytes that a v2 header needs",
    Fault.LEGACY_MAGIC: "message format v{found} is older than Kafka 0.11; only v2 record batches are read",
    Fault.UNKNOWN_MAGIC: "magic {found} is not a known message format; v2 batches have magic {bound}",
    Fault.UNKNOWN_CODEC: "compression codec {found} is unknown; codecs are 0 to {bound}",
    Fault.CRC: "checksum of the content is {found:#010x}, the header says {bound:#010x}",
    Fault.HEADER_OFFSETS: "impossible offsets or a negative count in the header (base {found}, last delta {bound})",
    Fault.RECORD_COUNT: "header counts {found} records, but {bound} bytes of content cannot hold them",
    Fault.BATCH_ORDER: "base offset {found} is not above {bound}, the last offset of the previous batch",
    Fault.VARINT: "a variable-length integer does not end or exceeds {bound} bits",
    Fault.RECORD_LENGTH: "a record claims {found} bytes, but only {bound} are left",
    Fault.KEY_LENGTH: "a key claims {found} bytes, but only {bound} are left in its record",
    Fault.VALUE_LENGTH: "a value claims {found} bytes, but only {bound} are left in its record",
    Fault.HEADER_COUNT: "a record claims {found} headers, but only {bound} bytes are left in it",
    Fault.HEADER_KEY_LENGTH: "a header key claims {found} bytes, but only {bound} are left in its record",
    Fault.HEADER_VALUE_LENGTH: "a header value claims {found} bytes, but only {bound} are left in its record",
    Fault.RECORD_TRAILING: "a record has {found} bytes after its last field",
    Fault.BATCH_TRAILING: "{found} bytes follow the last of {bound} records",
    Fault.TIMESTAMP_RANGE: (
        "timestamp {found} ms at offset {bound} is out of the range of microseconds; was it written in another unit?"
    ),
    Fault.CHANGED_BUFFER: "the buffer was changed while it was decoded",
    Fault.ROW_INDEX: "row index {found} is outside the {bound} rows",
    Fault.RECORD_TOO_LARGE: "the record of row {found} has {bound} bytes, more than a batch can hold",
    Fault.TIMESTAMP_SPAN: "timestamp {found} ms is too far from its batch's first, {bound} ms",
    Fault.NULL_HEADER_KEY: "a header key of row {found} is null; Kafka allows null header values only",
    Fault.TOO_MANY_HEADERS: "the record of row {found} has {bound} headers, more than limits.MAX_RECORD_HEADER_COUNT",
    Fault.ARROW_OFFSETS: "the Arrow column is invalid at row {found}: its offsets do not ascend within its data",
    Fault.PARTITION_RANGE: "partition {found} does not exist; the topic has {bound} partitions",
}

_KINDS: dict[Fault, type[StreamlogError]] = {
    Fault.LEGACY_MAGIC: UnsupportedFormatError,
    Fault.UNKNOWN_CODEC: UnsupportedFormatError,
    Fault.TIMESTAMP_RANGE: UnsupportedFormatError,
    Fault.RECORD_TOO_LARGE: RecordTooLargeError,
    Fault.TIMESTAMP_SPAN: InvalidRecordError,
    Fault.NULL_HEADER_KEY: InvalidRecordError,
    Fault.TOO_MANY_HEADERS: InvalidRecordError,
    Fault.PARTITION_RANGE: InvalidRecordError,
    Fault.ROW_INDEX: InvalidRequestError,
    Fault.ARROW_OFFSETS: InvalidRequestError,
}


class KernelFault(Exception):
    """Raised only by kernels. `row` is a row of the batch table on reading, -1 if the caller knows the batch."""

    def __init__(self, fault: int, *, row: int = -1, found: int = 0, bound: int = 0) -> None:
        super().__init__(fault, row, found, bound)
        self.fault = Fault(fault)
        self.row = row
        self.found = found
        self.bound = bound

    @property
    def what(self) -> str:
        return FAULT_TEXT[self.fault].format(found=self.found, bound=self.bound)


def corrupt_batch(what: str, *, position: int, offset: int, file: str | None = None) -> CorruptBatchError:
    """The error for a batch at byte `position` (of `file`, or else of the buffer) with base offset `offset`."""
    return CorruptBatchError(
        _located(what, position, offset, file), what=what, position=position, offset=offset, file=file
    )


def error_of_fault(fault: KernelFault, *, position: int, offset: int, file: str | None = None) -> StreamlogError:
    """The project's exception for a kernel's fault in the batch at `position` with base offset `offset`."""
    kind = _KINDS.get(fault.fault, CorruptBatchError)
    if not issubclass(kind, CorruptDataError):
        return kind(fault.what)
    # Concerns a single record; the rest of its batch is valid.
    of_record = {"record_offset": fault.bound} if fault.fault is Fault.TIMESTAMP_RANGE else {}
    return kind(
        _located(fault.what, position, offset, file),
        what=fault.what,
        position=position,
        offset=offset,
        file=file,
        **of_record,
    )


def relocated(error: CorruptDataError, *, file: str, shift_bytes: int = 0) -> CorruptDataError:
    """The same error for a buffer read from `file` at byte `shift_bytes`. Other errors are returned unchanged."""
    what = error.fields.get("what")
    if what is None:
        return error
    position = error.fields["position"] + shift_bytes
    offset = error.fields["offset"]
    return type(error)(_located(what, position, offset, file), what=what, position=position, offset=offset, file=file)


def _located(what: str, position: int, offset: int, file: str | None) -> str:
    place = f"{file}, position {position}" if file else f"position {position} of the buffer"
    return f"{what} (batch at {place}, base offset {offset})"
