"""Reads every range of a partition and checks it, for `streamlog log dump` and `log verify`.

A damaged range is one finding with object and position; the walk continues with the next range. Nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from broker_core.model.exceptions import CorruptDataError, ObjectNotFoundError, ObjectStoreUnavailableError
from broker_core.model.identifiers import TopicPartition
from broker_core.object_cluster.batch_fetcher import BatchFetcher
from broker_core.object_cluster.object_lookups import partition_of
from broker_core.object_cluster.shared_log import SharedLog
from broker_core.object_log.data_range import DataRange, PlacedRange
from broker_core.object_log.log_image import LogImage
from broker_core.object_log.range_filter import filter_problem
from broker_core.object_log.read_plan import PlannedRead, planned_read
from broker_core.record.batch_reader import inspect_records, iter_headers
from broker_core.storage.verification import DumpedBatch, Finding


class InspectedRange(NamedTuple):
    """One range: its batches with their bytes as they are in the log, and the errors in it."""

    size_bytes: int
    batches: tuple[tuple[DumpedBatch, memoryview], ...]
    findings: tuple[Finding, ...]


class RangeInspection:
    """Inspects one log. Findings have the object relative to the log and positions in its bytes."""

    def __init__(self, log: SharedLog, fetcher: BatchFetcher) -> None:
        self._log = log
        self._fetcher = fetcher

    def ranges(self, partition: TopicPartition) -> Iterator[InspectedRange]:
        """In offset order. Raises UnknownTopicError, UnknownPartitionError, and errors of the store."""

        def plan_all(image: LogImage) -> list[PlacedRange]:
            _, found = partition_of(image, partition)
            return list(found.ranges)

        for placed in self._log.read(plan_all):
            yield self._inspect(planned_read(placed), placed.data)

    def _inspect(self, read: PlannedRead, data_range: DataRange) -> InspectedRange:
        try:
            data = memoryview(self._fetcher.read_range(read))
        except (CorruptDataError, ObjectNotFoundError) as error:
            offset = int(error.fields.get("offset", read.base_offset))
            if not read.base_offset <= offset < read.end_offset:  # the damage is in the offset itself
                offset = read.base_offset
            position = int(error.fields.get("position", read.position))
            what = str(error.fields.get("what", error.message))
            return InspectedRange(read.size_bytes, (), (_damage(read, position, offset, what),))
        batches: list[tuple[DumpedBatch, memoryview]] = []
        findings: list[Finding] = []
        for start, header in iter_headers(data):
            problem = None
            try:
                inspect_records(data, start, header=header)
            except CorruptDataError as error:
                problem = str(error.fields.get("what", error.message))
                findings.append(_damage(read, read.position + start, header.base_offset, problem))
            batch = DumpedBatch(file=read.object, position=read.position + start, header=header, problem=problem)
            batches.append((batch, data[start : start + header.size_bytes]))
        if not findings:
            findings += self._inspect_filter(read, data_range, data)
        return InspectedRange(read.size_bytes, tuple(batches), tuple(findings))

    def _inspect_filter(self, read: PlannedRead, data: DataRange, batches: memoryview) -> Iterator[Finding]:
        if not data.filter_bytes:
            return
        position = read.position + read.size_bytes
        try:
            stored = self._fetcher.read_bytes(read.object, position, data.filter_bytes)
        except ObjectStoreUnavailableError:
            stored = b""  # the object ends before it
        found = filter_problem(data, batches, stored)
        if found is not None:
            place, problem, misses_keys = found
            yield Finding(
                file=read.object,
                position=position + place,
                offset=read.base_offset,
                problem=problem,
                is_damage=misses_keys,
            )


def _damage(read: PlannedRead, position: int, offset: int, problem: str) -> Finding:
    return Finding(file=read.object, position=position, offset=offset, problem=problem, is_damage=True)
