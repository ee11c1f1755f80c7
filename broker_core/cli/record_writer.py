"""Writes records of some partitions to standard output, up to the current end, then commits them for a group."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from broker_core.cli.group_commits import GroupCommits
from broker_core.cli.partition_consumer import PartitionConsumer
from broker_core.cli.record_text import Renderer
from broker_core.cli.screen import ByteProgress
from broker_core.cli.stop_signals import StopSignals
from broker_core.cluster import Cluster
from broker_core.model.identifiers import IsolationLevel


class RecordWriter:
    """Continues after its last record: `write_present` may be called again when the log has grown."""

    def __init__(
        self,
        cluster: Cluster,
        readers: Sequence[PartitionConsumer],
        render: Renderer,
        isolation: IsolationLevel,
        commits: GroupCommits | None,
    ) -> None:
        self._cluster = cluster
        self._readers = list(readers)
        self._render = render
        self._isolation = isolation
        self._commits = commits

    def add(self, readers: Sequence[PartitionConsumer]) -> None:
        """More partitions, from the next call on."""
        self._readers += readers

    def write_present(self, stop: StopSignals, progress: ByteProgress) -> None:
        """Writes the records up to the current end, flushes and commits. A signal ends it after whole records."""
        output = sys.stdout.buffer
        for reader in self._readers:
            end = self._cluster.bounds(reader.partition).readable_end(self._isolation)
            for batch, count_bytes in reader.read(end):
                output.write(self._render(reader.partition, batch))
                progress.advance(count_bytes)
                if self._commits is not None:
                    self._commits.maybe_commit(self._readers, output)
                if stop.received is not None:
                    break
            if stop.received is not None:
                break
        output.flush()
        if self._commits is not None:
            self._commits.commit(self._readers, output)
