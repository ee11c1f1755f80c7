"""The machine on `EmbeddedCluster`, each handle in a process of its own: one works, all must see what it did."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from fuzz.log_machine import LogMachine, read_everything
from fuzz.worker_process import ClusterProcess

from broker_core.cluster import AppendResult, FetchedBatches, OffsetAndTimestamp, PartitionBounds
from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.model.identifiers import IsolationLevel, OffsetSpec, TopicPartition

PARTITION = TopicPartition("t", 0)


class ProcessLog:
    def __init__(self, directory: str, now_ms: int) -> None:
        self._process = ClusterProcess(directory, now_ms)
        self._folder = Path(directory) / str(PARTITION)

    def append(self, batches: bytearray, now_ms: int) -> AppendResult:
        before = self._newest_segment()
        result = self._process.call("append", PARTITION, batches, now_ms=now_ms)
        if self._newest_segment() != before:
            self._process.reopen()  # closing waits for the retention and compaction that a roll sets off
        return result

    def _newest_segment(self) -> str:
        return max(path.name for path in self._folder.glob("*.log"))

    def bounds(self) -> PartitionBounds:
        return self._process.call("bounds", PARTITION)

    def read(self, from_offset: int, max_bytes: int, isolation: IsolationLevel) -> FetchedBatches:
        return self._process.call("fetch", PARTITION, from_offset, max_bytes=max_bytes, isolation=isolation)

    def find_timestamp(self, timestamp_ms: int) -> OffsetAndTimestamp | None:
        return self._process.call("list_offsets", {PARTITION: timestamp_ms})[PARTITION]

    def find_max_timestamp(self) -> OffsetAndTimestamp | None:
        return self._process.call("list_offsets", {PARTITION: OffsetSpec.MAX_TIMESTAMP})[PARTITION]

    def delete_records(self, before_offset: int) -> int:
        return self._process.call("delete_records", PARTITION, before_offset)

    def new_producer_id(self) -> int:
        return self._process.call("init_producer").producer_id

    def reopen(self) -> None:
        self._process.reopen()

    def close(self) -> None:
        self._process.close()


class ProcessMachine(LogMachine):
    def open_logs(self, configs: dict[str, str]) -> list[ProcessLog]:
        self.directory = tempfile.mkdtemp(prefix="streamlog-fuzz-")
        cluster = open_embedded(self.directory, create=True)
        cluster.create_topic("t", configs=configs)
        cluster.close()
        return [ProcessLog(self.directory, self.now_ms) for _ in range(3)]

    def after_append(self, handle: int) -> None:
        """A roll runs retention and compaction: the model is told what they took, and checks that they might."""
        log = self.logs[handle]
        start = log.bounds().log_start_offset
        if start > self.model.log_start_offset:
            assert "delete" in self.configs["cleanup.policy"]
            assert start <= self.model.log_end_offset
            self.model.start_at(start)
        if self.is_compacted:
            rows = read_everything(log, start, 10**6, IsolationLevel.READ_UNCOMMITTED)
            self.model.compacted({row.offset for row in rows}, until_offset=self.model.log_end_offset)

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            if self.logs:
                shutil.rmtree(self.directory)
