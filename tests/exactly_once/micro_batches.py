"""What Spark does around a streaming sink, without Spark and its JVM: so a kill costs milliseconds.

    offsets/<batch>     written before a batch runs; its input is read from there when it is repeated
    plan                a process of its own; what it gives travels to the tasks
    tasks               one for each partition of the input, all at once; one that dies or fails is tried again
    commit              a process of its own; when it fails, another one is told to abort
    commits/<batch>     written when the sink has committed

It answers as `spark_process.SparkProcess` does, and keeps a checkpoint with the same files.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from exactly_once import sink_process
from exactly_once.log_place import SOURCE, LogPlace, open_log, options_of, target_of
from exactly_once.numbered_rows import COLUMNS, SOURCE_PARTITIONS
from exactly_once.spark_process import QueryFailed
from fuzz.worker_process import LoopingProcess, is_running

from broker_core.model.identifiers import OffsetSpec, TopicPartition
from broker_core.record.columns import decode

ANSWER_SECONDS = 200
"""Longer than a restart of a real Kafka takes on a busy machine."""
POLL_SECONDS = 0.004


class Disturber(Protocol):
    """Faults besides the ordered kills. `undisturbed` has none."""

    def on_start(self, role: str, process: LoopingProcess) -> None:
        """A process was started: plan, task, commit or abort."""

    def is_lost(self, process: LoopingProcess) -> bool:
        """Whether the driver considers this process, which has not answered, dead."""

    def first_attempts(self, task: int) -> Sequence[int]:
        """The attempts of a task that start at once: speculation, or a retried stage."""

    def before_commit(self) -> None: ...

    def is_abort_called(self) -> bool: ...


class Undisturbed:
    def on_start(self, role: str, process: LoopingProcess) -> None:
        return

    def is_lost(self, process: LoopingProcess) -> bool:
        return False

    def first_attempts(self, task: int) -> Sequence[int]:
        return (0,)

    def before_commit(self) -> None:
        return

    def is_abort_called(self) -> bool:
        return True


@dataclass(slots=True)
class Attempts:
    """The attempts of one task. `message`: of the first one that returned."""

    rows: list[sink_process.Row]
    next_attempt: int = 0
    running: list[LoopingProcess] = field(default_factory=list)
    message: bytes | None = None


class MicroBatches:
    """`attempts_per_task` as in local[n,m]. `tells_checkpoint` False: the checkpoint is set for the whole session."""

    def __init__(
        self,
        kill_folder: Path,
        *,
        attempts_per_task: int = 2,
        tells_checkpoint: bool = True,
        disturber: Disturber | None = None,
    ) -> None:
        self._kill_folder = kill_folder
        self._attempts_per_task = attempts_per_task
        self._tells_checkpoint = tells_checkpoint
        self._disturber = disturber or Undisturbed()
        self._task_attempt_id = 0
        self._strays: list[LoopingProcess] = []
        self._started: set[LoopingProcess] = set()
        self._thread: threading.Thread | None = None
        self._outcome: Exception | None = None

    # -- as SparkProcess --

    def begin(self, function: str, **arguments: Any) -> None:
        assert function == "copy_stream" and self._thread is None
        self._outcome = None
        self._thread = threading.Thread(target=self._copy_or_fail, kwargs=arguments)
        self._thread.start()

    def finish(self) -> None:
        assert self._thread is not None
        self._thread.join()
        self._thread = None
        if isinstance(self._disturber, Undisturbed):
            # Else a kill that is ordered for the next run could hit a task that this one has left running.
            self.close()
        if self._outcome is not None:
            raise self._outcome

    def close(self) -> None:
        """Continues stopped processes and waits for the remaining ones: they have ended when this returns."""
        for process in self._strays:
            until = time.monotonic() + ANSWER_SECONDS
            while not process.has_more() and time.monotonic() < until:
                if is_running(process.pid):
                    os.kill(process.pid, signal.SIGCONT)
                time.sleep(POLL_SECONDS)
            self._kind_and_value(process)
            self._end(process)
        self._strays.clear()

    def kill(self) -> None:
        """Ends all processes, after a failed test, including stopped ones."""
        for process in list(self._started):
            self._end(process)

    def _copy_or_fail(self, **arguments: Any) -> None:
        try:
            self.copy_stream(**arguments)
        except Exception as error:
            self._outcome = error

    # -- the query --

    def copy_stream(
        self, *, directory: LogPlace, checkpoint: str, max_offsets: int, batch_count: int | None = None
    ) -> None:
        """Copies everything, or at most so many batches. Raises QueryFailed."""
        folder = Path(checkpoint)
        options = options_of(directory)
        if self._tells_checkpoint:
            options["checkpointLocation"] = checkpoint
        query_id = _query_id(folder)
        # As Spark: the last batch that was begun, unless it is noted as committed.
        first = _newest(folder / "offsets")
        if first < 0 or (folder / "commits" / str(first)).exists():
            first += 1
        with closing(open_log(directory)) as cluster:
            for batch in range(first, first + (batch_count or 1 << 30)):
                if not plan_batch(cluster, folder, batch, max_offsets):
                    return
                self._run_batch(options, query_id, batch, _rows_of(cluster, directory, folder, batch))
                (folder / "commits" / str(batch)).write_text("v1\n{}")

    def _run_batch(self, options: dict[str, str], query_id: str, batch: int, rows: list[list[Any]]) -> None:
        planner = self._start("plan", sink_process.plan, options)
        kind, writer = self._only_answer(planner)
        if kind != "planned":
            raise QueryFailed(f"planning {kind}: {writer}")
        tasks = [Attempts(rows=some) for some in rows]
        error = self._run_tasks(tasks, writer, query_id, batch)
        messages = [task.message for task in tasks]
        if error is None:
            self._disturber.before_commit()
            kind, value = self._only_answer(self._start("commit", sink_process.end, options, messages, batch, "commit"))
            if kind == "ended":
                return
            error = f"commit {kind}: {value}"
        if self._disturber.is_abort_called():
            self._only_answer(self._start("abort", sink_process.end, options, messages, batch, "abort"))
        raise QueryFailed(error)

    def _run_tasks(self, tasks: list[Attempts], writer: bytes, query_id: str, batch: int) -> str | None:
        """Waits until each has returned. Returns the error of one that failed for good."""

        def start(number: int, attempt: int) -> None:
            self._task_attempt_id += 1
            context = {
                "stageId": batch,
                "partitionId": number,
                "attemptNumber": attempt,
                "taskAttemptId": self._task_attempt_id,
                "localProperties": {"sql.streaming.queryId": query_id, "streaming.sql.batchId": str(batch)},
            }
            process = self._start("task", sink_process.write, writer, context, tasks[number].rows)
            tasks[number].running.append(process)
            tasks[number].next_attempt = max(tasks[number].next_attempt, attempt + 1)

        for number in range(len(tasks)):
            for attempt in self._disturber.first_attempts(number):
                start(number, attempt)
        error = None
        while error is None and any(task.message is None for task in tasks):
            time.sleep(POLL_SECONDS)
            for number, task in enumerate(tasks):
                why = self._look_at(task)
                if task.message is None and not task.running:
                    if task.next_attempt >= self._attempts_per_task:
                        error = f"task {number} failed {task.next_attempt} times: {why}"
                    else:
                        start(number, task.next_attempt)
        for task in tasks:
            # Copies of a task that has returned, and tasks of a batch that failed: nobody waits for them any more.
            self._strays += task.running
        return error

    def _look_at(self, task: Attempts) -> str:
        why = ""
        for process in list(task.running):
            if process.has_more():
                task.running.remove(process)
                kind, value = self._kind_and_value(process)
                self._end(process)
                if kind == "written" and task.message is None:
                    task.message = value
                why = f"{kind}: {value!r}"
            elif self._disturber.is_lost(process):
                task.running.remove(process)
                self._strays.append(process)
                why = "lost"
        return why

    def _start(self, role: str, body: Any, *arguments: Any) -> LoopingProcess:
        process = LoopingProcess(body, self._kill_folder, *arguments)
        self._started.add(process)
        self._disturber.on_start(role, process)
        return process

    def _end(self, process: LoopingProcess) -> None:
        process.close()
        self._started.discard(process)

    def _only_answer(self, process: LoopingProcess) -> tuple[str, Any]:
        until = time.monotonic() + ANSWER_SECONDS
        while not process.has_more():
            if self._disturber.is_lost(process):
                self._strays.append(process)
                return "lost", None
            if time.monotonic() > until:
                raise TimeoutError(f"process {process.pid} said nothing for {ANSWER_SECONDS} s")
            time.sleep(POLL_SECONDS)
        answer = self._kind_and_value(process)
        self._end(process)
        return answer

    @staticmethod
    def _kind_and_value(process: LoopingProcess) -> tuple[str, Any]:
        try:
            kind, value = process.take(ANSWER_SECONDS)
        except EOFError:
            return "died", None
        return kind, value


# -- the checkpoint --
def plan_batch(cluster: Any, folder: Path, batch: int, max_offsets: int) -> bool:
    """Stores the batch's input, unless it is stored already. False: there is nothing new."""
    path = folder / "offsets" / str(batch)
    if path.exists():
        return True
    partitions = [TopicPartition(SOURCE, number) for number in range(SOURCE_PARTITIONS)]
    found = cluster.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
    starts = ends_of(folder, batch - 1)
    ends = {
        str(partition.partition): min(
            found[partition].offset, starts.get(partition.partition, 0) + max_offsets // SOURCE_PARTITIONS
        )
        for partition in partitions
    }
    if all(ends[str(number)] == starts.get(number, 0) for number in range(SOURCE_PARTITIONS)):
        return False
    _write_if_absent(path, "v1\n{}\n" + json.dumps({SOURCE: ends}))
    return True


