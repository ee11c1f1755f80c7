"""What micro-batches and a million rows cost on object storage: the table of docs/object-storage.md, computed again.

Driver and tasks are processes of their own without Spark: planner, writer and reader are the ones that Spark calls.
"""

import pickle
from functools import reduce
from unittest.mock import patch

import pyarrow as pa
import pytest
from support.documents.page_examples import ROOT
from support.objects.counted_objects import CallsInTurns, Count, CountedLog
from support.spark.read_query import read_options

from broker_core.staged_writes import AppVersion
from broker_core.topic_producer import TopicProducer
from spark_streamlog.open_cluster import known_state, one_look
from spark_streamlog.options.option_reader import QueryKind
from spark_streamlog.source import fetch_ahead
from spark_streamlog.source.fetch_plans import with_fetch_plans
from spark_streamlog.source.offset_reader import OffsetReader
from spark_streamlog.source.range_reader import read_ranges
from spark_streamlog.source.stream_planner import StreamPlanner

TASKS = 4
VALUE_BYTES = 100
HEADING = "| 4 tasks, 4 partitions, values of 100 B | requests | bytes | in sequence |"


class Costs:
    """Two queries, one that writes and one that reads: their drivers, and tasks that know only what they are sent."""

    def __init__(self):
        self.log = CountedLog()
        self.writer, self.writer_store = self.log.process()
        self.writer.create_topic("t", partition_count=TASKS, configs={"retention.ms": "-1"})
        self.driver, self.driver_store = self.log.process()
        self.options = read_options(QueryKind.STREAM, path="objects:///log", startingOffsets="earliest")
        self.planner = StreamPlanner(OffsetReader(self.driver, self.options), self.options, now_ms=lambda: 0)
        self.tasks = [self.log.process() for _ in range(TASKS)]
        self.start = self.planner.initial_offset()
        self.version = 0
        # What a process has to find out once belongs to no micro-batch.
        self.writer_store.taken()
        self.write(TASKS)
        self.read()

    def write(self, row_count):
        """(what the driver asked, what the tasks asked) for a micro-batch."""
        self.version += 1
        plan = self.writer.plan_staging(["t"], "query")
        staged = [pickle.loads(pickle.dumps(self._staged(task, plan, row_count))) for task in range(TASKS)]
        in_tasks = reduce(Count.__add__, (store.taken() for _, store in self.tasks))
        outcome = self.writer.commit_staged(staged, app=AppVersion(app_id="query", version=self.version), plan=plan)
        assert outcome.is_new
        return self.writer_store.taken(), in_tasks

    def _staged(self, task, plan, row_count):
        cluster, _ = self.tasks[task]
        upload = cluster.stage(pickle.loads(pickle.dumps(plan)))
        producer = TopicProducer(
            upload,
            find_topic=lambda name: plan.topic(name),
            now_ms=self.log.clock.now_ms,
            first_partition=task,
        )
        rows = row_count // TASKS
        values = pa.array([b"%0*d" % (VALUE_BYTES, row) for row in range(rows)], pa.binary())
        partitions = pa.array([row * TASKS // rows for row in range(rows)], pa.int32())
        producer.add("t", pa.record_batch({"value": values, "partition": partitions}))
        producer.flush()
        return upload.finish()

    def read(self):
        """The same for a micro-batch of all rows that are new, and how many they are."""
        with one_look(self.driver):
            end = self.planner.latest_offset(self.start, max_offsets=None, is_limited=False)
        with known_state(self.driver):
            tasks = with_fetch_plans(self.driver, self.planner.tasks_of(self.planner.plan(self.start, end)))
        in_driver = self.driver_store.taken()
        self.start = end
        row_count, in_tasks = 0, Count()
        for ranges in pickle.loads(pickle.dumps(tasks)):
            cluster, store = self.log.process()
            with patch.object(fetch_ahead, "BackgroundCall", CallsInTurns(store)):
                row_count += sum(rows.num_rows for rows in read_ranges(cluster, ranges, self.options))
            in_tasks += store.taken()
        return in_driver, in_tasks, row_count


@pytest.fixture(scope="module")
def table():
    """The rows of the table by their names."""
    costs = Costs()
    rows = {}
    rows["idle trigger of a stream"], in_tasks, count = costs.read()
    assert (count, in_tasks) == (0, Count())
    for name, row_count in (("micro-batch of 1,000 rows", 1_000), ("1,000,000 rows", 1_000_000)):
        rows[f"{name}, written: driver"], rows[f"{name}, written: tasks"] = costs.write(row_count)
        rows[f"{name}, read: driver"], rows[f"{name}, read: tasks"], count = costs.read()
        assert count == row_count
    return rows


def test_the_documented_table_is_what_is_counted(table):
    page = (ROOT / "docs" / "object-storage.md").read_text()
    _, _, behind = page.partition(HEADING + "\n")
    shown = behind.partition("\n\n")[0].splitlines()[1:]
    assert shown == [
        f"| {name} | {count.requests} | {_bytes(count)} | {count.turns} |" for name, count in table.items()
    ]


def test_the_requests_of_micro_batches_are_within_their_bars(table):
    idle, written = table["idle trigger of a stream"], "micro-batch of 1,000 rows, written: "
    read = "micro-batch of 1,000 rows, read: "
    assert idle.requests == 1
    assert table[f"{written}driver"].requests + table[f"{written}tasks"].requests <= TASKS + 2
    assert table[f"{read}driver"].turns + table[f"{written}driver"].turns <= 3


def test_a_million_rows_move_little_more_than_their_values(table):
    for name in ("1,000,000 rows, written: tasks", "1,000,000 rows, read: tasks"):
        assert 1 <= table[name].size_bytes / (1_000_000 * VALUE_BYTES) < 1.15


def _bytes(count):
    size = count.size_bytes
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.1f} kB"
