"""Reads every range of a partition and checks it, for `streamlog log dump` and `log verify`.

A damaged range is one finding with object and position; the walk continues with the next range. Nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from broker_core.model.exceptions import CorruptDataError, ObjectNotFoundError
from broker_core.model.identifiers import TopicPartition
from broker_core.object_cluster.batch_fetcher import BatchFetcher
from broker_core.object_cluster.object_lookups import partition_of
from broker_core.object_cluster.shared_log import SharedLog
from broker_core.object_log.log_image import LogImage
from broker_core.object_log.read_plan import PlannedRead, plan_read
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

        def plan_all(image: LogImage) -> tuple[PlannedRead, ...]:
            _, found = partition_of(image, partition)
            return plan_read(found, found.log_start_offset, found.log_end_offset)

        for read in self._log.read(plan_all):
            yield self._inspect(read)

    def _inspect(self, read: PlannedRead) -> InspectedRange:
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
        return InspectedRange(read.size_bytes, tuple(batches), tuple(findings))


def _damage(read: PlannedRead, position: int, offset: int, problem: str) -> Finding:
    return Finding(file=read.object, position=position, offset=offset, problem=problem, is_damage=True)
