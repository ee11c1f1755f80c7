"""Walks over the batches of one segment file by their headers, and reads few bytes.

A header has the length of its batch, so a walk reads a chunk, parses the headers in it, and skips the contents. Every
error names file, position and offset. A length is checked against the file's end before it sizes anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from broker_core.log.batch_validation import read_marker
from broker_core.model.exceptions import CorruptBatchError, CorruptDataError
from broker_core.model.limits import MAX_OFFSET
from broker_core.ports import File
from broker_core.record.batch_header import HEADER_BYTES, LENGTH_PREFIX_BYTES, BatchHeader, compute_crc, read_header
from broker_core.record.control_records import EndTransactionMarker
from broker_core.record.faults import corrupt_batch, relocated

_CHUNK_BYTES = 16 * 1024


def walk_headers(
    file: File,
    *,
    position: int,
    until_position: int,
    min_offset: int = 0,
    dense_from: int = MAX_OFFSET,
    end_offset: int | None = None,
) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each batch in [position, until_position), CRCs unchecked.

    The first batch begins at `min_offset` or above, each other one at the end of the one before or above. From
    `dense_from` on, where compaction removed nothing, each begins exactly there, and the last one ends at `end_offset`.
    Raises CorruptBatchError or UnsupportedFormatError for an invalid header, one that breaks these rules, or a batch
    that reaches beyond `until_position`.
    """
    chunk = b""
    chunk_position = position
    last: tuple[int, BatchHeader] | None = None
    try:
        while position < until_position:
            at = position - chunk_position
            if at + HEADER_BYTES > len(chunk):
                chunk = file.read_at(position, min(_CHUNK_BYTES, until_position - position))
                chunk_position, at = position, 0
            try:
                header = read_header(chunk, at)
            except CorruptDataError as error:
                raise relocated(error, file=file.path, shift_bytes=chunk_position) from None
            check_placement(
                file.path,
                position,
                header,
                until_position=until_position,
                min_offset=min_offset,
                dense_from=dense_from,
                end_offset=end_offset,
            )
            yield position, header
            last = (position, header)
            position += header.size_bytes
            min_offset = header.next_offset
        if end_offset is not None and min_offset >= dense_from and min_offset != end_offset:
            raise corrupt_batch(
                f"the segment ends at offset {min_offset}, but the log continues at {end_offset}",
                position=last[0] if last else position,
                offset=last[1].base_offset if last else min_offset,
                file=file.path,
            )
    except CorruptDataError:
        if last is not None:
            # A wrong length or last offset shows at the next batch: name the one that is damaged.
            read_batch(file, *last)
        raise


def check_placement(
    path: str,
    position: int,
    header: BatchHeader,
    *,
    until_position: int,
    min_offset: int,
    dense_from: int = MAX_OFFSET,
    end_offset: int | None = None,
) -> None:
    """Raises CorruptBatchError when the batch cannot be at this position: the CRC covers neither offset nor length."""
    if position + header.size_bytes > until_position:
        raise corrupt_batch(
            f"the batch claims {header.size_bytes} bytes, but only {until_position - position} are left",
            position=position,
            offset=header.base_offset,
            file=path,
        )
    # While a compaction is put in place, a cleaned segment may overlap its source segments.
    if end_offset is not None and min_offset >= dense_from and header.next_offset > end_offset:
        raise corrupt_batch(
            f"last offset {header.last_offset} is not below {end_offset}, where the log continues",
            position=position,
            offset=header.base_offset,
            file=path,
        )
    if header.base_offset < min_offset or (min_offset >= dense_from and header.base_offset != min_offset):
        raise corrupt_batch(
            f"base offset {header.base_offset} is not {min_offset}, the next offset of the log",
            position=position,
            offset=header.base_offset,
            file=path,
        )


