"""A stream between object logs on a cluster whose workers share no folder, neither with the driver nor with each other.

Killed are Python processes, executors, a whole worker, and whole drivers. The negative controls take one protection
away on this cluster, and the same account of rows must find what that does.
"""

import random

import pytest
from exactly_once.kill_matrix import KillMatrix
from exactly_once.kill_orders import Kill, KillFolder
from exactly_once.kill_stories import task_kill
from exactly_once.log_place import Objects
from exactly_once.object_stories import (
    COMMIT,
    DECIDED,
    FINISH,
    LOOK,
    OBJECT_STORIES,
    ROWS_READ,
    SKIPPED,
    SOURCE_PROCESS,
    SOURCE_STORIES,
    STEPS,
    UPLOAD,
    at_request,
    in_task,
    random_object_story,
)
from exactly_once.spark_process import SparkDied, SparkProcess
from exactly_once.standalone_cluster import StandaloneCluster, why_no_mounts_of_their_own
from support.objects.s3_servers import BUCKET, versitygw

pytestmark = [pytest.mark.long, pytest.mark.timeout(7200)]

LEAST_KILLS = 100
CONF = {
    "spark.task.maxFailures": "2",  # as in the stories, which local[2,2] plays too
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.excludeOnFailure.enabled": "false",
}
EXECUTOR_KILLS = (
    *(task_kill(step, task=task) for task, step in enumerate(("TASK_STARTED", "TASK_MAY_WRITE", "TASK_FLUSHED"))),
    in_task("TASK_MAY_WRITE", UPLOAD, when="after", task=1),
    in_task("TASK_MAY_WRITE", FINISH, task=2),
    in_task("TASK_MAY_WRITE", FINISH, when="after"),
    at_request("", ROWS_READ, process="pyspark.worker"),
)
DRIVER_KILLS = {
    "as it looks for new rows": at_request("", LOOK, process=SOURCE_PROCESS, when="after", nth=2),
    "at planning": Kill(step="PLANNING"),
    "before the commit": Kill(step="COMMITTING"),
    "before the request that commits": at_request("COMMITTING", COMMIT),
    "with the commit's answer unread": at_request("COMMITTING", COMMIT, when="after"),
    "with the batch committed": Kill(step="DECIDED"),
    "before Spark's own commit": Kill(step="COMMITTED"),
    "after Spark's own commit": Kill(step="PLANNING", nth=2),
    "in the next batch": Kill(step="COMMITTING", nth=2),
}


class ClusterMatrix:
    """A matrix, the cluster of its drivers, and the current driver."""

    def __init__(self, cluster, matrix, **conf):
        self.cluster = cluster
        self.matrix = matrix
        self._conf = CONF | conf
        self.spark = self._driver()

    def _driver(self):
        return SparkProcess(
            self.matrix.kills.path, master=self.cluster.master, conf=self._conf, environment=self.cluster.environment
        )

    def replace_driver(self):
        self.spark.kill()
        self.spark.close()
        self.spark = self._driver()


@pytest.fixture
def on_cluster(tmp_path, request):
    if reason := why_no_mounts_of_their_own():
        pytest.skip(reason)
    own = tmp_path / "driver's own"
    own.mkdir()
    kills = KillFolder(tmp_path / "kills")
    with versitygw(own / "store") as server, StandaloneCluster(kills.path, not_shared=own) as cluster:
        objects = Objects(f"s3://{BUCKET}/on-cluster/log", tuple(server.options().items()))
        given = dict(getattr(request, "param", {}))
        matrix = KillMatrix(own, kills, objects=objects, **given.pop("matrix", {}))
        held = ClusterMatrix(cluster, matrix, **given)
        try:
            yield held
        finally:
            held.spark.close()
            matrix.close()


def test_a_hundred_kills_on_machines_that_share_no_folder_lose_and_repeat_no_row(on_cluster, tmp_path):
    matrix = on_cluster.matrix
    own = tmp_path / "driver's own"
    assert any(own.iterdir()), "nothing is hidden"
    assert on_cluster.spark.call("entries_seen_by_tasks", folder=str(own)) == [[], [], [], []]
    for kill in EXECUTOR_KILLS:
        kill_an_executor(on_cluster, kill.of("executor"))
    kill_a_worker(on_cluster)
    for story in (*OBJECT_STORIES, *SOURCE_STORIES, DECIDED):
        matrix.play(on_cluster.spark, story)
    on_cluster.replace_driver()
    matrix.play(on_cluster.spark, SKIPPED)
    assert {kill.split(" + ")[0] for kill in matrix.hits} - {""} == STEPS, "a step was never hit"
    rng = random.Random(7)
    while matrix.hits.total() < LEAST_KILLS:
        matrix.play(on_cluster.spark, random_object_story(rng, are_plans_fresh=False))
    assert matrix.finish(on_cluster.spark) == []
    print(f"{matrix.hits.total()} kills, {matrix.rows.row_count} rows")
    for place, count in sorted(matrix.hits.items()):
        print(f"{count} x {place}")


