"""Runs stories of kills against one streaming query and counts the hits."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from exactly_once.kill_orders import Kill, KillFolder
from exactly_once.kill_stories import Run, Story
from exactly_once.log_place import Brokers, LogPlace, Objects, arguments_of, open_log
from exactly_once.micro_batches import MicroBatches
from exactly_once.numbered_rows import NumberedRows
from exactly_once.spark_process import QueryFailed, SparkProcess
from exactly_once.watching_reader import WatchingReader
from support.brokers.reachable_broker import ReachableBroker

ROWS_PER_BATCH = 15
TOO_BUSY = "Python worker failed to connect back"
"""The error of a query if the machine does not start a Python process within ten seconds. The query is started
again."""
MAX_STARTS = 5
RunsQueries = SparkProcess | MicroBatches


class KillMatrix:
    """One query, from `in` to `out`, and its checks; its log is in `folder`, at `broker`, or on `objects`.

    `log` has a line for each kill. `arguments` are those of a function of `query_host`, besides the place of the
    log.
    """

    def __init__(
        self,
        folder: Path,
        kills: KillFolder,
        *,
        forget_decisions: bool = False,
        query: str = "copy_stream",
        broker: ReachableBroker | None = None,
        objects: Objects | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        if broker is not None:
            self.place: LogPlace = Brokers(broker.bootstrap())
        else:
            self.place = objects or str(folder / "log")
        self.checkpoint = folder / "checkpoint"
        self.kills = kills
        self.rows = NumberedRows(self.place)
        self.reader = WatchingReader(self.place, self.checkpoint)
        self.log: list[str] = []
        self.hits: Counter[str] = Counter()
        self.broker_kills: list[str] = []
        self._broker = broker
        self._forget_decisions = forget_decisions
        self._query = query
        self._arguments = dict(arguments or {})

    def play(self, spark: RunsQueries, story: Story) -> None:
        for run in story.runs:
            if run.without_reader:
                with self.reader.pausing():
                    self._run(spark, story, run)
            else:
                self._run(spark, story, run)

    def _run(self, spark: RunsQueries, story: Story, run: Run) -> None:
        if run.repeats_last_batch:
            self._finish_last_batch(spark)
        self.add_batches(max((kill.nth for kill in run.kills), default=1))
        if run.repeats_last_batch:
            self.forget_last_commit()
        self.order(*run.kills, maintains_always=run.maintains_always)
        meanwhile = None
        if run.fenced_from_outside:
            meanwhile = self._take_over_from_who_waits
        elif run.restarts_broker:
            meanwhile = self._restart_broker
        failure = self.copy(spark, meanwhile=meanwhile)
        if run.maintains_always:
            # It runs in a thread behind a commit, and a process of Spark outlives the query.
            self.kills.wait_for_hits(len(run.kills))
        self.note_hits(story.name, run.kills, failure)
        assert run.fails in (None, failure is not None), f"{story.name}: {run}: {failure}"

    def order(self, *kills: Kill, maintains_always: bool = False) -> None:
        """The kills of the next run, whose processes forget decisions if those of this matrix do."""
        self.kills.order(*kills, forget_decisions=self._forget_decisions, maintains_always=maintains_always)

    def _finish_last_batch(self, spark: RunsQueries) -> None:
        """A new log has no batch yet. An unfinished batch would be run again anyway, also without the commit note of
        the one before it: then no decided batch is repeated."""
        if self.newest("offsets") < 0:
            self.add_batches(1)
        elif self.newest("offsets") == self.newest("commits"):
            return
        self.order()
        assert self.copy(spark) is None, "nobody was to be killed"

    def add_batches(self, count: int) -> None:
        """As many batches as the kill with the highest `nth` needs. Earlier runs may have left some."""
        begun = self.newest("offsets") + 1
        self.rows.add(max(0, ROWS_PER_BATCH * (begun + count) - self.rows.row_count))

    def copy(
        self, spark: RunsQueries, *, meanwhile: Callable[[], None] | None = None, checkpoint: Path | None = None
    ) -> str | None:
        """One run of the query, to the end of the input. Returns its error, if it failed. `meanwhile` runs when a
        process waits at the first kill."""
        for _ in range(MAX_STARTS):
            self.begin_copy(spark, checkpoint=checkpoint)
            if meanwhile is not None:
                self.kills.wait_for_hit()
                meanwhile()
                self.kills.go()
            failure = self.end_copy(spark)
            if failure is None or TOO_BUSY not in failure or self.kills.hits():
                break
        return failure

    def begin_copy(self, spark: RunsQueries, *, checkpoint: Path | None = None) -> None:
        spark.begin(
            self._query,
            **(arguments_of(self.place) if isinstance(spark, SparkProcess) else {"directory": self.place}),
            checkpoint=str(checkpoint or self.checkpoint),
            max_offsets=ROWS_PER_BATCH,
            **self._arguments,
        )

    def end_copy(self, spark: RunsQueries) -> str | None:
        try:
            spark.finish()
        except QueryFailed as failure:
            return str(failure)
        return None

    def note_hits(self, story: str, kills: tuple[Kill, ...], failure: str | None = None) -> None:
        """Asserts that every ordered kill was carried out."""
        hits = self.kills.hits()
        assert len(hits) == len(kills), f"{story}: ordered {list(map(str, kills))}, hit {hits}; the run: {failure}"
        for kill, hit in zip(kills, hits, strict=True):
            whom = hit.get("transactional_id", hit.get("driver_id", "")).split("-", 5)[-1] or hit["pid"]
            line = f"{story}: {kill}, of {whom}, batch {self.newest('offsets')}"
            self.log.append(line)
            print(line)
            if kill.action == "kill":
                self.hits[_place_of(kill)] += 1

    def die_at_each(self, spark: RunsQueries, story: str, *kills: Kill) -> None:
        """For each kill a new batch, and a run that fails."""
        for kill in kills:
            self.add_batches(1)
            self.kills.order(kill)
            assert self.copy(spark) is not None, kill
            self.note_hits(story, (kill,))

    def be_overtaken(self, spark: RunsQueries, other: RunsQueries) -> Path:
        """Two drivers of one query: `spark` waits before a commit, while `other` copies all with a copied checkpoint.
        Returns that one; the run of `spark` goes on."""
        self.kills.order()
        self.add_batches(1)
        assert self.copy(spark) is None
        copied = self.checkpoint.with_name("copied checkpoint")
        shutil.copytree(self.checkpoint, copied)
        self.watch(WatchingReader(self.place, self.checkpoint, copied))
        self.add_batches(2)
        self.kills.order(Kill(step="COMMITTING", action="wait"))
        self.begin_copy(spark)
        self.kills.wait_for_hit()
        assert self.copy(other, checkpoint=copied) is None
        self.kills.go()
        return copied

    def newest(self, folder: str, *, of: Path | None = None) -> int:
        """The highest batch in Spark's folder `offsets` or `commits`; -1: none."""
        names = [path.name for path in ((of or self.checkpoint) / folder).glob("[0-9]*")]
        return max((int(name) for name in names if name.isdigit()), default=-1)

    def watch(self, reader: WatchingReader) -> None:
        """Replaces the reader, which must not have found an error."""
        _, problems = self.reader.stop()
        assert problems == []
        self.reader = reader

    def forget_last_commit(self) -> None:
        """Leaves the checkpoint as a crash does between the sink's commit and Spark's."""
        last = self.newest("commits")
        for name in (str(last), f".{last}.crc"):
            (self.checkpoint / "commits" / name).unlink(missing_ok=True)

    def _take_over_from_who_waits(self) -> None:
        with closing(open_log(self.place)) as cluster:
            cluster.init_producer(self.kills.hits()[0]["driver_id"])

    def _restart_broker(self) -> None:
        assert self._broker is not None, "the log is in a directory"
        self._broker.restart()
        self.broker_kills.append(self.kills.hits()[0].get("step", "in a request"))

    def finish(self, spark: RunsQueries, *, is_source_order_kept: bool = True) -> list[str]:
        """A last run without faults. Returns the errors of the copy, and of what the reader saw of it."""
        self.order()
        failure = self.copy(spark)
        assert failure is None, failure
        seen, problems = self.reader.stop()
        if seen < self.rows.row_count:
            problems.append(f"the reader saw {seen} of {self.rows.row_count} rows")
        return problems + self.rows.problems(is_source_order_kept=is_source_order_kept)

    def close(self) -> None:
        self.reader.close()
        self.rows.close()


def _place_of(kill: Kill) -> str:
    if kill.write is not None:
        return f"{kill.step} + {kill.write.when} a write"
    if kill.objects is not None:
        return f"{kill.step} + {kill.objects.when} {kill.objects.request}"
    if kill.request is not None:
        return f"{kill.step} + {kill.request.when} request {kill.request.nth} of {kill.request.api}"
    return kill.step