def read_batch(file: File, position: int, header: BatchHeader) -> bytes:
    """The whole batch, CRC-checked. Its length must have been checked against the file's end (`walk_headers`)."""
    data = file.read_at(position, header.size_bytes)
    if len(data) < header.size_bytes:
        raise corrupt_batch(
            f"the file ends {header.size_bytes - len(data)} bytes before the end of the batch",
            position=position,
            offset=header.base_offset,
            file=file.path,
        )
    check_content(file.path, position, header, data, 0)
    return data


def check_content(path: str, position: int, header: BatchHeader, buffer: bytes | memoryview, at: int) -> None:
    """Raises CorruptBatchError if the CRC of the batch at `at` of `buffer` is wrong. `position`: its place in the
    file."""
    crc = compute_crc(buffer, at, header.size_bytes)
    if crc != header.crc:
        raise corrupt_batch(
            f"checksum of the content is {crc:#010x}, the header says {header.crc:#010x}",
            position=position,
            offset=header.base_offset,
            file=path,
        )


def marker_at(file: File, position: int, header: BatchHeader) -> EndTransactionMarker | None:
    """The end-transaction marker in the batch at `position`; None for data and other control batches."""
    if not header.is_control or not header.is_transactional:
        return None
    try:
        return read_marker(read_batch(file, position, header), 0, header)
    except CorruptBatchError as error:
        raise error if error.fields.get("file") else relocated(error, file=file.path, shift_bytes=position) from None


def offset_behind(file: File, position: int, *, until_position: int, end_offset: int) -> int | None:
    """Where the log continues behind the damaged batch at `position`; None if its length is damaged too.

    The CRC does not cover the length. It is trusted if it leads to a valid batch, or from header to header up to
    `until_position`, where the log continues at `end_offset`.
    """
    continues_at: int | None = None
    try:
        prefix = file.read_at(position, LENGTH_PREFIX_BYTES)
        end = position + LENGTH_PREFIX_BYTES + int.from_bytes(prefix[8:], "big", signed=True)
        if end < position + HEADER_BYTES:
            return None
        while end < until_position:
            header = read_header(file.read_at(end, min(HEADER_BYTES, until_position - end)))
            if header.base_offset >= end_offset or end + header.size_bytes > until_position:
                return None
            continues_at = header.base_offset if continues_at is None else continues_at
            if compute_crc(file.read_at(end, header.size_bytes), 0, header.size_bytes) == header.crc:
                return continues_at
            end += header.size_bytes
    except CorruptDataError:
        return None
    return (end_offset if continues_at is None else continues_at) if end == until_position else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidPrefix:
    """How far a part of a segment has whole batches with a valid CRC, and what follows them (None: nothing)."""

    end_position: int
    next_offset: int
    problem: CorruptDataError | None
    is_followed_by_batches: bool
    """A good batch follows the first bad one: damage, not a tail that a crash tore."""


def valid_prefix(
    file: File, *, position: int, until_position: int, min_offset: int, dense_from: int = MAX_OFFSET
) -> ValidPrefix:
    """Reads [position, until_position) and checks every CRC, one batch in memory at a time."""
    next_offset = min_offset
    walk = walk_headers(
        file, position=position, until_position=until_position, min_offset=min_offset, dense_from=dense_from
    )
    at, header = position, None
    try:
        for at, header in walk:
            read_batch(file, at, header)
            position, next_offset = at + header.size_bytes, header.next_offset
    except CorruptDataError as problem:
        is_followed = (
            header is not None
            and at == position
            and _is_batch_at(file, at + header.size_bytes, until_position=until_position, min_offset=header.next_offset)
        )
        return ValidPrefix(
            end_position=position, next_offset=next_offset, problem=problem, is_followed_by_batches=is_followed
        )
    return ValidPrefix(end_position=position, next_offset=next_offset, problem=None, is_followed_by_batches=False)


def _is_batch_at(file: File, position: int, *, until_position: int, min_offset: int) -> bool:
    try:
        found = next(walk_headers(file, position=position, until_position=until_position, min_offset=min_offset), None)
        if found is not None:
            read_batch(file, *found)
    except CorruptDataError:
        return False
    return found is not None