def test_whole_drivers_that_die_lose_and_repeat_no_row(on_cluster):
    for name, kill in DRIVER_KILLS.items():
        kill_the_driver(on_cluster, name, kill)
    assert on_cluster.matrix.finish(on_cluster.spark) == []


@pytest.mark.parametrize("on_cluster", [{"matrix": {"forget_decisions": True}}], indirect=True)
def test_control_without_a_look_at_the_version_a_dead_driver_repeats_rows(on_cluster):
    name = "with the commit's answer unread"
    kill_the_driver(on_cluster, name, DRIVER_KILLS[name])
    problems = on_cluster.matrix.finish(on_cluster.spark)
    assert any("was there before" in problem for problem in problems), "the reader saw nothing"
    assert any(" came " in problem for problem in problems), "the copy is whole"


@pytest.mark.parametrize("on_cluster", [{"matrix": {"arguments": {"delivery": "at-least-once"}}}], indirect=True)
def test_control_without_one_commit_of_all_tasks_a_dead_executor_repeats_rows(on_cluster):
    committed = at_request("", COMMIT, process="pyspark.worker", when="after")
    kill_an_executor(on_cluster, committed.of("executor"))
    problems = on_cluster.matrix.finish(on_cluster.spark)
    assert any(" came " in problem for problem in problems), "the copy is whole"


def kill_the_driver(on_cluster, name, kill):
    """JVM and Python: the executors lose their driver."""
    matrix = on_cluster.matrix
    matrix.add_batches(2)
    matrix.order(kill.of("driver"))
    before = matrix.newest("commits")
    with pytest.raises(SparkDied):
        matrix.copy(on_cluster.spark)
    matrix.note_hits(f"the driver dies {name}", (kill.of("driver"),))
    assert matrix.newest("commits") - before == (name in ("after Spark's own commit", "in the next batch")), name
    on_cluster.replace_driver()
    matrix.order()
    assert matrix.copy(on_cluster.spark) is None, name


def kill_a_worker(on_cluster):
    """While a task of each is stopped after its upload."""
    matrix = on_cluster.matrix
    matrix.add_batches(1)
    waits = task_kill("TASK_FLUSHED", action="wait")
    matrix.kills.order(waits)
    matrix.begin_copy(on_cluster.spark)
    matrix.kills.wait_for_hit()
    on_cluster.cluster.kill_worker(0)
    matrix.kills.go()
    assert matrix.end_copy(on_cluster.spark) is None
    matrix.note_hits("a worker dies", (waits,))


def kill_an_executor(on_cluster, kill):
    matrix = on_cluster.matrix
    matrix.add_batches(1)
    matrix.kills.order(kill)
    assert matrix.copy(on_cluster.spark) is None, kill
    matrix.note_hits("an executor dies", (kill,))


@pytest.mark.parametrize(
    "on_cluster",
    [
        {
            "spark.task.maxFailures": "4",
            "spark.speculation": "true",
            "spark.speculation.interval": "20ms",
            "spark.speculation.quantile": "0.5",
            "spark.speculation.multiplier": "1.1",
            "spark.speculation.minTaskRuntime": "50ms",
        }
    ],
    indirect=True,
)
def test_a_slow_task_is_run_a_second_time_beside_the_first_and_its_rows_come_once(on_cluster):
    matrix = on_cluster.matrix
    for step in ("TASK_MAY_WRITE", "TASK_APPENDED", "TASK_FLUSHED"):
        matrix.add_batches(2)
        slow = task_kill(step, task=2, action="wait")
        faster = task_kill("TASK_FLUSHED", task=2, attempt=1, action="go")
        matrix.kills.order(slow, faster)
        assert matrix.copy(on_cluster.spark) is None, step
        matrix.note_hits("a slow task", (slow, faster))
    assert matrix.finish(on_cluster.spark) == []