def ends_of(folder: Path, batch: int) -> dict[int, int]:
    if batch < 0:
        return {}
    document = json.loads((folder / "offsets" / str(batch)).read_text().splitlines()[2])
    return {int(number): end for number, end in document[SOURCE].items()}


def _rows_of(cluster: Any, place: LogPlace, folder: Path, batch: int) -> list[list[sink_process.Row]]:
    """For each partition: the topic of the copy, the key, and the row's offset."""
    starts, ends = ends_of(folder, batch - 1), ends_of(folder, batch)
    return [
        [
            (target_of(place, key), key, value)
            for key, value in _read(cluster, TopicPartition(SOURCE, number), starts.get(number, 0), end)
        ]
        for number, end in ends.items()
    ]


def _read(cluster: Any, partition: TopicPartition, offset: int, end: int) -> Any:
    while offset < end:
        fetched = cluster.fetch(partition, offset, max_bytes=1 << 20)
        rows = decode(fetched.buffer, from_offset=offset, until_offset=end, columns=COLUMNS).record_batch.to_pydict()
        for where, key, value in zip(rows["offset"], rows["key"], rows["value"], strict=True):
            yield key.decode(), value + f"|{partition.partition}|{where}".encode()
        offset = fetched.next_offset


def _query_id(folder: Path) -> str:
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    path = folder / "metadata"
    if not path.exists():
        _write_if_absent(path, json.dumps({"id": str(uuid4())}))
    return str(json.loads(path.read_text())["id"])


def _write_if_absent(path: Path, text: str) -> None:
    """Creates the file as a whole: a second driver on the same checkpoint may have been faster, and reads at any
    time."""
    draft = path.with_suffix(f".draft-{threading.get_ident()}")
    draft.write_text(text)
    with suppress(FileExistsError):
        os.link(draft, path)
    draft.unlink()


def _newest(folder: Path) -> int:
    return max((int(path.name) for path in folder.glob("[0-9]*") if path.name.isdigit()), default=-1)
