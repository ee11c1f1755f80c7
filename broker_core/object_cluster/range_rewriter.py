"""Rewrites ranges: unchanged in larger ranges, or compacted. Writes one object with bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from broker_core.log.compaction import Compaction
from broker_core.model.limits import COMPACTION_MEMORY_BYTES
from broker_core.object_cluster.batch_fetcher import BatchFetcher
from broker_core.object_cluster.log_ports import LogPorts
from broker_core.object_log.data_range import DataRange, PlacedRange
from broker_core.object_log.maintenance_plan import MERGED_RANGE_BYTES, RewriteJob
from broker_core.object_log.object_names import data_path
from broker_core.object_log.range_filter import MIN_FILTERED_RANGE_BYTES, build_range_filter
from broker_core.object_log.read_plan import planned_read
from broker_core.object_log.stored_batches import seal_placed
from broker_core.ports import ObjectUpload

_DIGEST_KEY_BYTES: Final = 16


class RewrittenRanges:
    """The upload of a rewrite. Nothing refers to it before it is committed."""

    def __init__(self, outputs: tuple[PlacedRange, ...], job: RewriteJob, clean_until: int | None) -> None:
        self.outputs = outputs
        self.job = job
        self.clean_until = clean_until

    @property
    def size_bytes(self) -> int:
        return sum(placed.data.size_bytes for placed in self.outputs)


class RangeRewriter:
    """Errors leave an unreferenced object, or none."""

    def __init__(self, ports: LogPorts, fetcher: BatchFetcher) -> None:
        self._ports = ports
        self._fetcher = fetcher

    def merge(self, job: RewriteJob) -> RewrittenRanges:
        """Raises ObjectStoreError, CorruptBatchError."""
        outputs = self._write(job.from_offset, job.until_offset, (self._read(placed) for placed in job.inputs))
        return RewrittenRanges(outputs, job, None)

    def compact(self, job: RewriteJob) -> tuple[RewrittenRanges, bool]:
        """(the upload, whether another pass should follow because the keys did not fit into memory)."""
        assert job.compaction is not None, "a job without a compaction"
        compaction = Compaction(
            job.compaction,
            config=job.config,
            now_ms=self._ports.clock.now_ms(),
            memory_bytes=COMPACTION_MEMORY_BYTES,
            digest_key=self._ports.entropy.random_bytes(_DIGEST_KEY_BYTES),
            aborted=(),
            producers={},
        )
        for placed in job.inputs:
            if placed.end_offset <= job.compaction.first_dirty_offset:
                continue
            if compaction.index(self._read(placed)):
                break
        compaction.end_index()
        inputs = tuple(placed for placed in job.inputs if placed.base_offset < compaction.end_offset)
        job = RewriteJob(
            topic_id=job.topic_id,
            topic=job.topic,
            partition=job.partition,
            inputs=inputs,
            compaction=job.compaction,
            config=job.config,
        )
        outputs = self._write(
            job.from_offset, job.until_offset, (compaction.clean(self._read(placed)) for placed in inputs)
        )
        return RewrittenRanges(outputs, job, compaction.end_offset), compaction.is_full

    def _read(self, placed: PlacedRange) -> bytearray:
        return self._fetcher.read_range(planned_read(placed))

    def _write(self, from_offset: int, until_offset: int, parts: Iterator[bytearray]) -> tuple[PlacedRange, ...]:
        """Ranges of about MERGED_RANGE_BYTES that together cover the offsets."""
        path = data_path(self._ports.clock.now_ms(), self._ports.entropy.random_bytes(16))
        writing = _OutputObject(self._ports, path)
        try:
            gathered = bytearray()
            for part in parts:
                if gathered and len(gathered) + len(part) > MERGED_RANGE_BYTES:
                    writing.put(gathered)
                    gathered = bytearray()
                gathered += part
            if gathered:
                writing.put(gathered)
            return writing.finish(from_offset, until_offset)
        except BaseException:
            writing.abort()
            raise


class _OutputObject:
    def __init__(self, ports: LogPorts, path: str) -> None:
        self._ports = ports
        self._path = path
        self._upload: ObjectUpload | None = None
        self._position = 0
        self._ranges: list[PlacedRange] = []

    def put(self, batches: bytearray) -> None:
        """Batches with offsets of the log."""
        base_offset = int.from_bytes(batches[:8], "big")
        sealed = seal_placed(batches, base_offset=base_offset)
        if self._upload is None:
            self._upload = self._ports.store.upload(self._path)
        self._upload.write(batches)
        key_filter = build_range_filter(batches, least_bytes=MIN_FILTERED_RANGE_BYTES)
        if key_filter:
            self._upload.write(key_filter)
        data = DataRange(self._path, self._position, len(batches), *sealed, filter_bytes=len(key_filter))
        self._ranges.append(PlacedRange(base_offset, data))
        self._position += len(batches) + len(key_filter)

    def finish(self, from_offset: int, until_offset: int) -> tuple[PlacedRange, ...]:
        """Each range extends to the next one, the last one to the end, and so includes the offsets that compaction
        removed."""
        if self._upload is not None:
            self._upload.finish()
        ends = [placed.base_offset for placed in self._ranges[1:]] + [until_offset]
        return tuple(
            PlacedRange(placed.base_offset, placed.data._replace(offset_count=end - placed.base_offset))
            for placed, end in zip(self._ranges, ends, strict=True)
        )

    def abort(self) -> None:
        if self._upload is not None:
            self._upload.abort()
