"""Writes the lines of an input to a topic: each line is a value, written at most `linger_s` after it was read.

    read ──► LineSplitter ──► LineRecords ──► TopicProducer.add ··· flush when the input pauses, or the oldest value
                                                                    has waited for `linger_s`, or a batch is full

Stops at the end of the input or at a signal, and then writes what was read. After a signal an incomplete last line is
left out, because its rest is missing.
"""

from __future__ import annotations

import time
from typing import Any, Final

import pyarrow as pa

from broker_core.cli.byte_input import ByteInput
from broker_core.cli.line_splitter import LineSplitter, split_keys
from broker_core.cli.screen import ByteProgress
from broker_core.cli.stop_signals import StopSignals
from broker_core.topic_producer import TopicProducer

PAUSE_SECONDS: Final = 0.1
"""If the input pauses this long, the read values are written: a person who types should not wait for the linger."""

HEADERS_TYPE: Final = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))


class LineRecords:
    """Creates the columns for a block of lines; the options are the same for each."""

    def __init__(self, *, key_separator: bytes | None, headers: list[tuple[str, str]], partition: int | None) -> None:
        self._key_separator = key_separator
        self._headers = [{"key": name, "value": value.encode("utf-8", "surrogateescape")} for name, value in headers]
        self._partition = partition

    def columns(self, lines: Any, *, first_line: int, source: str) -> Any:
        columns: dict[str, Any] = {}
        if self._key_separator is None:
            columns["value"] = lines
        else:
            columns["key"], columns["value"] = split_keys(
                lines, self._key_separator, first_line=first_line, source=source
            )
        if self._headers:
            columns["headers"] = pa.repeat(pa.scalar(self._headers, HEADERS_TYPE), len(lines))
        if self._partition is not None:
            columns["partition"] = pa.repeat(pa.scalar(self._partition, pa.int32()), len(lines))
        return pa.RecordBatch.from_pydict(columns)


class LineWriter:
    """Writes the lines of one input to one topic."""

    def __init__(
        self, topic: str, source: ByteInput, producer: TopicProducer, records: LineRecords, *, linger_s: float
    ) -> None:
        self._topic = topic
        self._source = source
        self._producer = producer
        self._records = records
        self._linger_s = linger_s
        self._splitter = LineSplitter(source.name)
        self._write_at_s = 0.0
        """The deadline to write the oldest value that the producer has buffered."""

    @property
    def read_count(self) -> int:
        """The count of values that were read, written or not."""
        return self._splitter.line_count

    @property
    def written_count(self) -> int:
        """The count of durable values."""
        return self._producer.appended_record_count

    @property
    def unfinished_bytes(self) -> int:
        """The size of an incomplete last line."""
        return self._splitter.unfinished_bytes

    def write_all(self, stop: StopSignals, progress: ByteProgress) -> None:
        """Returns at the end of the input or after a signal; every value that was read is durable then."""
        while stop.received is None:
            if not self._is_readable(stop):
                self._producer.flush()
                continue
            data = self._source.read()
            first_line = self._splitter.line_count + 1
            lines = self._splitter.receive_data(data) if data else self._splitter.finish()
            if len(lines):
                self._add(self._records.columns(lines, first_line=first_line, source=self._source.name))
                progress.advance(len(data))
            if not data:
                break
        self._producer.flush()

    def _add(self, columns: Any) -> None:
        if not self._producer.holds_rows:
            self._write_at_s = time.monotonic() + self._linger_s
        self._producer.add(self._topic, columns)

    def _is_readable(self, stop: StopSignals) -> bool:
        """False if it is time to write the buffered values, and after a signal."""
        if not self._producer.holds_rows:
            return self._source.wait(None, stop_descriptor=stop.descriptor)
        left_s = self._write_at_s - time.monotonic()
        return left_s > 0 and self._source.wait(min(PAUSE_SECONDS, left_s), stop_descriptor=stop.descriptor)
