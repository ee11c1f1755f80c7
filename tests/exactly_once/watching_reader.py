"""A read-committed reader in another process, which checks every row from the first kill to the last.

For each row: it is no duplicate; it comes after the earlier rows of its key and of its input partition; and its
micro-batch is decided. The batch is found in the checkpoint (`offsets/<batch>` has the end of each batch), the decision
in the log, which is read after the row.

On object storage a read of all partitions of both topics is at one instant of the log, so it must find all rows of a
batch or none.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from exactly_once.log_place import SOURCE, LogPlace, Objects, open_log, targets_of
from exactly_once.numbered_rows import CommittedReader, Copy, copy_of, order_problems
from fuzz.worker_process import LoopingProcess

from broker_core.cluster import Cluster
from broker_core.model.identifiers import OffsetSpec, TopicPartition

DECISION_PARTITION = TopicPartition("__consumer_offsets", 0)
POLL_SECONDS = 0.01
KEPT_PROBLEMS = 50


class WatchingReader:
    """`decision_group`: the group with the decisions; None: that of the query whose id is in the checkpoint.
    `checkpoints`: of one query, including copies."""

    def __init__(
        self,
        place: LogPlace,
        *checkpoints: Path,
        decision_group: str | None = None,
        is_source_order_kept: bool = True,
    ) -> None:
        self._process = LoopingProcess(_watch, place, checkpoints, decision_group, is_source_order_kept)

    @contextmanager
    def pausing(self) -> Iterator[None]:
        """Stops the reader for a while: it helps to end decided transactions, so that a writer may find none."""
        self._process.send("pause")
        assert self._process.take() == "paused"
        yield
        self._process.send("go on")

    def stop(self) -> tuple[int, list[str]]:
        """Returns the number of rows and their errors. It has read to the end when this returns."""
        try:
            with suppress(BrokenPipeError):  # it has failed: `take` says how
                self._process.send("stop")
            seen, problems = self._process.take()
        finally:
            self._process.close()
        return seen, problems

    def close(self) -> None:
        self._process.close()


def _watch(
    connection: Connection,
    place: LogPlace,
    checkpoints: Sequence[Path],
    decision_group: str | None,
    is_source_order_kept: bool,
) -> None:
    cluster = open_log(place)
    reader = CommittedReader(cluster, targets_of(place))
    look, last_decided = _look, _last_decided
    if isinstance(place, Objects):
        look, last_decided = _look_at_one_instant, _last_version
    batches = CheckpointedBatches(checkpoints, decision_group)
    seen: dict[tuple[int, int], Copy] = {}
    problems: list[str] = []
    is_last_look = False
    while True:
        copies = look(cluster, reader)
        if copies:
            decided = last_decided(cluster, batches.decision_group())
            row_counts: Counter[int] = Counter()
            for copy in copies:
                origin = (copy.source_partition, copy.source_offset)
                if origin in seen:
                    problems.append(f"{copy} was there before: {seen[origin]}")
                batch = batches.batch_of(*origin)
                row_counts[batch] += 1
                if batch > decided:
                    problems.append(f"{copy} is of batch {batch}, and batch {decided} is the last one decided")
                seen[origin] = copy
            if isinstance(place, Objects):
                problems += batches.torn(row_counts)
        if is_last_look:
            problems += order_problems(list(seen.values()), is_source_order_kept=is_source_order_kept)
            connection.send((len(seen), problems[:KEPT_PROBLEMS]))
            return
        is_last_look = connection.poll(POLL_SECONDS) and _is_stopped(connection)


def _look(cluster: Cluster, reader: CommittedReader) -> list[Copy]:
    return [copy_of(row) for row in reader.read_on()]


def _look_at_one_instant(cluster: Any, reader: CommittedReader) -> list[Copy]:
    with cluster.one_look():
        cluster.list_offsets(dict.fromkeys(reader.partitions, OffsetSpec.LATEST))
        return _look(cluster, reader)


def _last_decided(cluster: Cluster, group: str) -> int:
    found = cluster.fetch_offsets(group, [DECISION_PARTITION])
    return found[DECISION_PARTITION].offset if found else -1


def _last_version(cluster: Any, group: str) -> int:
    found = cluster.last_version(group)
    return -1 if found is None else found.version


def _is_stopped(connection: Connection) -> bool:
    if connection.recv() == "stop":
        return True
    connection.send("paused")
    assert connection.recv() == "go on"
    return False


class CheckpointedBatches:
    """The micro-batch of an input row, according to the query's checkpoint."""

    def __init__(self, checkpoints: Sequence[Path], decision_group: str | None) -> None:
        self._checkpoints = checkpoints
        self._decision_group = decision_group
        self._ends: list[dict[int, int]] = []

    def decision_group(self) -> str:
        if self._decision_group is None:
            query_id = json.loads((self._checkpoints[0] / "metadata").read_text())["id"]
            self._decision_group = f"streamlog-sink-{query_id}"
        return self._decision_group

    def batch_of(self, partition: int, offset: int) -> int:
        """A batch is stored before it runs, so the batch of a row that was read is there."""
        number = 0
        while True:
            if number == len(self._ends):
                self._ends.append(self._read(number))
            if offset < self._ends[number].get(partition, 0):
                return number
            number += 1

    def torn(self, row_counts: Mapping[int, int]) -> Iterator[str]:
        """Batches of which a read found only some rows, or duplicates."""
        for batch, count in row_counts.items():
            before = self._ends[batch - 1] if batch else {}
            whole = sum(end - before.get(partition, 0) for partition, end in self._ends[batch].items())
            if count != whole:
                yield f"a look has found {count} of {whole} rows of batch {batch}"

    def _read(self, number: int) -> dict[int, int]:
        # The first line is a version, the second one Spark's own; one line a source follows.
        paths = [checkpoint / "offsets" / str(number) for checkpoint in self._checkpoints]
        text = next(path for path in paths if path.exists()).read_text().splitlines()[2]
        return {int(partition): end for partition, end in json.loads(text)[SOURCE].items()}
