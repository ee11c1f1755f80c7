"""A read-committed reader in a process of its own, which looks at every row from the first kill to the last.

For each row: it never came before; it comes behind the earlier rows of its key and of its input partition; and its
micro-batch is decided. The batch is found in the checkpoint (`offsets/<batch>` says where each batch ends), the
decision in the log, asked for after the row was read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path

from exactly_once.log_place import LogPlace, open_log
from exactly_once.numbered_rows import SOURCE, CommittedReader, Copy, copy_of, order_problems
from fuzz.worker_process import LoopingProcess

from broker_core.model.identifiers import TopicPartition

DECISION_PARTITION = TopicPartition("__consumer_offsets", 0)
POLL_SECONDS = 0.01
KEPT_PROBLEMS = 50


class WatchingReader:
    """`decision_group` is asked for decisions; None: it is the sink's of the query that the checkpoint names.

    `checkpoints`: of one query, a copy included.
    """

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
        """Away for a while: a reader takes part in ending what is decided, so a writer may find nothing left to do."""
        self._process.send("pause")
        assert self._process.take() == "paused"
        yield
        self._process.send("go on")

    def stop(self) -> tuple[int, list[str]]:
        """How many rows it saw, and what was wrong with them. It has read to the end when this returns."""
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
    reader = CommittedReader(cluster)
    batches = CheckpointedBatches(checkpoints, decision_group)
    seen: dict[tuple[int, int], Copy] = {}
    problems: list[str] = []
    is_last_look = False
    while True:
        copies = [copy_of(row) for row in reader.read_on()]
        if copies:
            found = cluster.fetch_offsets(batches.decision_group(), [DECISION_PARTITION])
            decided = found[DECISION_PARTITION].offset if found else -1
            for copy in copies:
                place = (copy.source_partition, copy.source_offset)
                if place in seen:
                    problems.append(f"{copy} was there before: {seen[place]}")
                batch = batches.batch_of(*place)
                if batch > decided:
                    problems.append(f"{copy} is of batch {batch}, and batch {decided} is the last one decided")
                seen[place] = copy
        if is_last_look:
            problems += order_problems(list(seen.values()), is_source_order_kept=is_source_order_kept)
            connection.send((len(seen), problems[:KEPT_PROBLEMS]))
            return
        is_last_look = connection.poll(POLL_SECONDS) and _is_stopped(connection)


def _is_stopped(connection: Connection) -> bool:
    if connection.recv() == "stop":
        return True
    connection.send("paused")
    assert connection.recv() == "go on"
    return False


class CheckpointedBatches:
    """Which micro-batch a row of the input belongs to, as the query's checkpoint has it."""

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
        """A batch is written down before it runs, so the batch of a row that was read is there."""
        number = 0
        while True:
            if number == len(self._ends):
                self._ends.append(self._read(number))
            if offset < self._ends[number].get(partition, 0):
                return number
            number += 1

    def _read(self, number: int) -> dict[int, int]:
        # The first line is a version, the second one Spark's own; one line a source follows.
        paths = [checkpoint / "offsets" / str(number) for checkpoint in self._checkpoints]
        text = next(path for path in paths if path.exists()).read_text().splitlines()[2]
        return {int(partition): end for partition, end in json.loads(text)[SOURCE].items()}
